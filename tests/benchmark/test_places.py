"""Lines of a TOML file, against tomllib for what there is and against a writer for where it is."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitta.benchmark.places import places

LETTERS = st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"))
WORDS = st.text(LETTERS, max_size=4)
SIGNS = st.text(st.sampled_from("ab=#[]{},.'\"\\ \t"), max_size=5)
BARE = st.from_regex(r"[A-Za-z0-9_-]{1,3}", fullmatch=True)
PLAIN = st.sampled_from(
    ["1", "-0.5", "1e9", "0xff", "inf", "nan", "true", "1979-05-27 07:32:00", "07:32:00"]
)


def paths(value, place=()):
    """Every place in what tomllib has read."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inner:
        yield (*place, key)
        if isinstance(each, dict | list):
            yield from paths(each, (*place, key))


def quoted(text):
    """As a basic string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t") + '"'


class Writer:
    """Writes a document of any shape, and notes the line of all that it writes."""

    def __init__(self, draw):
        self.draw, self.text, self.lines = draw, "", {}
        self.numbers = {}  # of lists of tables

    def some(self, *choices):
        return self.draw(st.sampled_from(choices))

    def note(self, place, again=False):
        if again or place not in self.lines:
            self.lines[place] = self.text.count("\n") + 1

    def space(self):
        self.text += self.some("", " ", "\t ")

    def comment(self):
        """To the end of the line, with what would mean something elsewhere."""
        self.space()
        if self.draw(st.booleans()):
            self.text += "#" + self.draw(SIGNS)
        self.text += "\n"

    def gap(self):
        """Between elements of a list."""
        for _ in range(self.draw(st.integers(0, 2))):
            self.comment()
        self.space()

    def names(self, taken, most):
        """New parts of a key, the first of which the table does not have yet."""
        count = self.draw(st.integers(1, most))
        first = self.draw(st.one_of(BARE, WORDS, SIGNS).filter(lambda n: n not in taken))
        taken.add(first)
        return [first, *(self.draw(st.one_of(BARE, SIGNS)) for _ in range(count - 1))]

    def key(self, names):
        for at, name in enumerate(names):
            if at:
                self.space()
                self.text += "."
                self.space()
            bare = name.isascii() and name.replace("-", "a").replace("_", "a").isalnum()
            literal = "'" not in name and self.draw(st.booleans())
            ways = [quoted(name), f"'{name}'" if literal else quoted(name)]
            self.text += self.some(*ways, name if bare else ways[0])

    def string(self):
        kind, text = self.some('"', "'", '"""', "'''"), self.draw(st.one_of(WORDS, SIGNS))
        if len(kind) == 3:
            text = text.replace("\t", "\n# x = [\n")
        if kind[0] == "'":
            body = text.replace("'", "")
            body = f"{body}''" if len(kind) == 3 and self.draw(st.booleans()) else body
        else:
            body = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
            body = f'{body}""' if len(kind) == 3 and self.draw(st.booleans()) else body
        self.text += f"{kind}{body}{kind}"

    def value(self, place, depth):
        kind = self.some("plain", "string", *["list", "table"] * (depth > 0))
        if kind == "plain":
            self.text += self.draw(PLAIN)
        elif kind == "string":
            self.string()
        elif kind == "list":
            self.list(place, depth)
        else:
            self.inline(place, depth)

    def list(self, place, depth):
        self.text += "["
        count = self.draw(st.integers(0, 3))
        for number in range(count):
            self.gap()
            self.note((*place, number))
            self.value((*place, number), depth - 1)
            self.gap()
            self.text += "," if number < count - 1 or self.draw(st.booleans()) else ""
        self.gap()
        self.text += "]"

    def inline(self, place, depth):
        self.text += "{"
        taken = set()
        for number in range(self.draw(st.integers(0, 2))):
            self.text += "," if number else ""
            self.space()
            self.pair(place, taken, depth - 1)
            self.space()
        self.text += "}"

    def pair(self, table, taken, depth):
        names = self.names(taken, 2)
        for end in range(1, len(names) + 1):
            self.note((*table, *names[:end]))
        self.key(names)
        self.space()
        self.text += "="
        self.space()
        self.value((*table, *names), depth)

    def pairs(self, table, taken):
        for _ in range(self.draw(st.integers(0, 3))):
            self.gap()
            self.pair(table, taken, 2)
            self.comment()

    def header(self, written, place, listed=False):
        """``written`` are the names in the header, ``place`` the table that it is for."""
        self.gap()
        for end in range(1, len(place)):
            self.note(place[:end])
        self.note(place, again=True)
        self.text += "[[" if listed else "["
        self.space()
        self.key(written)
        self.space()
        self.text += "]]" if listed else "]"
        self.comment()

    def tables(self, written, place, taken, depth):
        """Tables and lists of tables in a table."""
        for _ in range(self.draw(st.integers(0, 2)) if depth else 0):
            names = self.names(taken, 2)
            inner, below = [*written, *names], (*place, *names)
            if self.draw(st.booleans()):
                for number in range(self.draw(st.integers(1, 2))):
                    self.header(inner, (*below, number), listed=True)
                    self.body(inner, (*below, number), depth - 1)
                continue
            own = set()
            late = self.draw(st.booleans())  # the table after those within it
            if not late:
                self.header(inner, below)
                self.pairs(below, own)
            self.tables(inner, below, own, depth - 1)
            if late:
                self.header(inner, below)
                self.pairs(below, own)

    def body(self, written, place, depth):
        own = set()
        self.pairs(place, own)
        self.tables(written, place, own, depth)


