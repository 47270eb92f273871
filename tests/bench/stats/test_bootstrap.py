"""Paired statistics against enumeration, closed forms, and data of known truth."""

import itertools
import math
from statistics import fmean, median

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sitta.bench.stats import bootstrap
from sitta.bench.stats.scores import (
    OVER_TASKS,
    UNIT,
    complete,
    extent,
    per_image,
    scores,
    shifted,
    variants,
)
from tests.bench.synthetic import make

SOURCE, INTENT, TENT = "Source (no adaptation)", "InTEnt", "Tent, lambda 0"


@pytest.fixture(scope="module")
def rows():
    return shifted(make(images=6, drawn=3))


def units(values, task="chest", target="b"):
    """Figures of images of one split."""
    keys = [(task, "plain", "a", target, f"{i}", 0) for i in range(len(values))]
    index = pd.MultiIndex.from_tuples(keys, names=UNIT)
    return pd.Series(values, index, dtype=float)


def lookup(rows, **wanted):
    """Dice x100 by unit and repeat, of one variant, in a plain dictionary."""
    found = {}
    for row in rows.to_dict("records"):
        if all(row[key] == value for key, value in wanted.items()):
            key = (row["task"], row["source"], row["target"], row["image"], row["slice"])
            found.setdefault(key, {})[row["repeat"]] = 100 * row["dice"]
    return found


def compare(rows, one, other):
    """One variant minus another, by their labels."""
    wide = scores(rows)
    return bootstrap.by_task(bootstrap.differences(wide[one], wide[other]))


def slow_difference(rows, one, other):
    """Mean over repeats, images, splits, tasks, in plain loops.

    Returns means by task, images of all tasks, and masks by task.
    """
    a, b = lookup(rows, **one), lookup(rows, **other)
    splits, masks = {}, {}
    for key in a.keys() & b.keys():
        both = [a[key][r] - b[key][r] for r in a[key].keys() & b[key].keys()]
        if both:
            splits.setdefault(key[:3], []).append(fmean(both))
            masks.setdefault(key[0], []).extend(both)
    tasks = {}
    for split, values in splits.items():
        tasks.setdefault(split[0], []).append(fmean(values))
    means = {task: fmean(values) for task, values in tasks.items()}
    everything = [v for values in splits.values() for v in values]
    return {**means, OVER_TASKS: fmean(means.values())}, everything, masks


AS_SOURCE = {"method": "source", "lam": 1.0}
AS_INTENT = {"method": "intent", "strategy": "ent-baln", "members": 6}
AS_TENT = {"method": "tent", "lam": 0.0}


@pytest.mark.parametrize(
    ("label", "wanted"), [(INTENT, AS_INTENT), (TENT, AS_TENT)], ids=["all images", "draw"]
)
def test_differences_are_what_plain_loops_find(rows, label, wanted):
    # Uneven on purpose: runs that are missing in one repeat, images that are missing in one split.
    missing = (rows["method"] == wanted["method"]) & (rows["image"] == "image-001")
    missing &= ((rows["repeat"] == 1) & (rows["source"] == "mcu")) | (rows["target"] == "hrf")
    uneven = rows[~missing]
    found = compare(uneven, label, SOURCE)
    expected, every, masks = slow_difference(uneven, wanted, AS_SOURCE)
    assert list(found) == ["chest", "retina", "spinal", OVER_TASKS]
    for task, comparison in found.items():
        assert comparison.difference == pytest.approx(expected[task], abs=1e-8)
    overall = found[OVER_TASKS]
    assert overall.images == len(every)
    assert overall.splits == 18
    assert overall.masks == sum(map(len, masks.values())) > len(every)
    worse = {task: fmean(v < -1 for v in some) for task, some in masks.items()}
    better = {task: fmean(v > 1 for v in some) for task, some in masks.items()}
    for task in masks:
        assert (found[task].worse, found[task].better) == (worse[task], better[task])
    assert overall.worse == pytest.approx(fmean(worse.values()))
    assert overall.better == pytest.approx(fmean(better.values()))
    assert math.isnan(overall.p)  # of all images together it would be one of the largest task


