"""Tables in the READMEs are those of the published rows, number by number."""

import pytest

from sitta.bench.publish import render
from sitta.bench.stats.bootstrap import intervals
from sitta.bench.stats.rows import load
from sitta.bench.stats.scores import complete, per_image, scores, shifted, task_means
from sitta.bench.tables import TABLES, build
from sitta.bench.tables.table import NUMBER, cell
from tests import ROOT
from tests.bench.loops import INTENT, ORACLE, SOURCE

PUBLISHED = ROOT / "docs" / "results"
FRONT, RESULTS = PUBLISHED.parents[1] / "README.md", PUBLISHED / "README.md"
TASKS = ("chest", "retina", "spinal", "grey")
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


def in_common(rows, names):
    """Mean over repeats of the images that all variants with these labels were run on."""
    return per_image(complete(scores(shifted(rows))[names]))


def front_rows():
    """Cells of the table of the front page, a row for each task."""
    text = FRONT.read_text(encoding="utf-8").split("## Does it work?")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|") and "[" in line]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_the_front_page():
    """One row per task; the best fixed lambda is the best of all that were run."""
    found = load(PUBLISHED / "adapt")
    found = found[found["training"] == "plain"]
    labels = list(scores(shifted(found)))
    fixed = [label for label in labels if label.startswith("Fixed lambda")]
    names = [SOURCE, INTENT, "Adapt", *fixed, ORACLE]
    both = in_common(found, names)
    means, ends = task_means(both), intervals(both)
    cells = front_rows()
    assert [row[0].split(":")[0] for row in cells] == [
        "chest radiographs",
        "retina",
        "spinal cord",
        "spinal cord",
    ]
    table = TABLES["adapt"](found)[0].cells
    harmed = table[(table["Domain"] == "cross-domain") & (table["Against"] == "unadapted")]
    for task, (_, *said) in zip(TASKS, cells, strict=True):
        best = means.loc[task, fixed].astype(float).idxmax()
        places = [list(both.columns).index(n) for n in (SOURCE, INTENT, "Adapt", best, ORACLE)]
        wanted = [
            cell(NUMBER, means.loc[task, both.columns[at]], ends[task][0][at], ends[task][1][at])
            for at in places
        ]
        assert [c.replace("**", "").split(" (")[0] for c in said[:5]] == wanted, task
        assert said[3].split(" (λ ")[1].startswith(best.split()[2]), task
        assert ("in-layer" in best) == said[3].endswith("†)"), task
        assert said[5] == harmed.set_index("Task").loc[task, "Worse by > 1"], task
        bold = [float(c.split()[0].strip("*")) for c in said if "**" in c]
        assert bold == [max(float(text.split()[0]) for text in wanted[:4])], task


def test_members_on_all_images(rows):
    table = TABLES["members"](rows)[0]
    names = table.cells["Method"]
    said = readme_table(RESULTS, "## Fixed lambdas and InTEnt, all images")
    assert {"source (λ 1)", "InTEnt", "oracle λ"} < said.keys()
    for name, cells in said.items():
        row = table.cells[names == labels(name)[0]].iloc[0]
        assert [row["chest"], row["retina"], row["spinal"]] == cells, name


def test_gains_and_harm(rows):
    """The differences of InTEnt, by task, are those of the tables that the page links to."""
    lines = RESULTS.read_text(encoding="utf-8").split("InTEnt, paired differences")[1].splitlines()
    cells = [[c.strip(" *") for c in x.strip("|").split(" | ")] for x in lines if x[:1] == "|"][2:]
    said = {row[0]: [c.replace("**", "") for c in row[1:]] for row in cells[:5]}
    paired = TABLES["paired"](rows)[0].cells.set_index(["Variant", "Task"]).loc[INTENT]
    source = paired[paired["Against"] == SOURCE].loc[list(TASKS[:3])]
    fixed = paired[paired["Against"].str.startswith("best fixed lambda (")].loc[list(TASKS[:3])]
    hurts = TABLES["hurts"](rows)[0].cells
    home = hurts[(hurts["Images of"] == "source domain") & (hurts["Split"] == "mean over splits")]
    chosen = fixed["Against"].str.extract(r"\((.+)\)")[0]
    assert list(said.values()) == [
        list(source["Difference"]),
        list(source["Worse by > 1"]),
        list(source["Better by > 1"]),
        [f"{d} (λ {lam})" for d, lam in zip(fixed["Difference"], chosen, strict=True)],
        list(home["Difference"]),
    ]


def test_methods_on_the_draw(rows):
    said = readme_table(RESULTS, "## Other methods, on the draw")
    assert len(said) > 12
    means = task_means(in_common(rows, [label for name in said for label in labels(name)]))
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
    means = task_means(in_common(found, [labels(each)[0] for each in said]))
    ends = intervals(in_common(found, [labels(each)[0] for each in said]))
    for at, (each, cells) in enumerate(said.items()):
        tasks = list(means.index[:-1])
        values = [(means.loc[t, labels(each)[0]], ends[t][0][at], ends[t][1][at]) for t in tasks]
        assert [cell(NUMBER, *value) for value in values] == cells, each


@pytest.mark.parametrize("name", ["", "grey"])
def test_tables_are_those_of_the_rows(name):
    for table in build(load(PUBLISHED / name)):
        text = (PUBLISHED / name / "tables" / f"{table.name}.md").read_text(encoding="utf-8")
        assert text == render.to_markdown(table), table.name


def test_the_page_of_other_norms_shows_what_its_rows_say(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import other_norms

    found = other_norms.rows(PUBLISHED / "other-norms")
    text = (PUBLISHED / "other-norms" / "README.md").read_text(encoding="utf-8")
    assert all(row["image"].isdigit() for row in found)
    for table in (*other_norms.tables(found), other_norms.gates(found)):
        assert table in text


def test_the_page_of_volumes_shows_each_class_of_its_rows():
    (table,) = build(load(PUBLISHED / "spinal3d"), ["classes"])
    lines = [x for x in render.to_markdown(table).splitlines() if x.startswith("|")]
    assert len(lines) > 5
    assert "\n".join(lines) in (PUBLISHED / "spinal3d" / "README.md").read_text(encoding="utf-8")