@st.composite
def documents(draw):
    """A text, and the line of all that is in it."""
    writer = Writer(draw)
    writer.body([], (), 2)
    writer.gap()
    return writer.text, writer.lines


@given(documents())
def test_every_place_of_any_document_is_found_on_its_line(document):
    text, lines = document
    read = tomllib.loads(text)
    assert set(lines) == set(paths(read))  # the writer knows what it wrote
    assert places(text) == lines


FORMS = ('"""', "'''", "[[", "{", "#", ".", ",\n", '"""""')


def test_the_writer_writes_all_there_is():
    """Lest the test above pass for want of anything to find."""
    seen = set()

    @given(documents())
    def look(document):
        text, lines = document
        seen.update(form for form in FORMS if form in text)
        seen.update(f"depth {min(len(place), 5)}" for place in lines)

    look()
    assert {*FORMS, "depth 5"} <= seen


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# only = 1\n", {}),
        ("\n\na.b = 1\na.c = 2", {("a",): 3, ("a", "b"): 3, ("a", "c"): 4}),
        ("[a.b]\n[a]\nx = 1", {("a",): 2, ("a", "b"): 1, ("a", "x"): 3}),
        ('s = """\n[no]\nx = 1\n"""\ny = 2', {("s",): 1, ("y",): 5}),
        ('s = """a\\"""\nx = 1\n"""""\ny = 2', {("s",): 1, ("y",): 4}),
        ("s = '''\n'x' = 1\n'''''\ny = 2", {("s",): 1, ("y",): 4}),
        ('"a.b" = 1\n\'c"\' = 2\n"\\u00e9" = 3', {("a.b",): 1, ('c"',): 2, ("é",): 3}),
        (
            'm = [\n  {name = "a"}, # }\n  # {\n  {name = "b",\tx.y = [1,\n2]},\n]',
            {
                ("m",): 1,
                ("m", 0): 2,
                ("m", 0, "name"): 2,
                ("m", 1): 4,
                ("m", 1, "name"): 4,
                ("m", 1, "x"): 4,
                ("m", 1, "x", "y"): 4,
                ("m", 1, "x", "y", 0): 4,
                ("m", 1, "x", "y", 1): 5,
            },
        ),
        (
            "[[m]]\n[m.s]\n[[m]]\n[[m.t]]\n[m.t.u]\n",
            {
                ("m",): 1,
                ("m", 0): 1,
                ("m", 0, "s"): 2,
                ("m", 1): 3,
                ("m", 1, "t"): 4,
                ("m", 1, "t", 0): 4,
                ("m", 1, "t", 0, "u"): 5,
            },
        ),
        ("d = 1979-05-27 07:32:00\nx = 1 # y = 2\n", {("d",): 1, ("x",): 2}),
    ],
)
def test_places_one_by_one(text, expected):
    assert set(paths(tomllib.loads(text))) == set(expected)
    assert places(text) == expected


def test_a_long_file_takes_no_long_time():
    text = "".join(f'[[m]]\nx = ["a", """b\n"""]\ny = {{ z = {n} }}\n' for n in range(1000))
    found = places(text)
    assert found["m", 999, "y", "z"] == 4000
    assert len(found) == 1 + 1000 * 6
