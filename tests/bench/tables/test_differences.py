"""Tables of paired differences against plain loops over made-up rows."""

from statistics import fmean, median

import pandas as pd
import pytest

from sitta.bench.publish import render
from sitta.bench.tables import TABLES, build
from tests.bench.loops import (
    ALL_SPLITS,
    INTENT,
    ORACLE,
    SOURCE,
    images,
    mean_by,
    named,
    splits,
)
from tests.bench.stats.test_bootstrap import slow_holm
from tests.bench.synthetic import TASKS

SHARP, BEST = "InTEnt sharpness", "Best fixed lambda (hindsight)"
GRADIENT = {"tent", "sar", "fseg", "memo", "sita"}


@pytest.fixture(scope="module")
def rows():
    return named()


@pytest.fixture(scope="module")
def tables(rows):
    return {table.name: table for table in build(rows, ["paired", "hurts"])}


def test_paired_compares_with_source_and_with_the_strongest(rows, tables):
    data = tables["paired"].data
    chest = data[data["task"] == "chest"]
    best = chest[chest["against"].str.startswith("best fixed")].iloc[0]
    assert best["against"] == "best fixed lambda (0.6)"
    pairs = images(rows, INTENT), images(rows, "Fixed lambda 0.6")
    gains = {}
    for key, values in pairs[0].items():
        if key[0] == "chest":
            gains.setdefault(key[:3], []).append(100 * (fmean(values) - fmean(pairs[1][key])))
    assert best["difference"] == pytest.approx(fmean(map(fmean, gains.values())), abs=1e-8)
    once = {}
    for (_, _, target), values in gains.items():
        for at, value in enumerate(values):  # images of a target come in one order for all sources
            once.setdefault((target, at), []).append(value)
    assert len(once) == 21
    assert best["median"] == pytest.approx(median(map(fmean, once.values())))
    assert "each taken once, by its mean over the sources" in tables["paired"].caption
    masks = [
        100 * (a - b)
        for key, values in pairs[0].items()
        if key[0] == "chest"
        for a, b in zip(values, pairs[1][key], strict=True)
    ]
    assert best["worse"] == pytest.approx(fmean(v < -1 for v in masks))
    assert (best["images"], best["masks"]) == (42, 84)
    runner = data[data["against"].str.startswith("runner-up")]
    assert runner["task"].tolist() == [*TASKS, "mean over tasks"]
    for _, row in runner.iterrows():
        assert row["against"].removeprefix("runner-up: ") == strongest(rows, row["task"])


def test_a_lambda_on_the_draw_alone_is_no_best_fixed_one(rows, tables):
    fixed = rows[(rows["method"] == "source") & (rows["lam"] == 0.6) & rows["drawn"]]
    known = pd.concat([rows, fixed.assign(lam=0.3, dice=1.0)])
    for name in ("paired", "strategies"):
        one = TABLES[name](known)[0].data
        lead = "against" if name == "paired" else "method"
        best = one[one[lead].str.lower().str.startswith("best fixed")]
        assert len(best)
        expected = TABLES[name](rows)[0].data
        expected = expected[expected[lead].str.lower().str.startswith("best fixed")]
        pd.testing.assert_frame_equal(
            best.drop(columns="p_holm", errors="ignore").reset_index(drop=True),
            expected.drop(columns="p_holm", errors="ignore").reset_index(drop=True),
        )


def strongest(rows, task):
    names = set(rows["name"][rows["method"].isin(GRADIENT)])
    means = {name: mean_by(splits(rows, name, drawn=True), 1) for name in names}
    if task == "mean over tasks":
        return max(names, key=lambda name: fmean(means[name].values()))
    return max(names, key=lambda name: means[name][(task,)])


def test_paired_corrects_over_the_whole_table(tables):
    data = tables["paired"].data
    assert set(data["task"]) == {*TASKS, "mean over tasks"}
    over = data["task"] == "mean over tasks"
    assert data.loc[over, ["p", "median"]].isna().all(axis=None)
    known = data[~over]
    expected = slow_holm(known["p"].tolist())
    assert known["p_holm"].tolist() == pytest.approx(expected, rel=1e-6, abs=0)
    assert (known["p_holm"] > known["p"]).sum() > len(known) / 2
    assert ORACLE not in set(data["variant"])
    assert SOURCE not in set(data["variant"])


