"""Tables of results of any extent: tiny, half run, without this or that."""

import math

import pandas as pd
import pytest

from sitta.bench.papers.intent2024 import paper
from sitta.bench.publish import render
from sitta.bench.stats.rows import load, write
from sitta.bench.tables import TABLES, Table, build
from sitta.bench.variant import Variant
from sitta.errors import SittaError
from tests.bench.loops import named

FORMS = (render.to_csv, render.to_markdown, render.to_latex)


@pytest.fixture(scope="module")
def rows():
    return named()


@pytest.fixture(scope="module")
def few(rows):
    """Two tasks with a source each, and variants of every kind."""
    kept = rows["source"].isin(["mcu", "hrf"]) & ~rows["members"].isin([2, 5, 13, 50])
    return rows[kept & ~rows["lam"].isin([0.8, 0.4]) & ~rows["method"].isin(["sar", "fseg"])]


def phantom(rows):
    sites = {"mcu": "alder", "chn": "birch", "jsrt": "cedar"}
    kept = rows[rows["task"] == "chest"].assign(task="phantom")
    return kept.assign(source=kept["source"].map(sites), target=kept["target"].map(sites))


def three_members(rows):
    return rows[(rows["members"] == 1) | (rows["members"] == 3)]


CASES = {
    "phantom": phantom,
    "one repeat": lambda rows: rows[rows["repeat"] == 0],
    "no gradient methods": lambda rows: rows[rows["method"].isin(["source", "intent", "oracle"])],
    "no diagonal": lambda rows: rows[rows["source"] != rows["target"]],
    "diagonal alone": lambda rows: rows[rows["source"] == rows["target"]],
    "source alone": lambda rows: rows[(rows["method"] == "source") & (rows["lam"] == 1)],
    "no source": lambda rows: rows[rows["method"] != "source"],
    "no InTEnt": lambda rows: rows[rows["method"] != "intent"],
    "one split": lambda rows: rows[(rows["source"] == "hrf") & (rows["target"] == "rite")],
    "one image": lambda rows: rows[rows["image"] == "image-000"],
    "one method": lambda rows: rows[rows["method"] == "memo"],
    "retrained alone": lambda rows: rows[rows["training"] == "augmented"],
    "nothing in common": lambda rows: rows[
        (rows["method"] == "source") == (rows["image"] == "image-000")
    ],
    "all equal": lambda rows: rows.assign(dice=0.5, hd95=math.nan),
    "three members": three_members,
    "no rows": lambda rows: rows.iloc[:0],
}
EXPECTED = {
    "one split": {"overall", "methods", "strategies", "splits-retina-methods", "paired", "quality"},
    "one image": {"overall", "methods", "strategies", "paired", "hurts", "trust-notes"},
    "diagonal alone": {"hurts"},
    "source alone": {"overall", "strategies", "quality"},
    "no gradient methods": {"overall", "strategies", "paired", "sweep", "seeds"},
    "three members": {"overall", "strategies", "paired", "trust-finding"},
    "all equal": {"overall", "quality", "seeds"},
    "no rows": set(),
}
ABSENT = {
    "one split": {"robust", "splits-chest-methods"},
    "no gradient methods": {"methods", "splits-chest-methods"},
    "diagonal alone": {"overall", "strategies", "trust-finding", "seeds"},
    "one repeat": {"seeds"},
    "no InTEnt": {"hurts", "trust-notes", "sweep", "robust", "seeds"},
    "no source": {"paired", "hurts", "robust"},
    "no rows": {"overall", "hurts"},
}


@pytest.mark.parametrize("case", CASES)
def test_results_of_any_extent_have_tables(few, case):
    found = build(CASES[case](few))
    names = {table.name for table in found}
    assert EXPECTED.get(case, set()) <= names
    assert not ABSENT.get(case, set()) & names
    assert len(names) == len(found)
    for table in found:
        assert isinstance(table, Table)
        assert len(table.data) == len(table.cells)
        assert "nan" not in table.cells.to_csv()
        assert table.caption.endswith(".")
        assert "{" not in table.caption
        for form in FORMS:
            assert form(table)


