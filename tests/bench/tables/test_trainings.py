"""Tables of other trainings, and of other seeds, against plain loops over made-up rows."""

import math
from statistics import fmean, stdev

import pytest

from sitta.bench.tables import TABLES
from tests.bench.loops import ALL_SPLITS, INTENT, SOURCE, mean_by, named, splits


@pytest.fixture(scope="module")
def rows():
    return named()


def test_robust_sets_trainings_side_by_side_in_the_same_repeats(rows):
    data = TABLES["robust"](rows)[0].data
    assert data["target"].tolist() == ["chn", "jsrt", "mean over targets"]
    first = rows[rows["repeat"] == 0]
    for training, side in (("plain", "plain"), ("augmented", "other")):
        for name, key in ((SOURCE, "source"), (INTENT, "intent")):
            means = splits(first, name, training=training)
            means = {k: 100 * v for k, v in means.items() if k[:2] == ("chest", "mcu")}
            for target, value in zip(("chn", "jsrt"), data[f"{side} {key}"], strict=False):
                assert value == pytest.approx(means[("chest", "mcu", target)])
            assert data[f"{side} {key}"].iloc[-1] == pytest.approx(fmean(means.values()))
        gain = data[f"{side} intent"] - data[f"{side} source"]
        assert data[f"{side} gain"].tolist() == pytest.approx(gain.tolist())
        assert (data[f"{side} gain, low"] < data[f"{side} gain"]).all()
    assert data["images"].tolist() == [7, 7, 14]


def test_seeds_are_the_spread_of_split_means(rows):
    data = TABLES["seeds"](rows)[0].data.set_index(["task", "split"])
    key = ("spinal", "nwu", "ucl")
    means = [100 * splits(rows[rows["repeat"] == r], INTENT)[key] for r in (0, 1)]
    row = data.loc[("spinal", "nwu -> ucl")]
    assert row["intent, sd"] == pytest.approx(stdev(means))
    assert row["intent"] == pytest.approx(fmean(means))
    assert row["repeats"] == 2
    spreads = data.loc["spinal"].drop([ALL_SPLITS, "root mean square"])["gain, sd"]
    typical = math.sqrt(fmean(s * s for s in spreads))
    assert data.loc[("spinal", "root mean square"), "gain, sd"] == pytest.approx(typical)
    means = [
        100 * mean_by(splits(rows[rows["repeat"] == r], INTENT), 1)[("spinal",)] for r in (0, 1)
    ]
    assert data.loc[("spinal", ALL_SPLITS), "intent"] == pytest.approx(fmean(means))
    assert data.loc[("spinal", ALL_SPLITS), "intent, sd"] == pytest.approx(stdev(means))


def test_seeds_of_a_task_are_of_splits_with_all_repeats(rows):
    lost = (rows["source"] == "nwu") & (rows["target"] == "ucl") & (rows["repeat"] == 1)
    data = TABLES["seeds"](rows[~lost])[0].data.set_index(["task", "split"])
    assert math.isnan(data.loc[("spinal", "nwu -> ucl"), "gain, sd"])
    spreads = data.loc["spinal"].drop([ALL_SPLITS, "root mean square", "nwu -> ucl"])["gain, sd"]
    typical = math.sqrt(fmean(s * s for s in spreads))
    assert data.loc[("spinal", "root mean square"), "gain, sd"] == pytest.approx(typical)
