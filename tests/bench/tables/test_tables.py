"""The tables of the benchmark against plain loops over made-up rows."""

import math
from statistics import fmean
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from sitta.bench.stats.scores import UNIT, complete, per_image, scores, shifted
from sitta.bench.tables import TABLES, build
from sitta.bench.tables import table as table_module
from sitta.bench.tables.grid_data import GridData
from sitta.bench.tables.grids import by_source
from tests.bench.loops import (
    INTENT,
    ORACLE,
    SOURCE,
    by_method,
    mean_by,
    named,
    splits,
)
from tests.bench.synthetic import TASKS, make

SHARP, BEST = "InTEnt sharpness", "Best fixed lambda (hindsight)"
GRADIENT = {"tent", "sar", "fseg", "memo", "sita"}
VIEWS = " MEMO has 8 views here; the paper takes the settings of the original, which has 32 or 64."


@pytest.fixture(scope="module")
def rows():
    return named()


@pytest.fixture(scope="module")
def tables(rows):
    return {table.name: table for table in build(rows)}


# --- overall ---


def test_overall_is_a_mean_of_means_on_the_images_that_all_have(rows, tables):
    table = tables["overall"]
    assert table.data["method"].tolist() == [
        *(SOURCE, "Fixed lambda 0.5", "Fixed lambda 0", "InTEnt average", "InTEnt vote"),
        *("Tent, lambda 0", "SAR, lambda 0", "FSeg, lambda 0", "SITA, lambda 0.8", "MEMO"),
        *(INTENT, ORACLE),
    ]
    for name in table.data["method"]:
        tasks = {k: 100 * v for k, v in mean_by(splits(rows, name, drawn=True), 1).items()}
        for task in TASKS:
            assert by_method(table, task)[name] == pytest.approx(tasks[(task,)])
        assert by_method(table, "mean over tasks")[name] == pytest.approx(fmean(tasks.values()))
    assert "chest 12 images in 6 splits, 24 in all" in table.caption
    assert "sites of spinal are others" in table.caption
    chest = TABLES["overall"](rows[rows["task"] == "chest"])[0]
    assert "others" not in chest.caption


def test_overall_has_intervals_around_the_means(tables):
    data = tables["overall"].data
    for task in (*TASKS, "mean over tasks"):
        assert (data[f"{task}, low"] < data[task]).all()
        assert (data[f"{task}, high"] > data[task]).all()
    widths = [(data[f"{t}, high"] - data[f"{t}, low"]).mean() for t in (*TASKS, "mean over tasks")]
    assert widths[-1] < min(widths[:-1])


def test_overall_sets_the_paper_beside(tables):
    table = tables["overall"]
    chest = by_method(table, "chest, paper")
    assert (chest[SOURCE], chest["MEMO"], chest["SITA, lambda 0.8"]) == (82.9, 85.3, 90.5)
    assert chest[INTENT] == 94.1
    assert chest["Fixed lambda 0.5"] == pytest.approx(93.4, abs=0.1)
    assert chest["InTEnt average"] == pytest.approx(93.6, abs=0.1)
    assert math.isnan(chest["InTEnt vote"])
    assert math.isnan(chest[ORACLE])
    every = by_method(table, "mean over tasks, paper")
    assert every[INTENT] == pytest.approx((64.5 + 94.1 + 58.6) / 3)
    cells = dict(zip(table.cells["Method"], table.cells["spinal, paper"], strict=True))
    assert cells[INTENT] == "64.5"
    assert cells[ORACLE] == "-"


def test_overall_has_the_mean_over_sources_with_the_papers(rows, tables):
    table = tables["overall"]
    assert by_method(table, "mean over sources, paper")[INTENT] == 71.6
    names = list(table.cells["Method"])
    values = per_image(complete(scores(shifted(rows))[names]))
    parts = values.groupby(level=["task", "source", "target"], observed=True).mean()
    expected = parts.groupby(level=["task", "source"], observed=True).mean().mean()
    for name, value in by_method(table, "mean over sources").items():
        assert value == pytest.approx(expected[name])


def test_the_papers_figures_are_of_the_same_splits(rows):
    one = rows[(rows["task"] == "chest") & (rows["source"] == "mcu") & (rows["target"] == "jsrt")]
    for name, column in (("methods", "mcu"), ("methods", "mean over sources")):
        assert by_method(TABLES[name](one)[0], f"{column}, paper")[SOURCE] == 72.6
    assert by_method(TABLES["splits"](one)[0], "mean over splits, paper")[SOURCE] == 72.6
    assert by_method(TABLES["overall"](one)[0], "chest, paper")[SOURCE] == 72.6
    more = pd.concat([rows, one.assign(source="mine")])
    assert "mean over sources, paper" not in TABLES["methods"](more)[0].data
    assert "chest, paper" not in TABLES["overall"](more)[0].data


def test_other_settings_are_another_method_than_the_papers(rows):
    tuned = rows.assign(settings=np.where(rows["method"] == "tent", "steps=5", ""))
    chest = by_method(TABLES["overall"](tuned)[0], "chest, paper")
    assert math.isnan(chest["Tent, lambda 0 (steps=5)"])
    prior = rows.assign(settings=np.where(rows["method"] == "memo", "prior=intent-paper", ""))
    chest = by_method(TABLES["overall"](prior)[0], "chest, paper")
    assert chest["MEMO (prior=intent-paper)"] == 85.3


def test_the_papers_memo_stands_beside_ours_whatever_its_views(rows):
    few = rows.assign(settings=np.where(rows["method"] == "memo", "views=8", ""))
    overall = TABLES["overall"](few)[0]
    assert by_method(overall, "chest, paper")["MEMO (views=8)"] == 85.3
    grid = TABLES["methods"](few)[0]
    assert by_method(grid, "chest mcu, paper")["MEMO, lambda 0.5 (views=8)"] == 91.3
    for table, usual in ((overall, "overall"), (grid, "methods")):
        assert VIEWS in table.caption
        assert "MEMO" not in TABLES[usual](rows)[0].caption
    steps = rows.assign(settings=np.where(rows["method"] == "memo", "steps=5 views=8", ""))
    other = TABLES["overall"](steps)[0]
    assert math.isnan(by_method(other, "chest, paper")["MEMO (steps=5 views=8)"])
    assert "MEMO" not in other.caption  # of which the paper has nothing to set beside it
    some = few[(few["task"] == "chest") & (few["source"] == "mcu")]
    assert "MEMO" not in TABLES["overall"](some)[0].caption  # nor in its appendix
    assert VIEWS in TABLES["methods"](some)[0].caption


def test_the_best_is_bold_but_never_the_oracle(tables):
    table = tables["overall"]
    at = list(table.cells.columns).index("chest")
    bold = {row for row, column in table.strong if column == at}
    fair = table.data["chest"][table.data["method"] != ORACLE].round(1)
    assert bold == set(fair.index[fair == fair.max()])
    assert len(table.data) - 1 not in {row for row, _ in table.strong}


def test_a_task_without_a_method_has_no_mean_over_tasks_for_it(rows):
    less = rows[~((rows["method"] == "memo") & (rows["task"] == "retina"))]
    table = TABLES["overall"](less)[0]
    assert math.isnan(by_method(table, "retina")["MEMO"])
    assert math.isnan(by_method(table, "mean over tasks")["MEMO"])
    assert math.isnan(by_method(table, "mean over tasks, low")["MEMO"])
    assert not math.isnan(by_method(table, "mean over tasks")[INTENT])
    found = TABLES["paired"](less)[0].data
    memo = found[found["variant"] == "MEMO"]
    assert memo["task"].tolist() == ["chest", "spinal"]


def test_images_that_one_method_lacks_count_for_none(rows):
    lost = (rows["method"] == "sar") & (rows["image"] == "image-000")
    table = TABLES["overall"](rows[~lost])[0]
    kept = rows[rows["image"] != "image-000"]
    expected = mean_by(splits(kept, INTENT, drawn=True), 1)
    assert by_method(table, "chest")[INTENT] == pytest.approx(100 * expected[("chest",)])


# --- methods, strategies, splits ---


def test_methods_are_in_blocks_of_lambda_on_the_draw(rows, tables):
    table = tables["methods"]
    assert table.data["method"].tolist() == [
        *(SOURCE, "Tent, lambda 1"),
        *("Fixed lambda 0.5", "Tent, lambda 0.5", "MEMO, lambda 0.5"),
        *("Fixed lambda 0", "Tent, lambda 0", "SAR, lambda 0", "FSeg, lambda 0"),
        *("SITA, lambda 0.8", "MEMO", "InTEnt average", "InTEnt vote", INTENT, ORACLE),
    ]
    assert len(table.data) - 1 not in {row for row, _ in table.strong}  # the oracle wins nothing
    assert "without the oracle" in table.caption
    for name in table.data["method"]:
        sources = mean_by(splits(rows, name, drawn=True), 2)
        for (task, source), value in sources.items():
            assert by_method(table, f"{task} {source}")[name] == pytest.approx(100 * value)
        mean = 100 * fmean(sources.values())
        assert by_method(table, "mean over sources")[name] == pytest.approx(mean)


def test_a_lambda_that_a_method_is_tried_at_has_a_block(rows):
    """Beside Tent at 0.2 stands the network at 0.2; SITA's 0.8 is its own and makes no block."""
    moved = (rows["method"] == "tent") & (rows["lam"] == 0.5)
    other = rows.assign(lam=rows["lam"].where(~moved, 0.2))
    listed = TABLES["methods"](other)[0].data["method"].tolist()
    assert listed[:9] == [
        *(SOURCE, "Tent, lambda 1", "Fixed lambda 0.5", "MEMO, lambda 0.5"),
        *("Fixed lambda 0.2", "Tent, lambda 0.2"),
        *("Fixed lambda 0", "Tent, lambda 0", "SAR, lambda 0"),
    ]
    assert "Fixed lambda 0.8" not in listed
    new = rows[rows["method"] == "tent"].assign(method="mine", lam=0.4)
    listed = TABLES["methods"](pd.concat([rows, new]))[0].data["method"].tolist()
    assert listed.index("mine, lambda 0.4") == listed.index("Fixed lambda 0.4") + 1


def test_other_lambdas_than_the_papers_are_all_listed(rows):
    lambdas = rows["lam"].isin([1.0, 0.8, 0.2]) | (rows["method"] != "source")
    moved = (rows["method"] == "tent") & (rows["lam"] == 0.5)
    other = rows.assign(lam=rows["lam"].where(~moved, 0.2))[lambdas]
    fixed = [SOURCE, "Fixed lambda 0.8", "Fixed lambda 0.2"]
    assert TABLES["overall"](other)[0].data["method"].tolist()[:4] == [*fixed, "InTEnt average"]
    assert TABLES["quality"](other)[0].data["method"].tolist()[:3] == fixed
    assert TABLES["methods"](other)[0].data["method"].tolist()[:8] == [
        *(SOURCE, "Tent, lambda 1", "Fixed lambda 0.8", "SITA, lambda 0.8", "MEMO, lambda 0.5"),
        *("Fixed lambda 0.2", "Tent, lambda 0.2", "Tent, lambda 0"),
    ]


def test_lambdas_fixed_in_the_layers_stand_with_the_methods_that_do_so(rows):
    inside = rows.query("method == 'source' and lam == 0.5").assign(settings="statistics=in-layer")
    more = pd.concat([rows, inside.assign(dice=inside["dice"] - 0.01)])
    name = "Fixed lambda 0.5 (statistics=in-layer)"
    listed = TABLES["methods"](more)[0].data["method"].tolist()
    assert listed.index("Fixed lambda 0.5") + 1 == listed.index(name)
    assert listed.index(name) + 1 == listed.index("Tent, lambda 0.5")
    assert name not in TABLES["overall"](more)[0].data["method"].tolist()
    assert "Fixed lambda 0.5" in TABLES["strategies"](more)[0].data["method"].tolist()


def test_intent_with_settings_of_its_own_is_listed_but_no_runner_up(rows):
    inside = rows.query("strategy == 'ent-baln' and members == 6").copy()
    inside = inside.assign(settings="statistics=in-layer", dice=inside["dice"].clip(0.99))
    more = pd.concat([rows, inside])
    name = "InTEnt ent-baln (statistics=in-layer)"
    assert name in TABLES["methods"](more)[0].data["method"].tolist()
    assert name in TABLES["overall"](more)[0].data["method"].tolist()
    assert not TABLES["paired"](more)[0].data["against"].str.contains("in-layer").any()


