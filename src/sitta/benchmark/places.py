"""Where everything stands in a TOML file: the line of each key, table and element of a list.

The standard library reads TOML but tells no lines. This walks a text that it has read, so that
nothing is checked here once more, and values are passed over rather than read.
"""

from __future__ import annotations

import re
import tomllib

Place = tuple[str | int, ...]  # such as ("methods", 1, "settings", "views")

GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")  # with comments and ends of lines
SPACE = re.compile(r"[ \t]*")
LONG = r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})|' + r"'''.*?'''(?:'{0,2})"  # may end in quotes of its own
SHORT = r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'"
VALUE = re.compile(rf"{LONG}|{SHORT}|[^,\]}}#\n]+", re.DOTALL)  # a date may have a space in it
KEY = re.compile(rf"{SHORT}|[A-Za-z0-9_-]+")


def places(text: str) -> dict[Place, int]:
    r"""The line of every key, table and element of a list, from 1.

    A table that is only mentioned, such as ``a`` in ``[a.b]``, stands where it is first mentioned;
    one with a header of its own stands there. A list of tables stands at its first table.

    Args:
        text: What ``tomllib`` has read without complaint.

    Example:
        >>> found = places('a = 1\n[[m]]\nx = [\n  {y = 2},\n]')
        >>> found["a",], found["m",], found["m", 0, "x"], found["m", 0, "x", 0, "y"]
        (1, 2, 3, 4)
    """
    walk = _Walk(text)
    walk.document()
    return walk.found


class _Walk:
    """One pass over the text, from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.found: dict[Place, int] = {}
        self.last: dict[Place, int] = {}  # of each list of tables, the number of its last one

    def document(self) -> None:
        """All of it."""
        table: Place = ()
        while self.ahead():
            if self.ahead() == "[":
                table = self.header()
            else:
                self.pair(table)

    def header(self) -> Place:
        """``[a.b]`` or ``[[a.b]]``: the table that follows."""
        line, listed = self.line, self.text.startswith("[[", self.at)
        self.at += 2 if listed else 1
        *above, name = self.key()
        self.at += 2 if listed else 1
        place: Place = ()
        for part in above:
            place = self.inside((*place, part), line)
        place = (*place, name)
        if listed:
            self.found.setdefault(place, line)
            self.last[place] = self.last.get(place, -1) + 1
            place = (*place, self.last[place])
        self.found[place] = line  # more than a mention, which may have come before
        return place

    def inside(self, place: Place, line: int) -> Place:
        """A table on the way to another; of a list of tables, its last one."""
        self.found.setdefault(place, line)
        return (*place, self.last[place]) if place in self.last else place

    def pair(self, table: Place) -> None:
        """``a.b = value`` in a table."""
        line = self.line
        names = self.key()
        self.at += 1  # the equals sign
        for end in range(1, len(names) + 1):
            self.found.setdefault((*table, *names[:end]), line)
        self.skip(SPACE)
        self.value((*table, *names))

    def key(self) -> list[str]:
        """The parts of a dotted key; ends before what follows it."""
        names = []
        while True:
            self.skip(SPACE)
            start = self.at
            self.skip(KEY)
            names.append(_name(self.text[start : self.at]))
            self.skip(SPACE)
            if not self.text.startswith(".", self.at):
                return names
            self.at += 1

    def value(self, place: Place) -> None:
        """Whatever a key or an element is."""
        if self.text[self.at] == "[":
            self.elements(place)
        elif self.text[self.at] == "{":
            self.inner(place)
        else:
            self.skip(VALUE)

    def elements(self, place: Place) -> None:
        """``[value, ...]``, with any number of lines and comments."""
        self.at += 1
        number = 0
        while self.ahead() != "]":
            self.found[(*place, number)] = self.line
            self.value((*place, number))
            number += 1
            self.comma()
        self.at += 1

    def inner(self, place: Place) -> None:
        """``{key = value, ...}``."""
        self.at += 1
        while self.ahead() != "}":
            self.pair(place)
            self.comma()
        self.at += 1

    def comma(self) -> None:
        """Pass over a comma, if there is one."""
        if self.ahead() == ",":
            self.at += 1

    def ahead(self) -> str:
        """The next sign that means something; nothing at the end."""
        self.skip(GAP)
        return self.text[self.at : self.at + 1]

    def skip(self, form: re.Pattern[str]) -> None:
        """Pass over what has this form."""
        found = form.match(self.text, self.at)
        self.at = found.end() if found else self.at

    @property
    def line(self) -> int:
        """Where we are."""
        return self.text.count("\n", 0, self.at) + 1


def _name(written: str) -> str:
    """A part of a key without its quotes and escapes."""
    return str(tomllib.loads(f"key = {written}")["key"]) if written[0] in "\"'" else written