def slow_once(rows, one, other):
    """By task, differences of each image of each target: mean over repeats, then over sources."""
    a, b = lookup(rows, **one), lookup(rows, **other)
    images = {}
    for task, source, *image in a.keys() & b.keys():
        key = (task, source, *image)
        both = [a[key][r] - b[key][r] for r in a[key].keys() & b[key].keys()]
        if both:
            images.setdefault((task, *image), []).append(fmean(both))
    found = {}
    for key, values in images.items():
        found.setdefault(key[0], []).append(fmean(values))
    return found


@pytest.mark.parametrize(
    ("label", "wanted"), [(INTENT, AS_INTENT), (TENT, AS_TENT)], ids=["all images", "draw"]
)
def test_median_and_p_are_of_each_target_image_once(rows, label, wanted):
    missing = (rows["method"] == wanted["method"]) & (rows["image"] == "image-001")
    missing &= ((rows["repeat"] == 1) & (rows["source"] == "mcu")) | (rows["source"] == "hrf")
    number = rows["image"].str[-3:].astype(int)
    sliced = rows.assign(image="vol-" + (number // 2).astype(str), slice=number % 2)[~missing]
    found = compare(sliced, label, SOURCE)
    expected = slow_once(sliced, wanted, AS_SOURCE)
    assert {task: len(values) for task, values in expected.items()} == dict.fromkeys(
        expected, 18 if wanted is AS_INTENT else 9
    )
    for task, values in expected.items():
        assert found[task].p == pytest.approx(stats.wilcoxon(values).pvalue, rel=1e-9)
        assert found[task].median == pytest.approx(median(values), abs=1e-8)
        assert found[task].images > len(values)  # counted for each source


def test_the_same_rows_under_another_source_do_not_lower_p(rows):
    one = rows[rows["source"].isin(["mcu", "hrf", "ucl"])]
    twice = pd.concat([one, one.assign(source=one["source"] + "-b")])
    once, again = compare(one, INTENT, SOURCE), compare(twice, INTENT, SOURCE)
    for task in ("chest", "retina", "spinal"):
        assert 0 < once[task].p < 0.05
        assert again[task].p == once[task].p
        assert again[task].median == once[task].median
        assert again[task].images == 2 * once[task].images


def test_sources_that_cancel_out_on_an_image_make_no_difference():
    keys = [("t", "plain", a, "x", f"{i}", 0) for a in "abc" for i in range(9)]
    gains = pd.Series([0.1] * 9 + [0.2] * 9 + [-0.3] * 9, pd.MultiIndex.from_tuples(keys))
    found = bootstrap.by_task(gains.rename_axis(UNIT))["t"]
    assert (found.p, found.median) == (1.0, 0.0)  # though 0.1 + 0.2 - 0.3 is not quite 0


def test_only_repeats_that_both_have_count():
    base = {"task": "t", "training": "plain", "source": "a", "target": "b", "slice": 0}
    base |= {"strategy": "", "members": 1, "settings": "", "image": "x"}
    one = [{**base, "method": "tent", "lam": 0.0, "repeat": r, "dice": d} for r, d in [(0, 0.5)]]
    two = [
        {**base, "method": "source", "lam": 1.0, "repeat": r, "dice": d}
        for r, d in [(0, 0.4), (1, 0.9)]
    ]
    found = compare(pd.DataFrame(one + two), TENT, SOURCE)
    assert found["t"].difference == pytest.approx(10.0)


def test_more_repeats_of_the_same_images_do_not_narrow_the_interval(rows):
    once = rows[rows["repeat"] == 0]
    often = pd.concat([once.assign(repeat=r) for r in range(5)])
    one = compare(once, INTENT, SOURCE)
    five = compare(often, INTENT, SOURCE)
    for task, found in one.items():
        assert (found.low, found.high) == pytest.approx((five[task].low, five[task].high))
        assert found.p == pytest.approx(five[task].p, nan_ok=task == OVER_TASKS)
        assert found.images == five[task].images


def test_interval_has_the_width_of_the_closed_form():
    values = np.random.default_rng(0).normal(3, 2, 400)
    low, high = bootstrap.interval(units(values))
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.06)
    assert (low + high) / 2 == pytest.approx(values.mean(), abs=0.03)


def test_sources_share_the_draws_of_their_images():
    """Two sources that do alike on the same images say no more than one; other images do."""
    values = units(np.random.default_rng(1).normal(0, 1, 300))
    index = values.index.set_levels(["c"], level="source")
    again = pd.Series(values.to_numpy(), index)
    assert bootstrap.interval(pd.concat([values, again])) == pytest.approx(
        bootstrap.interval(values)
    )
    fewer = bootstrap.interval(pd.concat([values, again.iloc[1:]]))
    assert np.ptp(fewer) < 0.8 * np.ptp(bootstrap.interval(values))


@pytest.mark.parametrize("level", ["target", "task"])
def test_splits_and_tasks_are_resampled_apart(level):
    """Two equal halves with draws of their own: the spread of their mean shrinks by root 2."""
    values = np.random.default_rng(1).normal(0, 1, 300)
    low, high = bootstrap.interval(units(values), draws=4000)
    second = units(values, **{level: "c"})
    both = pd.concat([units(values), second])
    low2, high2 = bootstrap.interval(both, draws=4000)
    assert (high2 - low2) / (high - low) == pytest.approx(1 / math.sqrt(2), abs=0.04)


def test_interval_covers_the_truth_as_often_as_it_says():
    chance = np.random.default_rng(2)
    trials = [f"{i}" for i in range(400)]
    parts = [
        pd.DataFrame(
            chance.normal(mean, 2, (40, 400)), units([0.0] * 40, target=name).index, trials
        )
        for mean, name in ((1, "b"), (3, "c"))
    ]
    low, high = bootstrap.intervals(pd.concat(parts), draws=1000)[OVER_TASKS]
    covered = ((low <= 2) & (high >= 2)).mean()
    assert 0.91 <= covered <= 0.975


def summarise(values):
    return bootstrap.by_task(values)[OVER_TASKS]


def test_big_splits_do_not_count_more():
    values = pd.concat([units([0.0] * 90), units([10.0] * 10, target="c")])
    assert bootstrap.mean(values) == 5.0
    assert summarise(values).difference == 5.0
    assert summarise(values).better == 0.1


def test_draws_are_seeded():
    values = units(np.random.default_rng(3).normal(0, 1, 30))
    assert bootstrap.interval(values) == bootstrap.interval(values)
    assert bootstrap.interval(values) != bootstrap.interval(values, seed=1)


def test_intervals_of_columns_are_those_of_each_alone():
    chance = np.random.default_rng(4)
    frame = pd.DataFrame({"a": units(chance.normal(0, 1, 30)), "b": units(chance.normal(5, 3, 30))})
    ends = bootstrap.intervals(frame)
    for at, name in enumerate(frame):
        low, high = ends["chest"]
        assert (low[at], high[at]) == pytest.approx(bootstrap.interval(frame[name]))


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=30))
@settings(max_examples=40, deadline=None)
def test_interval_lies_within_the_data(values):
    low, high = bootstrap.interval(units(values), draws=50)
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9


def test_nothing_is_said_of_no_image_and_little_of_one():
    empty = summarise(units([]))
    assert empty.images == empty.splits == 0
    assert all(map(math.isnan, (empty.difference, empty.low, empty.high, empty.p, empty.worse)))
    assert math.isnan(bootstrap.mean(units([])))
    one = summarise(units([2.0]))
    assert (one.difference, one.better, one.worse, one.images) == (2.0, 1.0, 0.0, 1)
    assert all(map(math.isnan, (one.low, one.high, one.p)))
    # One split that cannot be resampled makes the whole interval too narrow, so there is none.
    mixed = summarise(pd.concat([units([1.0, 2.0, 3.0]), units([1.0], target="c")]))
    assert math.isnan(mixed.low)
    assert mixed.difference == 1.5


def test_equal_variants_do_not_differ(rows):
    for task, found in compare(rows, INTENT, INTENT).items():
        assert (found.difference, found.low, found.high) == (0, 0, 0)
        assert found.worse == found.better == 0
        assert found.p == 1 or task == OVER_TASKS


def enumerated(values):
    """The share of all signs of these ranks that give a sum as far from the middle."""
    moved = [v for v in values if v != 0]
    ranks = [sorted(map(abs, moved)).index(abs(v)) + 1 for v in moved]
    middle = sum(ranks) / 2
    seen = abs(sum(r for r, v in zip(ranks, moved, strict=True) if v > 0) - middle)
    signs = list(itertools.product((0, 1), repeat=len(ranks)))
    sums = [sum(r * s for r, s in zip(ranks, one, strict=True)) for one in signs]
    return sum(abs(s - middle) >= seen - 1e-9 for s in sums) / len(signs)


