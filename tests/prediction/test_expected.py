"""Expected Dice: isotonic curves, coverage of intervals, monotone in every score."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from sitta.calibration.expected_dice import fit_dice
from sitta.errors import InvalidSetting
from sitta.prediction.expected import EVIDENCE, KNOTS, LOWER_IS_BETTER, Curve, DiceModel, isotonic


def synthetic(count=400, seed=0, names=EVIDENCE):
    """Scores that follow a hidden quality, some closely, and the Dice that goes with it."""
    rng = np.random.default_rng(seed)
    quality = rng.random(count)
    spread = 0.03 + 0.15 * (1 - quality)
    dice = np.clip(0.3 + 0.6 * quality + spread * rng.standard_normal(count), 0, 1)
    scores = {}
    for n, name in enumerate(names):
        noisy = quality + (0.05 + 0.05 * n) * rng.standard_normal(count)
        scores[name] = -noisy if name in LOWER_IS_BETTER else noisy
    owners = [f"{n // 4}" for n in range(count)]
    return scores, dice, owners


@pytest.mark.parametrize("seed", range(5))
def test_isotonic_equals_scipy(seed):
    rng = np.random.default_rng(seed)
    y = rng.standard_normal(200).cumsum() + 3 * rng.standard_normal(200)
    np.testing.assert_allclose(isotonic(y), isotonic_regression(y).x, atol=1e-9)
    ties = rng.integers(0, 3, 50).astype(float)
    np.testing.assert_allclose(isotonic(ties), isotonic_regression(ties).x, atol=1e-9)


def test_a_curve_is_thin_and_never_falls():
    rng = np.random.default_rng(1)
    x = rng.random(500)
    curve = Curve.fit(x, x**2 + 0.2 * rng.standard_normal(500))
    assert len(curve.x) <= KNOTS
    assert (np.diff(curve.y) >= 0).all()
    at = np.linspace(0.05, 0.95, 50)
    assert np.abs(curve(at) - at**2).max() < 0.12
    assert curve(np.array([-5.0])) == curve.y[0]
    assert curve(np.array([5.0])) == curve.y[-1]


def test_places_that_rounding_makes_equal_are_one():
    """Else a curve that was written could not be read."""
    x = np.array([0.0, 0.111111, 0.111112, 0.111113, 0.5])
    curve = Curve.fit(x, x)
    assert (np.diff(curve.x) > 0).all()
    assert Curve.from_dict({"x": curve.x, "y": curve.y}) == curve


def test_equal_places_share_their_mean():
    curve = Curve.fit(np.zeros(4), np.array([0.1, 0.9, 0.4, 0.6]))
    assert curve.x == (0.0,)
    assert curve.y == (0.5,)


@pytest.mark.parametrize("seed", range(4))
def test_intervals_hold_four_of_five_new_masks(seed):
    model = fit_dice(*synthetic(seed=seed))
    scores, dice, _ = synthetic(count=2000, seed=100 + seed)
    middle, low, high = model.interval(scores)
    held = float(((dice >= low) & (dice <= high)).mean())
    assert 0.74 <= held <= 0.9, held
    assert (low <= middle).all()
    assert (middle <= high).all()
    assert low.min() >= 0
    assert high.max() <= 1
    assert np.corrcoef(middle, dice)[0, 1] > 0.75
    assert abs(float((middle - dice).mean())) < 0.03


@pytest.mark.parametrize("name", EVIDENCE)
def test_a_better_score_never_lowers_the_dice(name):
    model = fit_dice(*synthetic())
    scores, _, _ = synthetic(count=1, seed=9)
    sweep = np.linspace(-2, 3, 101)
    many = {k: np.repeat(v, 101) for k, v in scores.items()}
    many[name] = -sweep if name in LOWER_IS_BETTER else sweep
    for values in model.interval(many):
        assert (np.diff(values) >= -1e-12).all()


def test_scores_that_are_not_known_do_not_count():
    scores, dice, owners = synthetic()
    whole = fit_dice(scores, dice, owners)
    lost = {**scores, "shape": np.full(len(dice), np.nan)}
    without = fit_dice(lost, dice, owners)
    assert "shape" not in without.weights
    new, truth, _ = synthetic(count=500, seed=5)
    new["with_source"] = np.full(500, np.nan)
    middle, _, _ = whole.interval(new)
    assert np.isfinite(middle).all()
    assert np.corrcoef(middle, truth)[0, 1] > 0.7
    # By hand: the weighted mean of what is known.
    parts = {
        n: c(-new[n] if n in LOWER_IS_BETTER else new[n])
        for n, c in whole.curves.items()
        if n != "with_source"
    }
    total = sum(whole.weights[n] for n in parts)
    expected = sum(whole.weights[n] * d for n, d in parts.items()) / total
    np.testing.assert_allclose(whole.quality(new), expected, atol=1e-12)


def test_weights_sum_to_one_and_are_even():
    model = fit_dice(*synthetic())
    assert sum(model.weights.values()) == pytest.approx(1, abs=1e-3)
    assert set(model.weights) == set(EVIDENCE)
    assert set(model.weights.values()) == {1 / len(EVIDENCE)}


def test_fitting_is_deterministic_and_the_order_of_rows_is_irrelevant():
    scores, dice, owners = synthetic()
    one = fit_dice(scores, dice, owners)
    assert one == fit_dice(scores, dice, owners)
    order = np.random.default_rng(0).permutation(len(dice))
    moved = {k: v[order] for k, v in scores.items()}
    other = fit_dice(moved, dice[order], [owners[i] for i in order])
    new, _, _ = synthetic(count=50, seed=3)
    for a, b in zip(one.interval(new), other.interval(new), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)


def test_it_comes_back_from_plain_values():
    model = fit_dice(*synthetic())
    again = DiceModel.from_dict(model.as_dict())
    new, _, _ = synthetic(count=50, seed=3)
    for a, b in zip(model.interval(new), again.interval(new), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "damage",
    [{"x": [0, 0], "y": [0, 1]}, {"x": [0, 1], "y": [0]}, {"x": [], "y": []},
     {"x": [0, 1], "y": [0, float("nan")]}, {"x": [1, 0], "y": [0, 1]}],
)  # fmt: skip
def test_damaged_curves_are_refused(damage):
    with pytest.raises(InvalidSetting, match="curve"):
        Curve.from_dict(damage)
