"""Fit the expected Dice: in-domain images under synthetic shifts, whose Dice is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitta.prediction.expected import EVIDENCE, SHARE, Curve, DiceModel, isotonic, oriented

Array = NDArray[Any]
Evidence = Mapping[str, Array]
FOLDS = 5
NEIGHBOURS = 0.15  # share of the masks, nearest in quality, whose spread is the interval
FEWEST = 30  # masks to fit on


def fit_dice(evidence: Evidence, dice: Array, owners: Sequence[Any]) -> DiceModel:
    """The model of one class.

    Args:
        evidence: Scores of each mask, ``(M,)`` by name.
        dice: Its Dice, ``(M,)``.
        owners: Whose image it is: the images of one subject are never on both sides of a fold.
    """
    names = [name for name in EVIDENCE if np.isfinite(evidence[name]).any()]
    fold = _folds(owners)
    apart = np.full((len(dice), len(names)), np.nan)  # Dice by each score, from other subjects
    for k in range(FOLDS):
        inside = fold == k
        if inside.any() and not inside.all():
            curves = _curves(names, evidence, dice, ~inside)
            apart[inside] = _by_score(curves, evidence, inside)
    curves = _curves(names, evidence, dice, np.ones(len(dice), bool))
    rows = np.isfinite(apart).all(axis=1)
    low, middle, high = _interval(apart[rows].mean(axis=1), dice[rows])
    # All scores count alike: synthetic shifts keep the anatomy, so fitted weights would flatter
    # scores that another anatomy moves.
    weights = dict.fromkeys(names, 1 / len(names))
    return DiceModel(curves, weights, low, middle, high)


def _folds(owners: Sequence[Any]) -> Array:
    """A fold for each mask, the same for all of one owner, by the order of their names."""
    order = {owner: n for n, owner in enumerate(sorted(set(owners), key=str))}
    return np.array([order[owner] % FOLDS for owner in owners])


def _curves(names: Sequence[str], evidence: Evidence, dice: Array, rows: Array) -> dict[str, Curve]:
    curves = {}
    for name in names:
        values = oriented(name, evidence[name])
        usable = rows & np.isfinite(values)
        curves[name] = Curve.fit(values[usable], dice[usable])
    return curves


def _by_score(curves: Mapping[str, Curve], evidence: Evidence, rows: Array) -> Array:
    each = [curve(oriented(name, evidence[name][rows])) for name, curve in curves.items()]
    return np.stack(each, axis=1)


def _interval(quality: Array, dice: Array) -> tuple[Curve, Curve, Curve]:
    """Curves of the ends and the median of the Dice of masks alike in quality.

    The ends are moved apart until they hold their share of all masks (split conformal: the
    qualities come from folds without the mask's own subject).
    """
    order = np.argsort(quality, kind="stable")
    quality, dice = quality[order], dice[order]
    half = max(8, round(NEIGHBOURS * len(dice) / 2))
    tail = (1 - SHARE) / 2
    ends = []
    for level in (tail, 0.5, 1 - tail):
        local = [np.quantile(dice[max(0, i - half) : i + half], level) for i in range(len(dice))]
        ends.append(isotonic(np.array(local)))
    low, middle, high = ends
    outside = np.maximum(low - dice, dice - high)
    rank = min(1.0, SHARE * (1 + 1 / len(dice)))
    widen = max(0.0, float(np.quantile(outside, rank)))
    return tuple(Curve.thinned(quality, y) for y in (low - widen, middle, high + widen))  # type: ignore[return-value]