@given(
    st.lists(st.integers(1, 99), min_size=2, max_size=8, unique=True),
    st.lists(st.sampled_from([-1.0, 1.0]), min_size=8, max_size=8),
    st.integers(0, 3),
)
@settings(max_examples=50, deadline=None)
def test_signed_rank_is_the_enumeration_of_signs(sizes, signs, zeros):
    values = [a * s for a, s in zip(sizes, signs, strict=False)] + [0.0] * zeros
    assert bootstrap.signed_rank(np.array(values)) == pytest.approx(enumerated(values))


def test_signed_rank_with_ties_and_without_differences():
    assert bootstrap.signed_rank(np.zeros(10)) == 1
    assert bootstrap.signed_rank(np.array([1.0] * 40)) < 1e-6
    assert bootstrap.signed_rank(np.array([1.0, -1.0] * 20)) > 0.9
    assert math.isnan(bootstrap.signed_rank(np.array([1.0])))
    assert math.isnan(bootstrap.signed_rank(np.array([1.0, math.nan])))


def slow_holm(p):
    """By its definition: the largest of the steps up to one's own rank."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    steps = [(len(p) - rank) * p[i] for rank, i in enumerate(order)]
    return [min(1.0, max(steps[: order.index(i) + 1])) for i in range(len(p))]


@given(st.lists(st.floats(0, 1), max_size=12))
@settings(deadline=None)
def test_holm_is_its_definition(p):
    assert bootstrap.holm(p).tolist() == pytest.approx(slow_holm(p))


def test_holm_leaves_out_what_is_not_a_number():
    found = bootstrap.holm([0.02, math.nan, 0.03])
    assert found[[0, 2]].tolist() == pytest.approx([0.04, 0.04])
    assert math.isnan(found[1])
    assert len(bootstrap.holm([])) == 0


def test_scores_keep_the_order_of_appearance_and_name_variants_apart(rows):
    wide = scores(rows)
    assert list(wide.index.unique("task")) == ["chest", "retina", "spinal"]
    assert list(wide.columns) == [v.label for v in variants(rows)]
    assert list(wide.columns[:3]) == [SOURCE, "Fixed lambda 0.8", "Fixed lambda 0.6"]
    oracle = rows[rows["method"] == "oracle"]
    other = oracle.assign(members=11, dice=0.0)
    apart = scores(pd.concat([oracle, other]))
    assert list(apart.columns) == ["Oracle lambda [6 members]", "Oracle lambda [11 members]"]
    assert (apart.iloc[:, 1] == 0).all()
    assert apart.iloc[:, 0].mean() == pytest.approx(100 * oracle["dice"].mean())


def test_lambdas_that_are_not_a_number_are_one_variant(rows):
    memo = rows[rows["method"] == "memo"]
    names = [v.label for v in variants(memo)]
    assert names == ["MEMO, lambda 0.5", "MEMO"]
    values = scores(memo)["MEMO"]
    own = memo[memo["lam"].isna()]
    assert values.notna().sum() == len(own)
    assert values.mean() == pytest.approx(100 * own["dice"].mean())


def test_complete_asks_of_a_task_only_what_it_has(rows):
    less = rows[~((rows["method"] == "tent") & (rows["task"] == "retina"))]
    wide = complete(scores(less)[[SOURCE, TENT]])
    counts = per_image(wide).groupby(level="task", observed=True).size()
    assert counts.to_dict() == {"chest": 18, "retina": 36, "spinal": 18}


def test_extent_counts_slices_of_volumes_once_per_target():
    keys = [("spinal", "plain", a, "b", "sub-1", at, 0) for at in (0, 1) for a in "xy"]
    index = pd.MultiIndex.from_tuples(keys, names=[*UNIT, "repeat"])
    said = "spinal 2 slices of 1 volume in 2 splits, 4 in all, 1 repeat"
    assert extent(pd.DataFrame({"InTEnt": 1.0}, index)) == said