def test_an_unknown_task_has_no_paper(few):
    for table in build(phantom(few), ["overall", "methods", "strategies", "splits"]):
        assert not [name for name in table.data if "paper" in name]
        assert "paper" not in table.caption


def test_equal_results_do_not_differ(few):
    data = TABLES["paired"](CASES["all equal"](few))[0].data
    assert (data["difference"] == 0).all()
    assert (data["p_holm"].dropna() == 1).all()


def test_one_image_has_means_and_no_intervals(rows):
    table = TABLES["overall"](CASES["one image"](rows))[0]
    assert table.data["chest"].notna().all()
    assert table.data["chest, low"].isna().all()
    assert "[" not in table.cells["chest"].str.cat()


def captions(rows, *names):
    return [table.caption for table in build(rows, names)]


def test_captions_say_how_many_repeats_there_are(rows):
    for caption in captions(rows, "overall", "methods", "quality"):
        assert "(chest 12 images in 6 splits, 24 in all, 2 repeats; retina 12" in caption
    for caption in captions(rows, "members", "strategies"):
        assert "spinal 21 images in 6 splits, 42 in all, 2 repeats)" in caption
    assert "24 in all, 2 repeats)" in captions(rows, "sweep")[0]
    once = rows[(rows["repeat"] == 0) & (rows["source"] == "mcu")]
    assert "(chest 8 images in 2 splits, 1 repeat)" in captions(once, "overall")[0]


def test_repeats_are_those_that_all_methods_have(rows):
    late = (rows["method"] == "sar") & (rows["repeat"] == 1)
    for lost, said in (
        (late & (rows["task"] == "retina"), "1 repeat;"),
        (late & (rows["source"] == "hrf"), "1 to 2 repeats;"),
        (late & (rows["task"] == "retina") & (rows["image"] == "image-000"), "1 to 2 repeats;"),
    ):
        for caption in captions(rows[~lost], "overall", "methods", "quality"):
            assert f"retina 12 images in 6 splits, 24 in all, {said}" in caption
            assert "24 in all, 2 repeats; retina" in caption
        assert (
            "retina 21 images in 6 splits, 42 in all, 2 repeats"
            in captions(rows[~lost], "members")[0]
        )


def test_a_grid_of_one_source_has_its_own_repeats(rows):
    spinal = rows[rows["task"] == "spinal"]
    other = spinal.assign(source=spinal["source"] + "-b")
    found = build(pd.concat([spinal, other[other["repeat"] == 0]]), ["splits"])
    said = {table.name: table.caption for table in found}
    assert "8 images in 2 splits, 2 repeats" in said["splits-spinal-ucl-methods"]
    assert "12 images in 3 splits, 1 repeat)" in said["splits-spinal-ucl-b-methods"]
    assert "14 images in 2 splits, 2 repeats" in said["splits-spinal-ucl-strategies"]


def test_rows_in_any_order_give_the_same_figures(rows):
    mixed = rows.sample(frac=1, random_state=0)
    for name in ("overall", "strategies", "paired"):
        first, again = TABLES[name](rows)[0].data, TABLES[name](mixed)[0].data
        keys = [k for k in ("method", "task", "variant", "against") if k in again]
        one, other = (d.sort_values(keys, ignore_index=True) for d in (first, again))
        kept = [c for c in one if not any(w in c for w in ("low", "high"))]
        pd.testing.assert_frame_equal(one[kept], other[kept])


def test_unknown_tables_are_named(few):
    with pytest.raises(SittaError, match=r"no such table.*overall.*Got: 'summary'"):
        build(few, ["overall", "summary"])
    assert [table.name for table in build(few, ["seeds", "overall"])] == ["seeds", "overall"]


def test_rows_read_back_from_a_file_give_the_same_tables(few, tmp_path):
    write(few, tmp_path / "rows.csv.gz")
    names = ["overall", "strategies", "paired", "trust"]
    for one, again in zip(build(few, names), build(load(tmp_path), names), strict=True):
        assert one.name == again.name
        assert one.cells.to_csv() == again.cells.to_csv()


def test_paper_lacks_what_only_we_have():
    assert paper.by_split(Variant("intent", strategy="vote")).empty
