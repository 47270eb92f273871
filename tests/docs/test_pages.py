"""The documentation says what the code says."""

import re

import pytest

import sitta
from sitta.core.integration import STRATEGIES
from sitta.prediction.notes import DISAGREE, NOTES
from sitta.prediction.scores import every
from tests import ROOT

DOCS = ROOT / "docs"


def rows(text):
    """Cells of every table row that starts with code."""
    found = re.findall(r"^\| (`.+?) \|$", text, re.MULTILINE)
    return [[cell.strip() for cell in row.split(" | ")] for row in found]


@pytest.mark.parametrize("name", sitta.methods())
def test_every_method_has_a_page_that_fits_the_registry(name):
    text = (DOCS / "methods" / f"{name}.md").read_text()
    about = sitta.methods()[name].describe()
    assert text.startswith(f"# {about['class']}\n")
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert list(sections) == ["Formula", "Settings", "When it helps", "When it hurts"]
    assert all(len(body.split()) > 5 for body in sections.values())
    expected = [
        [
            f"`{s['name']}`",
            s["type"],
            "" if s["default"] is None else f"`{s['default']}`",
            s["range"],
            s["help"],
        ]
        for s in about["settings"]
    ]
    assert rows(sections["Settings"]) == expected
    cost = about["cost"]
    assert f"{cost['forward']} forward and {cost['backward']} backward passes" in text
    assert about["citation"] in text
    assert f"Needs: {about['needs']}." in text


def test_no_page_without_a_method():
    assert {p.stem for p in (DOCS / "methods").glob("*.md")} == set(sitta.methods())


def test_notes_and_strategies_are_all_explained():
    api = (DOCS / "reference" / "api.md").read_text()
    listed = rows(api.split("## Notes")[1])
    table = [(code, severity, advice) for code, severity, _, advice in listed]
    assert table == [(f"`{note.code}`", note.severity, note.advice) for note in NOTES.values()]
    assert f"agreement is below {DISAGREE}" in api
    intent = (DOCS / "methods" / "intent.md").read_text().split("## Settings")[0]
    assert [r[0] for r in rows(intent)] == [f"`{s}`" for s in STRATEGIES]


def score_table():
    """The table of the trust scores, line by line."""
    lines = [f"| `{s.name}` | {s.unit} | {s.better} | {s.sentence} |" for s in every()]
    return ["| score | unit | better | meaning |", "|---|---|---|---|", *lines]


def test_trust_scores_are_listed_as_declared():
    page = (DOCS / "how-to" / "predict.md").read_text(encoding="utf-8")
    table = page.split("## Trust scores\n\n")[1].split("\n\n")[0]
    assert table.splitlines() == score_table()


def test_api_lists_every_public_name():
    api = (DOCS / "reference" / "api.md").read_text()
    for name in set(sitta.__all__) - {"__version__", "Prediction", "data", "models"}:
        assert f"`{name}" in api or f" `{name}`" in api, name


def anchors(page):
    """What a link to a heading of a page may name, as GitHub does it."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere():
    for page in [*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]:
        text = page.read_text(encoding="utf-8")
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", text):
            found = page.parent / target if target else page
            assert found.exists(), f"{page}: {target}"
            assert not anchor or anchor in anchors(found), f"{page}: {target}#{anchor}"


@pytest.mark.parametrize(("name", "most"), [("README.md", 130), ("CONTRIBUTING.md", 60)])
def test_front_pages_are_short(name, most):
    assert len((ROOT / name).read_text().splitlines()) <= most


def test_the_readme_shows_how_to_start():
    text = (ROOT / "README.md").read_text()
    assert "\nmake demo " in text
    assert "\nmake test " in text
    python = re.search(r"python-([\d.]+)%2B", text)[1]
    assert f'requires-python = ">={python}"' in (ROOT / "pyproject.toml").read_text()


def test_the_paper_is_cited_by_its_number():
    """It is on arXiv; the venue that its style file names is not where it appeared."""
    pages = [*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "src").rglob("*.py")]
    assert not [page for page in pages if "ICML" in page.read_text(encoding="utf-8")]
    assert "arXiv 2402.09604" in sitta.methods()["intent"].citation


def test_the_page_on_security_names_tests_that_exist():
    text = (DOCS / "explanation" / "security.md").read_text()
    named = set(re.findall(r"`(tests/\S+\.py)`", text))
    assert len(named) > 10
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []
