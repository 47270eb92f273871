"""The documentation says what the code says."""

import re
from pathlib import Path

import pytest

import sitta
from sitta.integration import STRATEGIES
from sitta.trust import DISAGREE, NOTES

DOCS = Path(__file__).parent.parent / "docs"


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
    assert [r[0] for r in rows(api.split("## Notes")[1])] == [f"`{code}`" for code in NOTES]
    assert f"agreement is below {DISAGREE}" in api
    intent = (DOCS / "methods" / "intent.md").read_text().split("## Settings")[0]
    assert [r[0] for r in rows(intent)] == [f"`{s}`" for s in STRATEGIES]


def test_api_lists_every_public_name():
    api = (DOCS / "reference" / "api.md").read_text()
    for name in set(sitta.__all__) - {"__version__", "Prediction", "data", "models"}:
        assert f"`{name}" in api or f" `{name}`" in api, name


def test_links_lead_somewhere():
    root = DOCS.parent
    for page in [*DOCS.rglob("*.md"), *root.glob("*.md"), *(root / "benchmarks").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_no_overlong_contributing():
    assert len((DOCS.parent / "CONTRIBUTING.md").read_text().splitlines()) < 60
