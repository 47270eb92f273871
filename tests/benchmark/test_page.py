"""The page of the benchmark: what stands on it, and that it works in a browser, for everyone."""

import base64
import hashlib
import re
from dataclasses import dataclass, field

import pandas as pd
import pytest

from sitta import storage
from sitta.benchmark import page
from tests.benchmark import synthetic
from tests.benchmark.test_figures import sample
from tests.browser import assert_accessible
from tests.report.test_page import HOSTILE

ABOUT = {
    "Versions": {"sitta": "1.2.3", "torch": "2.13.0"},
    "Plan": "plan.toml, 3 repeats",
    "Images": {"chest": {"mcu": 138, "chn": 566}},
    "Machine": ["two cores", "no GPU"],
}
FINDINGS = ["InTEnt gains 3.1 points.", "It hurts 8 % of <images>."]


@dataclass
class Table:
    """A table as the page takes it."""

    name: str = "overall"
    title: str = "All methods"
    caption: str = "Means over splits, a -> b."
    header: list = field(default_factory=lambda: ["Method", "Dice", "Note"])
    cells: list = field(
        default_factory=lambda: [
            ["Source", "71.2 [70.1, 72.4]", "as trained"],
            ["Tent", "9.5", "slow"],
            ["InTEnt", "\N{MINUS SIGN}3.1", "mcu -> chn"],
            ["None", "-", ""],
        ]
    )


@pytest.fixture(scope="module")
def plates():
    return list(sample()[1].values())


@pytest.fixture(scope="module")
def tables():
    wide = Table("splits-chest-methods", "Methods by split")
    wide.header = ["Method", *(f"site{i} -> target{i}" for i in range(14))]
    wide.cells = [[f"Method {i}", *(f"{i}.{j}" for j in range(14))] for i in range(35)]
    return [Table(), wide, Table("splits-retina", "By split")]


def written(tmp_path, tables, plates, about=ABOUT, **words):
    path = tmp_path / "bench.html"
    page.write(path, tables, plates, about, **words)
    return path.read_text(encoding="utf-8")


def part(text, name):
    return re.search(rf'<section id="{name}".*?</section>', text, re.DOTALL)[0]


def test_everything_is_there_and_in_its_part(tmp_path, tables, plates):
    text = written(tmp_path, tables, plates, findings=FINDINGS)
    assert re.findall(r'<section id="(\w+)"', text) == [
        "read",
        "overview",
        "chest",
        "retina",
        "examples",
    ]
    inside = {
        "overview": ["figure-overall", "figure-sweep", "table-overall"],
        "chest": [
            *("figure-lambda-chest", "figure-change-chest", "figure-trust-chest"),
            "table-splits-chest-methods",
        ],
        "retina": ["table-splits-retina"],
        "examples": ["figure-members"],
    }
    for name, wanted in inside.items():
        assert re.findall(r'class="card" id="([\w-]+)"', part(text, name)) == wanted
    for plate in plates:
        assert plate.caption in text.replace("&#39;", "'")
        assert f'aria-label="{plate.alt}"' in text.replace("&#39;", "'")
    for words in (
        "<li>InTEnt gains 3.1 points.</li>",
        "8 % of &lt;images&gt;",
        "For research; not a medical device",
        "<span>torch</span> 2.13.0",
        "mcu 138, chn 566",
        "two cores, no GPU",
        "Dice points",
        "95 % interval",
        "Drawn images",
        "Means over splits",
    ):
        assert words in text
    assert [p.name for p in tmp_path.iterdir()] == ["bench.html"]


def test_a_task_of_any_name_has_its_part(tmp_path):
    tables = [Table("splits-spinal-cord-methods"), Table("splits-heart-methods")]
    text = written(tmp_path, tables, [], tasks=["heart", "spinal-cord"])
    assert 'id="table-splits-heart-methods"' in part(text, "heart")
    assert 'id="table-splits-spinal-cord-methods"' in part(text, "spinal-cord")


def test_links_lead_somewhere_and_ids_are_unique(tmp_path, tables, plates):
    text = written(tmp_path, tables, plates)
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'(?:href="|url\()#([^")]*)', text))
    used |= set(re.findall(r'aria-(?:labelledby|describedby)="([^"]*)"', text))
    assert used <= set(ids)
    assert len(used) > 40


def test_cells_say_what_they_are(tmp_path):
    text = part(written(tmp_path, [Table()], []), "overview")
    assert re.findall(r'<th scope="col"( class="n")?>(\w+)', text) == [
        ("", "Method"),
        (' class="n"', "Dice"),
        ("", "Note"),
    ]
    assert re.findall(r'<th scope="row">(\w+)', text) == ["Source", "Tent", "InTEnt", "None"]
    assert '<td class="n">71.2 [70.1, 72.4]</td>' in text
    assert "mcu\u00a0→ chn" in text
    assert '<caption class="unseen">All methods</caption>' in text


def test_tables_of_data_frames(tmp_path):
    @dataclass
    class Framed:
        name: str
        title: str
        caption: str
        cells: pd.DataFrame
        lead: int
        strong: frozenset

    cells = pd.DataFrame({"Task": ["chest", "chest", "retina"], "Of": list("abc"), "D": ["1"] * 3})
    table = Framed("paired", "Paired", "All.", cells, 2, frozenset({(1, 2)}))
    text = part(written(tmp_path, [table], []), "overview")
    assert text.count('scope="row"') == 6
    assert text.count("<b>1</b>") == 1
    assert re.findall(r'<tr class="new"><th scope="row">(\w+)', text) == ["retina"]
    empty = Framed("hurts", "Hurts", "Nowhere.", cells.iloc[:0], 1, frozenset())
    text = part(written(tmp_path, [empty], []), "overview")
    assert "Nowhere." in text
    assert "<table" not in text


