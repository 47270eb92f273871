"""The table of what members serve, on all images, against plain loops over made-up rows."""

import math
from statistics import fmean

import numpy as np
import pandas as pd
import pytest

from sitta.bench.publish.collect import anonymous
from sitta.bench.tables import TABLES
from tests.bench.loops import INTENT, ORACLE, SOURCE, by_method, images, mean_by, named, splits
from tests.bench.synthetic import TASKS, make

OVER_TASKS = "mean over tasks"


@pytest.fixture(scope="module")
def rows():
    return named()


@pytest.fixture(scope="module")
def table(rows):
    return TABLES["members"](rows)[0]


def test_members_lists_what_one_pass_serves(table):
    fixed = [f"Fixed lambda {lam}" for lam in (0.8, 0.6, 0.5, 0.4, 0.2, 0)]
    mixed = ("average", "vote", "entropy", "ent-min", "ent-topk", "ent-norm")
    names = [
        SOURCE,
        *fixed,
        *(f"InTEnt {name}" for name in mixed),
        INTENT,
        "InTEnt ent-power",
        ORACLE,
    ]
    assert table.data["method"].tolist() == names
    everything = TABLES["members"](make(images=3, drawn=3, repeats=1))[0]
    assert everything.data["method"].tolist() == names  # nor sharpness where all images are drawn


def test_members_is_a_mean_of_means_on_all_images(rows, table):
    for name in table.data["method"]:
        tasks = {k: 100 * v for k, v in mean_by(splits(rows, name), 1).items()}
        for task in TASKS:
            assert by_method(table, task)[name] == pytest.approx(tasks[(task,)])
        assert by_method(table, OVER_TASKS)[name] == pytest.approx(fmean(tasks.values()))
    assert "chest 21 images in 6 splits, 42 in all" in table.caption
    assert "then over tasks" in table.caption


def test_intervals_resample_images_with_their_repeats(rows, table):
    """Wide as the spread of images says: twice the repeats would not be twice the images."""
    chance = np.random.default_rng(3)
    parts = {}
    for key, values in images(rows, INTENT).items():
        parts.setdefault(key[:3], []).append(100 * fmean(values))
    draws = []
    for _ in range(2000):
        means = {k: np.mean(chance.choice(v, len(v))) for k, v in parts.items()}
        draws.append(mean_by(means, 1)[("retina",)])
    low, high = np.quantile(draws, (0.025, 0.975))
    ends = [by_method(table, f"retina, {end}")[INTENT] for end in ("low", "high")]
    assert ends == pytest.approx([low, high], abs=0.1 * (high - low))


def test_repeating_every_run_changes_nothing(rows, table):
    again = rows.assign(repeat=rows["repeat"] + 2)
    twice = TABLES["members"](pd.concat([rows, again]))[0]
    pd.testing.assert_frame_equal(twice.data, table.data)


def test_members_sets_the_paper_beside(table):
    chest = by_method(table, "chest, paper")
    assert (chest[SOURCE], chest[INTENT]) == (82.9, 94.1)
    assert chest["Fixed lambda 0.2"] == pytest.approx(93.6, abs=0.05)
    assert math.isnan(chest["InTEnt vote"])
    assert math.isnan(chest[ORACLE])
    assert "sites of spinal are others" in table.caption
    header = [c for c in table.cells.columns if c.startswith("chest")]
    assert header == ["chest", "chest, paper"]


TABLE_1 = "those of its Table 1, and where that has none the mean over splits of its appendix"
SAME = "the mean over the same splits of its appendix"
TAKEN = "; its mean over tasks is computed here"


def said_of_paper(table):
    return table.caption.partition("The paper's scores ")[2]


@pytest.mark.parametrize("name", ["members", "overall"])
def test_captions_say_which_figures_of_the_paper_they_are(rows, name):
    """Table 1 is of all splits of a task; of some of them there is but the appendix."""
    make_table = TABLES[name]
    chest, retina = rows[rows["task"] == "chest"], rows[rows["task"] == "retina"]
    some = retina[retina["source"] == "hrf"]
    assert said_of_paper(make_table(chest)[0]) == f"are {TABLE_1}."
    assert said_of_paper(make_table(some)[0]) == f"are {SAME}."
    both = f"of chest are {TABLE_1}; those of retina are {SAME}{TAKEN}"
    assert said_of_paper(make_table(pd.concat([chest, some]))[0]).startswith(both)
    phantom = some.assign(task="phantom")
    assert said_of_paper(make_table(pd.concat([chest, phantom]))[0]) == f"are {TABLE_1}."
    assert said_of_paper(make_table(phantom)[0]) == ""
    whole = said_of_paper(make_table(rows)[0])
    sources = TABLE_1.replace("over splits", "over splits (or sources)")
    assert whole.startswith(f"are {TABLE_1 if name == 'members' else sources}{TAKEN}")
    assert whole.endswith("source domains. Its sites of spinal are others than these.")


def test_six_members_of_a_sweep_do_not_stand_for_eleven_of_the_plan(rows, table):
    """Of the plan's own grid are those on all images, as the oracle; 6 were on the draw alone."""
    eleven = rows.assign(members=rows["members"].replace({6: 11, 13: 6}))
    names = [f"InTEnt {n}, 11 members" for n in ("average", "vote", "ent-baln")]
    for some in (eleven, eleven[eleven["method"] != "oracle"]):
        found = TABLES["members"](some)[0]
        assert {*names} <= {*found.data["method"]}
        assert INTENT not in {*found.data["method"]}
        own = by_method(found, "chest")["InTEnt ent-baln, 11 members"]
        assert own == pytest.approx(by_method(table, "chest")[INTENT])
        assert "chest 21 images in 6 splits, 42 in all" in found.caption
        overall = TABLES["overall"](some)[0].data["method"].tolist()
        assert [name for name in overall if "InTEnt" in name] == names


def test_the_best_is_bold_but_never_the_oracle(table):
    at = list(table.cells.columns).index("spinal")
    bold = {row for row, column in table.strong if column == at}
    fair = table.data["spinal"][table.data["method"] != ORACLE].round(1)
    assert bold == set(fair.index[fair == fair.max()])


def test_a_lambda_on_the_draw_alone_is_left_out(rows, table):
    extra = rows[(rows["name"] == "Fixed lambda 0.8") & rows["drawn"]].assign(lam=0.3)
    found = TABLES["members"](pd.concat([rows, extra]))[0]
    assert found.data["method"].tolist() == table.data["method"].tolist()
    assert found.data["chest"].tolist() == pytest.approx(table.data["chest"].tolist())


def test_one_task_has_no_mean_over_tasks(rows):
    chest = TABLES["members"](rows[rows["task"] == "chest"])[0]
    assert OVER_TASKS not in chest.data
    assert "over tasks" not in chest.caption
    assert TABLES["members"](rows[rows["method"] == "tent"]) == []
    assert TABLES["members"](rows[rows["source"] == rows["target"]]) == []


def test_published_rows_have_the_intervals_of_the_run():
    """Twelve images a target: as text, 10 comes before 2, and draws would be of other images."""
    whole = make(images=12, repeats=1, drawn=4)
    one, other = TABLES["members"](whole)[0], TABLES["members"](anonymous(whole))[0]
    pd.testing.assert_frame_equal(one.data, other.data)
