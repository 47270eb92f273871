"""The page of the benchmark: what stands on it, and that it works in a browser, for everyone."""

import base64
import hashlib
import re

import pandas as pd
import pytest

from sitta._util import files
from sitta.bench.publish import page
from sitta.bench.tables import Table, build
from tests.bench import synthetic
from tests.bench.figures.test_figures import sample
from tests.browser import assert_accessible, eventually
from tests.report.test_page import HOSTILE

ABOUT = {
    "Versions": {"sitta": "1.2.3", "torch": "2.13.0"},
    "Plan": "plan.toml, 3 repeats",
    "Images": {"chest/mcu": "138", "chest/chn": "566"},
    "Machine": "two cores",
}
FINDINGS = ["InTEnt gains 3.1 points.", "It hurts 8 % of <images>."]


CELLS = [
    ["Source", "71.2 [70.1, 72.4]", "as trained"],
    ["Tent", "9.5", "slow"],
    ["InTEnt", "\N{MINUS SIGN}3.1", "mcu -> chn"],
    ["None", "-", ""],
]


def made(name="overall", title="All methods", caption="Means over splits, a -> b.", **other):
    """A table as the page takes it."""
    cells = other.pop("cells", CELLS)
    header = other.pop("header", ["Method", "Dice", "Note"])
    frame = pd.DataFrame(cells, columns=header, dtype="str")
    return Table(name, title, caption, frame, frame, **other)


@pytest.fixture(scope="module")
def plates():
    return list(sample()[1].values())


@pytest.fixture(scope="module")
def tables():
    header = ["Method", *(f"site{i} -> target{i}" for i in range(14))]
    cells = [[f"Method {i}", *(f"{i}.{j}" for j in range(14))] for i in range(35)]
    wide = made("splits-chest-methods", "Methods by split", header=header, cells=cells)
    return [made(), wide, made("splits-retina", "By split")]


def written(tmp_path, tables, plates, about=ABOUT, tasks=tuple(synthetic.TASKS), **words):
    path = tmp_path / "bench.html"
    page.write(path, tables, plates, about, tasks=tasks, **words)
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
        assert f'alt="{plate.alt}"' in text.replace("&#39;", "'")
    for words in (
        "<li>InTEnt gains 3.1 points.</li>",
        "8 % of &lt;images&gt;",
        "For research; not a medical device",
        "<span>torch</span> 2.13.0",
        "<span>chest/mcu</span> 138",
        "two cores",
        "Dice points",
        "95 % interval",
        "Drawn images",
        "Means over splits",
    ):
        assert words in text
    assert [p.name for p in tmp_path.iterdir()] == ["bench.html"]


def test_a_task_of_any_name_has_its_part(tmp_path):
    tables = [made("splits-spinal-cord-methods"), made("splits-heart-methods")]
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
    assert len(used) > 30


def test_cells_say_what_they_are(tmp_path):
    text = part(written(tmp_path, [made()], []), "overview")
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
    cells = pd.DataFrame({"Task": ["chest", "chest", "retina"], "Of": list("abc"), "D": ["1"] * 3})
    table = Table("paired", "Paired", "All.", cells, cells, 2, frozenset({(1, 2)}))
    text = part(written(tmp_path, [table], []), "overview")
    assert text.count('scope="row"') == 6
    assert text.count("<b>1</b>") == 1
    assert re.findall(r'<tr class="new"><th scope="row">(\w+)', text) == ["retina"]
    empty = Table("hurts", "Hurts", "Nowhere.", cells.iloc[:0], cells.iloc[:0])
    text = part(written(tmp_path, [empty], []), "overview")
    assert "Nowhere." in text
    assert "<table" not in text


def test_tables_of_the_benchmark(tmp_path):
    built = build(synthetic.make(images=3, repeats=1, drawn=3), ["overall", "members", "splits"])
    text = written(tmp_path, built, [])
    assert len(built) > 3
    for table in built:
        name = next((t for t in synthetic.TASKS if t in table.name), "overview")
        assert f'id="table-{table.name}"' in part(text, name)
    bold = sum(len(table.strong) for table in built)
    assert len(re.findall(r"<td[^>]*><b>", text)) == bold > 0


@pytest.mark.parametrize("name", [*HOSTILE[:6], HOSTILE[-1]])
def test_words_cannot_leave_their_place(tmp_path, name):
    def page_of(word):
        table = made(title=word, caption=word, header=[word, f"{word}2"], cells=[[word, word]])
        return written(tmp_path, [table], [], {word: {word: word}}, findings=[word], title=word)

    tags = re.compile(r"<[a-z!/][^\s>]*")
    assert tags.findall(page_of(name)) == tags.findall(page_of("x"))
    assert "49.png" not in page_of(name)


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
    assert not re.search(r"\b(?:src|href)=\"(?!#|data:image/svg\+xml;base64,)", text)
    assert "http" not in re.sub("http-equiv", "", text)
    assert not re.search(r"<[^>]* (?:style|on\w+)=", text)
    assert "innerHTML" not in text


def test_a_failed_write_leaves_the_old_page(tmp_path, monkeypatch):
    before = written(tmp_path, [made()], [])

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full_disk)
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
    plate = tab.locator(".panel").first.evaluate(look)[0]
    levels = [sum(map(int, re.findall(r"\d+", c)[:3])) / 3 for c in (ground, ink, plate)]
    assert levels[2] > 235
    assert (levels[0] < 60) == (scheme == "dark") == (levels[1] > 180)
    assert tab.locator(".panel img").count() == 6
    sizes = "all => all.map(e => [e.clientWidth, e.clientHeight, e.naturalWidth])"
    for width, height, natural in tab.locator(".panel img").evaluate_all(sizes):
        assert width > 800
        assert height > 200
        assert natural > 600  # decoded, so the policy lets it through


def test_text_of_figures_is_inside_them(browse, tmp_path, plates):
    outside = """svg => {
      const box = svg.getBoundingClientRect();
      return [...svg.querySelectorAll("text")].filter(text => {
        const own = text.getBoundingClientRect();
        return own.left < box.left - 1 || own.right > box.right + 1 ||
          own.top < box.top - 1 || own.bottom > box.bottom + 1;
      }).map(text => text.textContent);
    }"""
    for plate in plates:
        path = tmp_path / f"{plate.name}.svg"
        path.write_text(plate.svg, encoding="utf-8")
        svg = browse(path, width=1280).locator("svg")
        assert svg.locator("text").count() > 5
        assert svg.evaluate(outside) == [], plate.name


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
    eventually(tab, lambda: box.evaluate("e => e.scrollLeft > 0 && e.scrollTop > 0"))
    assert tab.locator("#table-overall .scroll").get_attribute("tabindex") is None  # all of it fits


def test_without_scripts(opened):
    tab = opened(java_script_enabled=False)
    assert "71.2 [70.1, 72.4]" in tab.inner_text("#table-overall")
    assert tab.locator("button").count() == 0