def test_tables_of_the_benchmark(tmp_path):
    from sitta.benchmark.tables import build

    built = build(synthetic.make(images=3, repeats=1, drawn=3), ["overall", "members", "splits"])
    text = written(tmp_path, built, [])
    assert len(built) > 3
    for table in built:
        name = next((t for t in page.TASKS if t in table.name), "overview")
        assert f'id="table-{table.name}"' in part(text, name)
    bold = sum(len(table.strong) for table in built)
    assert len(re.findall(r"<td[^>]*><b>", text)) == bold > 0


@pytest.mark.parametrize("name", [*HOSTILE[:6], HOSTILE[-1]])
def test_words_cannot_leave_their_place(tmp_path, name):
    def made(word):
        table = Table(title=word, caption=word, header=[word, word], cells=[[word, word]])
        return written(tmp_path, [table], [], {word: {word: word}}, findings=[word], title=word)

    tags = re.compile(r"<[a-z!/][^\s>]*")
    assert tags.findall(made(name)) == tags.findall(made("x"))
    assert "49.png" not in made(name)


def test_the_policy_allows_this_style_and_script_only(tmp_path, tables, plates):
    text = written(tmp_path, tables, plates)
    policy = re.search(r'Security-Policy" content="([^"]*)"', text)[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert len(inside) == 1
        digest = base64.b64encode(hashlib.sha256(inside[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(r"\b(?:src|href)=\"(?!#|data:image/png)", text)
    assert "http" not in re.sub("http-equiv", "", text)
    assert not re.search(r"<[^>]* (?:style|on\w+)=", text)
    assert "innerHTML" not in text


def test_a_failed_write_leaves_the_old_page(tmp_path, monkeypatch):
    before = written(tmp_path, [Table()], [])

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage.os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        written(tmp_path, [], [])
    assert (tmp_path / "bench.html").read_text(encoding="utf-8") == before


def test_nothing_to_show(tmp_path):
    text = written(tmp_path, [], [], {})
    assert re.findall(r'<section id="(\w+)"', text) == ["read"]
    assert 'class="findings"' not in text


@pytest.fixture
def opened(browse, tmp_path, tables, plates):
    """Opens the page."""

    def open_(width=1280, **options):
        written(tmp_path, tables, plates, findings=[*FINDINGS, "x" * 300])
        return browse(tmp_path / "bench.html", width=width, **options)

    return open_


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible_and_no_sideways_scroll(opened, scheme, width):
    tab = opened(width, color_scheme=scheme, reduced_motion="reduce")
    assert_accessible(tab)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    wide = "[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, nav ul') && "
    wide += "e.getBoundingClientRect().right > innerWidth).map(e => e.outerHTML.slice(0, 80))"
    assert tab.evaluate(wide) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_stand_on_light(opened, scheme):
    tab = opened(color_scheme=scheme)
    look = "e => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color]"
    ground, ink = tab.locator("body").evaluate(look)
    plate = tab.locator(".plate").first.evaluate(look)[0]
    levels = [sum(map(int, re.findall(r"\d+", c)[:3])) / 3 for c in (ground, ink, plate)]
    assert levels[2] > 235
    assert (levels[0] < 60) == (scheme == "dark") == (levels[1] > 180)
    assert tab.locator(".plate svg").count() == 6
    boxes = tab.locator(".plate svg").evaluate_all(
        "all => all.map(e => [e.getBoundingClientRect().width, e.getBoundingClientRect().height])"
    )
    assert all(width > 800 and height > 200 for width, height in boxes)


def test_text_of_figures_is_inside_them(opened):
    outside = """all => all.flatMap(svg => {
      const box = svg.getBoundingClientRect();
      return [...svg.querySelectorAll("text")].filter(text => {
        const own = text.getBoundingClientRect();
        return own.left < box.left - 1 || own.right > box.right + 1 ||
          own.top < box.top - 1 || own.bottom > box.bottom + 1;
      }).map(text => text.textContent);
    })"""
    assert opened().locator(".plate svg").evaluate_all(outside) == []


def test_columns_sort(opened):
    tab = opened()
    table = tab.locator("#table-overall table")
    head = table.locator("thead th").nth(1)
    seen = []
    for _ in range(3):
        head.locator("button").click()
        names = table.locator("tbody th").all_text_contents()
        seen.append((head.get_attribute("aria-sort"), names))
    assert seen == [
        ("descending", ["Source", "Tent", "InTEnt", "None"]),
        ("ascending", ["InTEnt", "Tent", "Source", "None"]),
        (None, ["Source", "Tent", "InTEnt", "None"]),
    ]
    table.locator("thead button").first.focus()
    tab.keyboard.press("Enter")
    names = table.locator("tbody th").all_text_contents()
    assert names == ["InTEnt", "None", "Source", "Tent"]


def test_keyboard(opened):
    tab = opened(700)
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"
    box = tab.locator("#table-splits-chest-methods .scroll")
    assert box.get_attribute("tabindex") == "0"
    box.focus()
    for key in ("ArrowRight", "ArrowDown"):
        tab.keyboard.press(key)
    tab.wait_for_timeout(300)
    assert box.evaluate("e => e.scrollLeft > 0 && e.scrollTop > 0")
    assert tab.locator("#table-overall .scroll").get_attribute("tabindex") is None  # all of it fits


def test_without_scripts(opened):
    tab = opened(java_script_enabled=False)
    assert "71.2 [70.1, 72.4]" in tab.inner_text("#table-overall")
    assert tab.locator("button").count() == 0