def test_hurts_lists_the_splits_that_lose_and_all_at_home(rows):
    worse = rows.copy()
    lost = (worse["method"] == "intent") & (worse["source"] == "hrf") & (worse["target"] == "rite")
    worse.loc[lost, "dice"] -= 0.2
    table = TABLES["hurts"](worse)[0]
    away = table.data[table.data["images of"] == "other domain"]
    assert away["split"].tolist() == ["hrf -> rite", "mean over splits"]
    assert "1 of 18 splits, 1 of 3 tasks" in table.caption
    first = away.iloc[0]
    gain = splits(worse, INTENT)[("retina", "hrf", "rite")]
    gain -= splits(worse, SOURCE)[("retina", "hrf", "rite")]
    assert first["difference"] == pytest.approx(100 * gain)
    assert first["intent"] - first["source"] == pytest.approx(first["difference"])
    assert (first["worse"], first["images"]) == (1.0, 7)
    home = table.data[table.data["images of"] == "source domain"]
    assert home["split"].tolist() == [
        name for sites in TASKS.values() for name in [*(f"{s} -> {s}" for s in sites), ALL_SPLITS]
    ]
    expected = mean_by(splits(worse, SOURCE, home=True), 1)[("spinal",)]
    assert home.iloc[-1]["source"] == pytest.approx(100 * expected)


def test_hurts_says_that_nothing_does(rows):
    away = rows[rows["source"] != rows["target"]]
    table = TABLES["hurts"](away)[0]
    assert table.cells.empty
    assert "0 of 18 splits, 0 of 3 tasks" in table.caption
    assert "nothing has shifted" not in table.caption
    assert render.to_csv(table).count("\n") == 1


def test_steps_are_against_the_same_statistics(rows):
    """As methods mix in the layers, so does what they are held against."""
    fixed = rows[(rows["method"] == "source") & (rows["lam"] == 0.5) & rows["drawn"]]
    layers = fixed.assign(settings="statistics=in-layer", dice=fixed["dice"] - 0.01)
    layers["name"] = "Fixed lambda 0.5 (statistics=in-layer)"
    known = pd.concat([rows, layers])
    data = TABLES["steps"](known)[0].data.set_index("method")
    assert data.loc["Tent, lambda 0.5", "against"] == "Fixed lambda 0.5 (statistics=in-layer)"
    assert data.loc["Tent, lambda 1", "against"] == SOURCE
    assert data.loc["SAR, lambda 0", "against"] == "Fixed lambda 0"
    assert not {"MEMO", "SITA, lambda 0.8", INTENT} & {*data.index}  # no lambda, no steps
    for name, base in data["against"].items():
        ours, theirs = (mean_by(splits(known, n, drawn=True), 1) for n in (name, base))
        gains = {task: 100 * (ours[(task,)] - theirs[(task,)]) for task in TASKS}
        assert data.loc[name, [*TASKS]].tolist() == pytest.approx([*gains.values()])
        assert data.loc[name, "mean over tasks"] == pytest.approx(fmean(gains.values()))
    assert "Tent, lambda 0.5" not in {*TABLES["steps"](rows)[0].data["method"]}
    assert TABLES["steps"](rows[rows["method"] != "source"]) == []


def test_steps_of_a_method_that_lacks_a_task_have_no_mean_of_the_others(rows):
    lost = (rows["method"] == "tent") & (rows["lam"] == 0) & (rows["task"] == "retina")
    table = TABLES["steps"](rows[~lost])[0]
    data = table.data.set_index("method")
    shares = ["worse", "better"]
    assert data.loc["Tent, lambda 0", ["retina", "mean over tasks", *shares]].isna().all()
    assert data.loc["Tent, lambda 0", ["chest", "spinal"]].notna().all()
    whole = TABLES["steps"](rows)[0].data.set_index("method")
    pd.testing.assert_frame_equal(data.drop("Tent, lambda 0"), whole.drop("Tent, lambda 0"))
    assert whole[shares].notna().all(axis=None)