def test_many_splits_are_a_table_for_each_source(rows):
    spinal = rows[rows["task"] == "spinal"]
    more = pd.concat([spinal, spinal.assign(source=spinal["source"] + "-b")])
    found = {table.name: table for table in TABLES["splits"](more)}
    sources = [*TASKS["spinal"], *(f"{name}-b" for name in TASKS["spinal"])]
    assert {*found} == {
        f"splits-spinal-{s}-{k}" for s in sources for k in ("methods", "strategies")
    }
    whole = {table.name: table for table in TABLES["splits"](spinal)}["splits-spinal-methods"]
    part = found["splits-spinal-ucl-methods"]
    assert list(part.data) == ["method", "ucl -> nwu", "ucl -> philips", "mean over splits"]
    assert by_method(part, "ucl -> nwu") == by_method(whole, "ucl -> nwu")


def test_methods_have_the_paper_where_it_has_the_domain(tables):
    table = tables["methods"]
    assert by_method(table, "chest mcu, paper")["Tent, lambda 0.5"] == pytest.approx(91.65)
    assert by_method(table, "mean over sources, paper")[SOURCE] == pytest.approx(64.0, abs=0.05)
    assert "spinal ucl, paper" not in table.data
    assert "other sites of spinal" in table.caption
    cells = dict(zip(table.cells["Method"], table.cells["spinal ucl"], strict=True))
    assert "(" not in cells[SOURCE]


def test_strategies_are_on_all_images_and_say_which_are_not(rows, tables):
    table = tables["strategies"]
    for name in (SOURCE, "Fixed lambda 0.2", "InTEnt vote", INTENT, ORACLE):
        for (task, source), value in mean_by(splits(rows, name), 2).items():
            assert by_method(table, f"{task} {source}")[name] == pytest.approx(100 * value)
    drawn = mean_by(splits(rows, SHARP, drawn=True), 2)
    found = by_method(table, "chest mcu")
    assert found[SHARP] == pytest.approx(100 * drawn[("chest", "mcu")])
    shown = table.cells["Method"].tolist()
    assert [name for name in shown if name.endswith("*")] == [f"{SHARP}*"]
    assert "* on the seeded draw only" in table.caption
    assert "chest 21 images in 6 splits, 42 in all" in table.caption
    out = {shown.index(name) for name in (f"{SHARP}*", BEST, ORACLE)}
    assert not out & {row for row, _ in table.strong}


def test_nothing_is_marked_where_all_images_are_drawn():
    table = TABLES["strategies"](make(images=3, drawn=3, repeats=1))[0]
    assert not any(name.endswith("*") for name in table.cells["Method"])
    assert "*" not in table.caption


def test_the_best_fixed_lambda_is_chosen_by_the_task(rows):
    shifted = rows.copy()
    shifted.loc[(rows["task"] == "retina") & (rows["name"] == "Fixed lambda 0.2"), "dice"] += 0.1
    shifted.loc[(rows["source"] == "ucl") & (rows["name"] == "Fixed lambda 0.8"), "dice"] += 0.02
    names = [SOURCE, *(f"Fixed lambda {lam}" for lam in (0.8, 0.6, 0.5, 0.4, 0.2, 0))]
    table, chosen = TABLES["strategies"](shifted)[0], {}
    for task, sites in TASKS.items():
        means = {name: mean_by(splits(shifted, name), 1)[(task,)] for name in names}
        chosen[task] = max(means, key=means.get)
        for site in sites:
            found = by_method(table, f"{task} {site}")
            assert found[BEST] == pytest.approx(found[chosen[task]])
    assert chosen["retina"] == "Fixed lambda 0.2"
    assert chosen["chest"] == "Fixed lambda 0.6"
    rivals = TABLES["paired"](shifted)[0].data
    rivals = rivals[rivals["against"].str.startswith("best fixed")].set_index("task")
    assert rivals["against"]["retina"] == "best fixed lambda (0.2)"
    assert rivals["against"]["mean over tasks"] == "best fixed lambda of each task"
    gaps = rivals["difference"]
    assert gaps["mean over tasks"] == pytest.approx(fmean(gaps[task] for task in TASKS))
    assert gaps["retina"] < 0 < gaps["chest"]


def test_splits_have_a_table_each_for_methods_and_strategies(rows, tables):
    names = [name for name in tables if name.startswith("splits-")]
    assert names == [f"splits-{t}-{kind}" for t in TASKS for kind in ("methods", "strategies")]
    for task in TASKS:
        for kind, drawn in (("methods", True), ("strategies", False)):
            table = tables[f"splits-{task}-{kind}"]
            expected = splits(rows, INTENT, drawn=drawn)
            for (_, source, target), value in ((k, v) for k, v in expected.items() if k[0] == task):
                found = by_method(table, f"{source} -> {target}")[INTENT]
                assert found == pytest.approx(100 * value)
            mean = 100 * mean_by(expected, 1)[(task,)]
            assert by_method(table, "mean over splits")[INTENT] == pytest.approx(mean)


