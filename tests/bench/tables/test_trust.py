"""Whether trust figures find bad masks, against counts of pairs and ranks."""

import math
from statistics import correlation, fmean

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sitta.bench.stats.rows import COLUMNS
from sitta.bench.tables import TABLES
from sitta.bench.tables.trust import auc, is_bad, spearman
from tests.bench.loops import ALL_SPLITS, INTENT, named
from tests.bench.synthetic import TASKS


@pytest.fixture(scope="module")
def rows():
    return named()


@pytest.fixture(scope="module")
def tables(rows):
    return {table.name: table for table in TABLES["trust"](rows)}


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=25))
@settings(deadline=None)
def test_auc_is_the_count_of_pairs(points):
    score, positive = [p[0] for p in points], [p[1] for p in points]
    found = auc(np.array(score, float), np.array(positive, bool))
    high = [s for s, p in points if p]
    low = [s for s, p in points if not p]
    if not high or not low:
        assert math.isnan(found)
        return
    won = sum((a > b) + 0.5 * (a == b) for a in high for b in low)
    assert found == pytest.approx(won / (len(high) * len(low)))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=20))
@settings(max_examples=50, deadline=None)
def test_spearman_is_the_correlation_of_mean_ranks(points):
    def ranks(values):
        return [sum(v < x for v in values) + (values.count(x) + 1) / 2 for x in values]

    one, other = (list(side) for side in zip(*points, strict=True))
    value = spearman(np.array(one, float), np.array(other, float))
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert math.isnan(value)
    else:
        assert value == pytest.approx(correlation(ranks(one), ranks(other)), abs=1e-12)


def test_signals_that_are_missing_do_not_count():
    assert auc(np.array([3.0, math.nan, 1.0]), np.array([True, True, False])) == 1
    assert spearman(np.array([1.0, 2, 3, math.nan]), np.array([2.0, 4, 5, 0])) == pytest.approx(1)
    assert math.isnan(spearman(np.array([1.0, math.nan]), np.array([1.0, 2.0])))


@pytest.mark.parametrize(("task", "bad"), [("chest", [1, 0, 1, 0]), ("retina", [1, 0, 0, 0])])
def test_bad_is_below_a_limit_on_chest_and_the_lowest_tenth_elsewhere(task, bad):
    split = pd.DataFrame({"task": task, "dice": [0.1, 0.9, 0.79, 0.8]})
    assert is_bad(split).astype(int).tolist() == bad


def test_masks_that_are_all_alike_have_no_lowest_tenth():
    assert is_bad(pd.DataFrame({"task": "retina", "dice": [0.4, 0.4, 0.4]})) is None
    assert is_bad(pd.DataFrame({"task": "chest", "dice": [0.4, 0.4, 0.4]})).all()
    many = TABLES["trust"](one_split([0.0] * 3 + [0.5, 0.6, 0.7, 0.8, 0.9], task="retina"))
    assert many[1].cells.iloc[0][["bad", "agreement"]].tolist() == ["-", "-"]
    assert many[2].cells["either"][0] == "0.0 / - / -"


def test_a_tenth_of_many_is_a_tenth():
    split = pd.DataFrame({"task": "retina", "dice": np.linspace(0, 1, 50)})
    assert is_bad(split).sum() == 5


def test_trust_pools_images_and_repeats_of_a_split(rows, tables):
    split = rows[(rows["training"] == "plain") & (rows["name"] == INTENT)]
    split = split[(split["source"] == "hrf") & (split["target"] == "rite")]
    assert len(split) == 14
    rank = stats.spearmanr(split["agreement"], split["dice"]).statistic
    found = tables["trust-correlation"].data
    row = found[found["split"] == "hrf -> rite"].iloc[0]
    assert row["agreement"] == pytest.approx(rank)
    assert row["uncertainty"] == pytest.approx(-1)
    assert math.isnan(row["change"])  # constant in these rows
    low = split["dice"] <= sorted(split["dice"])[1]
    pairs = [
        (a < b) + 0.5 * (a == b) for a in split["agreement"][low] for b in split["agreement"][~low]
    ]
    finding = tables["trust-finding"].data
    row = finding[finding["split"] == "hrf -> rite"].iloc[0]
    assert row["agreement"] == pytest.approx(fmean(pairs))
    assert row["distance"] == 1
    assert row["bad"] == pytest.approx(2 / 14)


def test_trust_averages_over_splits_and_then_over_tasks(tables):
    data = tables["trust-finding"].data
    means = []
    for task in TASKS:
        part = data[(data["task"] == task) & (data["split"] != ALL_SPLITS)]["agreement"].dropna()
        row = data[(data["task"] == task) & (data["split"] == ALL_SPLITS)].iloc[0]
        assert row["agreement"] == pytest.approx(fmean(part))
        means.append(row["agreement"])
    assert data.iloc[-1]["split"] == "mean over tasks"
    assert data.iloc[-1]["agreement"] == pytest.approx(fmean(means))


def one_split(dice, notes=None, task="chest"):
    count = len(dice)
    base = {"task": task, "training": "plain", "source": "mcu", "target": "chn", "repeat": 0}
    base |= {"method": "intent", "lam": math.nan, "strategy": "ent-baln", "members": 6}
    base |= {"settings": "", "slice": 0, "drawn": True}
    frame = pd.DataFrame({**base, "image": [f"{i}" for i in range(count)], "dice": dice})
    frame["notes"] = notes or [""] * count
    frame["agreement"] = np.arange(count) / count
    return frame.reindex(columns=list(COLUMNS))


def test_notes_have_precision_and_recall():
    far, split = "far-from-source", "members-disagree"
    notes = [split, f"{split} {far}", "", "empty-mask", far, ""]
    rows = one_split([0.5, 0.6, 0.7, 0.9, 0.95, 0.9], notes)
    table = TABLES["trust"](rows)[2]
    row = table.data.iloc[0]
    assert row["bad"] == 0.5
    assert table.cells[far][0] == "33.3 / 50.0 / 33.3"
    assert row[f"flagged, {split}"] == pytest.approx(2 / 6)
    assert (row[f"precision, {split}"], row[f"recall, {split}"]) == (1, pytest.approx(2 / 3))
    assert (row[f"precision, {far}"], row[f"recall, {far}"]) == (0.5, pytest.approx(1 / 3))
    assert row["flagged, either"] == 0.5
    assert row["precision, either"] == pytest.approx(2 / 3)


def test_trust_says_nothing_without_a_dice(rows):
    assert TABLES["trust"](one_split([math.nan] * 6)) == []
    lost = rows["dice"].where(rows["method"] != "intent")
    assert TABLES["trust"](rows.assign(dice=lost)) == []


def test_trust_says_nothing_of_too_few_images_or_without_a_bad_one():
    few = TABLES["trust"](one_split([0.5, 0.9, 0.95, 0.99]))
    assert math.isnan(few[0].data["agreement"].iloc[0])
    assert math.isnan(few[1].data["agreement"].iloc[0])
    good = TABLES["trust"](one_split([0.9, 0.91, 0.92, 0.93, 0.94]))
    assert good[0].data["agreement"].iloc[0] == pytest.approx(1)
    assert math.isnan(good[1].data["agreement"].iloc[0])
    assert math.isnan(good[2].data["recall, either"].iloc[0])
    enough = TABLES["trust"](one_split([0.5, 0.91, 0.92, 0.93, 0.94]))
    assert enough[1].data["agreement"].iloc[0] == 1
