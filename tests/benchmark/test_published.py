"""Tables in the READMEs are those of the published rows, number by number."""

from pathlib import Path

import pytest

from sitta.benchmark import render
from sitta.benchmark.paired import intervals
from sitta.benchmark.rows import load
from sitta.benchmark.scores import in_common, shifted, task_means
from sitta.benchmark.tables import TABLES, build
from sitta.benchmark.tables.table import within
from tests.benchmark.loops import INTENT, ORACLE, SOURCE

PUBLISHED = Path(__file__).parents[2] / "docs" / "results"
FRONT, RESULTS = PUBLISHED.parents[1] / "README.md", PUBLISHED / "README.md"
IN_LAYERS = "statistics=in-layer"
LABELS = {
    "source (λ 1)": SOURCE,
    "average of members": "InTEnt average",
    "vote of members": "InTEnt vote",
    "oracle λ": ORACLE,
    "InTEnt": INTENT,
    "InTEnt, sharpness": "InTEnt sharpness",
    "InTEnt, empty members last": "InTEnt ent-baln (empty=uninformative)",
    "InTEnt, mixed in the layers": f"InTEnt ent-baln ({IN_LAYERS})",
    "λ 0.5, mixed in the layers": f"Fixed lambda 0.5 ({IN_LAYERS})",
    "MEMO at its own prior, 8 views": "MEMO (views=8)",
    "SITA at its own λ 0.8": "SITA, lambda 0.8",
    "SITA, prior searched by its vote": "SITA (op=vote)",
}


@pytest.fixture(scope="module")
def rows():
    return load(PUBLISHED)


def readme_table(path, heading):
    """Cells of the first table after a heading, without bold and without the paper's figures."""
    lines = path.read_text(encoding="utf-8").split(heading)[1].splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("| source"))
    body = lines[start : start + next(n for n, x in enumerate(lines[start:]) if not x)]
    cells = [[c.strip().replace("**", "") for c in line.strip("|").split("|")] for line in body]
    return {row[0].split(" (best")[0]: [c.split(" (")[0] for c in row[1:]] for row in cells}


def labels(name):
    """What the tables of the benchmark call a row of a README, which may stand for four methods."""
    if name.startswith("Tent, SAR, FSeg, MEMO at λ "):
        at = f"lambda {name.rpartition(' ')[2]}"
        return [f"Tent, {at}", f"SAR, {at}", f"FSeg, {at}", f"MEMO, {at} (views=8)"]
    return [LABELS.get(name) or f"Fixed lambda {name.removeprefix('λ ')}"]


@pytest.mark.parametrize(
    ("path", "heading"),
    [(FRONT, "\nOn real images"), (RESULTS, "## Fixed lambdas and InTEnt, all images")],
)
def test_members_on_all_images(rows, path, heading):
    table = TABLES["members"](rows)[0]
    names = table.cells["Method"]
    said = readme_table(path, heading)
    assert {"source (λ 1)", "InTEnt", "oracle λ"} < said.keys()
    for name, cells in said.items():
        row = table.cells[names == labels(name)[0]].iloc[0]
        assert [row["chest"], row["retina"], row["spinal"]] == cells, name


def test_methods_on_the_draw(rows):
    said = readme_table(RESULTS, "## Other methods, on the draw")
    assert len(said) > 12
    means = task_means(in_common(shifted(rows), [label for name in said for label in labels(name)]))
    for name, cells in said.items():
        found = means[labels(name)]
        ends = zip(found.min(axis=1), found.max(axis=1), strict=True)
        spans = [(f"{low:.1f}", f"{high:.1f}") for low, high in ends]
        assert cells == [a if a == b else f"{a} to {b}" for a, b in spans], name


@pytest.mark.parametrize(("name", "heading"), [("grey", "## Grey matter"), ("empty", "## If")])
def test_members_on_all_images_beside_the_plan(name, heading):
    found = load(PUBLISHED / name)
    said = readme_table(RESULTS, heading)
    assert {"source (λ 1)", "InTEnt", "oracle λ"} < said.keys()
    means = task_means(in_common(shifted(found), [labels(each)[0] for each in said]))
    ends = intervals(in_common(shifted(found), [labels(each)[0] for each in said]))
    for at, (each, cells) in enumerate(said.items()):
        tasks = list(means.index[:-1])
        values = [(means.loc[t, labels(each)[0]], ends[t][0][at], ends[t][1][at]) for t in tasks]
        assert [within(*value) for value in values] == cells, each


@pytest.mark.parametrize("name", ["", "grey"])
def test_tables_are_those_of_the_rows(name):
    for table in build(load(PUBLISHED / name)):
        text = (PUBLISHED / name / "tables" / f"{table.name}.md").read_text(encoding="utf-8")
        assert text == render.to_markdown(table), table.name