def test_splits_have_the_papers_figures_but_of_other_sites(tables):
    chest, spinal = tables["splits-chest-strategies"], tables["splits-spinal-strategies"]
    assert by_method(chest, "jsrt -> mcu, paper")[INTENT] == 94.3
    assert by_method(chest, "jsrt -> mcu, paper")["Fixed lambda 0.8"] == 88.5
    assert by_method(tables["splits-retina-methods"], "rite -> hrf, paper")[SOURCE] == 56.3
    assert [name for name in spinal.data if "paper" in name] == ["mean over splits, paper"]
    assert "other sites of spinal" in spinal.caption
    assert "other sites" not in chest.caption
    cell = dict(zip(chest.cells["Method"], chest.cells["jsrt -> mcu"], strict=True))[INTENT]
    assert cell.endswith("(94.3)")


# --- quality ---


def test_quality_is_by_task_on_the_draw(rows, tables):
    data = tables["quality"].data.set_index(["task", "method"])
    for value, scale in (("dice", 100), ("iou", 100), ("hd95", 1), ("ece", 100)):
        expected = mean_by(splits(rows, INTENT, value=value, drawn=True), 1)[("retina",)]
        assert data.loc[("retina", INTENT), value] == pytest.approx(scale * expected)


def test_quality_knows_which_way_is_better(tables):
    table = tables["quality"]
    for header, key, best in (("HD95", "hd95", min), ("Surface Dice", "surface_dice", max)):
        at = list(table.cells.columns).index(header)
        bold = {row for row, column in table.strong if column == at}
        for task in TASKS:
            fair = (table.data["task"] == task) & (table.data["method"] != ORACLE)
            shown = table.data[key][fair].round(1)
            assert bold & set(shown.index) == set(shown.index[shown == best(shown)])


# --- sweep, robust, seeds ---


def test_sweep_has_all_numbers_of_members_on_the_same_images(rows, tables):
    table = tables["sweep"]
    assert list(table.data.columns) == ["task", "strategy", "2", "3", "5", "6", "13", "50"]
    assert table.data["strategy"].tolist() == ["average", "ent-baln"]
    for count, name in (("6", INTENT), ("13", "InTEnt ent-baln, 13 members")):
        expected = mean_by(splits(rows, name, drawn=True), 1)[("chest",)]
        assert table.data[count][1] == pytest.approx(100 * expected)
    assert "chest 12 images in 6 splits, 24 in all" in table.caption


def test_a_source_that_lacks_a_split_has_no_part_in_the_mean_over_sources():
    keys = [("t", "plain", a, b, "x", 0) for a, b in ("ab", "ac", "ba")]
    index = pd.MultiIndex.from_tuples(keys, names=UNIT)
    values = pd.DataFrame({"whole": [1.0, 3.0, 6.0], "partly": [1.0, math.nan, 6.0]}, index)
    grid = GridData(values, [SimpleNamespace(label=name) for name in values])
    found = {header: mean(grid.means).to_dict() for header, mean in by_source(grid)}
    assert found["mean over sources"]["whole"] == 4.0
    assert math.isnan(found["a"]["partly"])
    assert math.isnan(found["mean over sources"]["partly"])


def test_a_table_is_one_function(rows, monkeypatch):
    monkeypatch.setattr(table_module, "_BUILDERS", dict(table_module._BUILDERS))

    @table_module.table("count", "Rows by task", order=1)
    def count(selection):
        sizes = selection.rows.groupby("task").size()
        data = pd.DataFrame({"task": sizes.index, "rows": sizes.to_numpy(float)})
        columns = [table_module.Column("Rows", table_module.WHOLE)]
        yield table_module.tabulate("All rows.", data, ["task"], columns)

    builders = table_module.registered()
    assert list(builders)[:3] == ["overall", "count", "members"]
    (made,) = builders["count"](rows)
    assert (made.name, made.title) == ("count", "Rows by task")
    assert made.cells.columns.tolist() == ["Task", "Rows"]
    chest = (shifted(rows)["task"] == "chest").sum()
    assert made.cells["Rows"][0] == f"{chest:,}"
