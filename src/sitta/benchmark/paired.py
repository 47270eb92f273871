"""Paired statistics: by how much one variant differs from another on the same images.

The unit is one image of one split. Its value is the mean over repeats of the difference in Dice
points, on repeats in which both variants were run on it: ten trainings of a network do not make
ten images of one. Slices of a volume count as images, and an image that two sources are tried on
counts in both splits; where such units resemble each other, intervals are too narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from sitta.benchmark.scores import OVER_TASKS, SPLIT, UNIT, per_image, scores

DRAWS = 2000
LEVEL = 0.95
MARGIN = 1.0  # Dice points that a person would call worse, or better
DECIMALS = 9  # finer differences are rounding, not better masks

Array = NDArray[np.float64]
Split = tuple[str, ...]  # task, training, source, target


@dataclass(frozen=True)
class Comparison:
    """One variant against another.

    Attributes:
        difference: In Dice points: mean over images, then splits, then tasks.
        low: Lower end of its 95 % interval.
        high: Upper end.
        p: Of Wilcoxon's signed-rank test on all images, pooled; not corrected.
        worse: Share of all images, pooled, that are worse by more than a Dice point.
        better: Share that are better by more than a Dice point.
        images: How many.
        splits: In how many splits.
    """

    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    worse: float = math.nan
    better: float = math.nan
    images: int = 0
    splits: int = 0


def compare(rows: pd.DataFrame, one: str, other: str, seed: int = 0) -> dict[str, Comparison]:
    """One variant minus another, for each task and over tasks.

    Args:
        rows: As loaded, restricted to the splits that are meant.
        one: Label of a variant, as ``sitta.benchmark.rows.label`` gives it.
        other: Label of the one that is subtracted.
        seed: Of the resampling.

    Returns:
        Comparisons by task, and as the last one that over tasks, ``"mean over tasks"``.
    """
    wide = scores(rows)
    return by_task(differences(wide[one], wide[other]), seed)


def differences(one: pd.Series, other: pd.Series) -> pd.Series:
    """Difference of each image that both have in the same repeat, mean over its repeats.

    Args:
        one: A column of ``sitta.benchmark.scores.scores``.
        other: Another, which is subtracted.
    """
    both = (one - other).dropna().to_frame("difference")
    return per_image(both)["difference"].round(DECIMALS)


def by_task(values: pd.Series, seed: int = 0) -> dict[str, Comparison]:
    """Comparisons by task, then over tasks; ``values`` is what ``differences`` returns."""
    parts = _parts(values.to_frame())
    drawn = _drawn(parts, DRAWS, seed)
    tasks = dict.fromkeys(key[0] for key in parts)
    found = {task: _comparison(_of_task(parts, task), drawn) for task in tasks}
    return {**found, OVER_TASKS: _comparison(parts, drawn)}


def by_split(values: pd.Series, seed: int = 0) -> dict[Split, Comparison]:
    """Comparisons by task, training, source and target."""
    parts = _parts(values.to_frame())
    drawn = _drawn(parts, DRAWS, seed)
    return {key: _comparison({key: part}, drawn) for key, part in parts.items()}


def summarise(values: pd.Series, seed: int = 0) -> Comparison:
    """All figures of one comparison.

    Args:
        values: Differences of images, indexed by ``UNIT``.
        seed: Of the resampling.

    Example:
        >>> keys = [("chest", "plain", "a", "b", name, 0) for name in "xyz"]
        >>> index = pd.MultiIndex.from_tuples(keys, names=UNIT)
        >>> found = summarise(pd.Series([3.0, -2.0, 0.5], index))
        >>> found.difference, round(found.worse, 2), found.images
        (0.5, 0.33, 3)
    """
    return by_task(values, seed)[OVER_TASKS]


def mean(values: pd.Series) -> float:
    """Mean over tasks of the mean over splits of the mean over images."""
    if values.empty:
        return math.nan
    parts = _parts(values.to_frame())
    return float(_macro({key: part.mean(axis=0) for key, part in parts.items()})[0])


def interval(values: pd.Series, draws: int = DRAWS, seed: int = 0) -> tuple[float, float]:
    """The 95 % bootstrap percentile interval of ``mean``.

    Images are drawn with replacement within each split. Not a number if some split has fewer than
    two images, of which nothing can be said.

    Args:
        values: Figures of images, indexed by ``UNIT``.
        draws: How often.
        seed: Of the draws; the same images in the same order get the same draws.
    """
    low, high = intervals(values.to_frame(), draws, seed)[OVER_TASKS]
    return float(low[0]), float(high[0])


def intervals(
    values: pd.DataFrame, draws: int = DRAWS, seed: int = 0
) -> dict[str, tuple[Array, Array]]:
    """As ``interval``, of each column, by task and over tasks; all columns share the draws."""
    drawn = _drawn(_parts(values), draws, seed)
    tasks = dict.fromkeys(key[0] for key in drawn)
    found = {task: _ends(_of_task(drawn, task)) for task in tasks}
    return {**found, OVER_TASKS: _ends(drawn)}


def _parts(values: pd.DataFrame) -> dict[Split, Array]:
    """Figures ``(images, columns)`` of each split; grouped once, as that is what takes time."""
    numbers = values.groupby(level=SPLIT, observed=True, sort=True).ngroup().to_numpy()
    figures = values.to_numpy(float)
    _, first = np.unique(numbers, return_index=True)
    names = (values.index.get_level_values(level)[first].astype("str") for level in SPLIT)
    return {key: figures[numbers == at] for at, key in enumerate(zip(*names, strict=True))}


def _of_task(parts: dict[Split, Array], task: str) -> dict[Split, Array]:
    return {key: part for key, part in parts.items() if key[0] == task}


def _drawn(parts: dict[Split, Array], draws: int, seed: int) -> dict[Split, Array]:
    generator = np.random.default_rng(seed)
    return {key: _resampled(part, draws, generator) for key, part in parts.items()}


def _resampled(values: Array, draws: int, generator: np.random.Generator) -> Array:
    """Means of resampled images ``(draws, columns)``, of figures ``(images, columns)``."""
    count = len(values)
    if count < 2:
        return np.full((draws, values.shape[1]), math.nan)
    picks = generator.integers(count, size=(draws, count))
    picks += count * np.arange(draws)[:, None]  # each draw counts in a row of its own
    times = np.bincount(picks.ravel(), minlength=draws * count).reshape(draws, count)
    result: Array = times.astype(float) @ values / count
    return result


def _macro(means: dict[Split, Array]) -> Array:
    """Mean over tasks of the mean over splits, of anything that each split has."""
    if not means:
        return np.full((1, 1), math.nan)
    tasks = dict.fromkeys(key[0] for key in means)
    result: Array = np.mean(
        [np.mean(list(_of_task(means, task).values()), axis=0) for task in tasks], axis=0
    )
    return result


def _ends(drawn: dict[Split, Array]) -> tuple[Array, Array]:
    low, high = np.quantile(_macro(drawn), (0.5 - LEVEL / 2, 0.5 + LEVEL / 2), axis=0)
    return low, high


def _comparison(parts: dict[Split, Array], drawn: dict[Split, Array]) -> Comparison:
    if not parts:
        return Comparison()
    pooled = np.concatenate(list(parts.values()))[:, 0]
    low, high = _ends({key: drawn[key] for key in parts})
    return Comparison(
        float(_macro({key: part.mean(axis=0) for key, part in parts.items()})[0]),
        float(low[0]),
        float(high[0]),
        signed_rank(pooled),
        float((pooled < -MARGIN).mean()),
        float((pooled > MARGIN).mean()),
        len(pooled),
        len(parts),
    )


def signed_rank(values: Array) -> float:
    """Two-sided p of Wilcoxon's signed-rank test against no difference.

    Images without a difference say nothing about its sign and are left out; if there is no other,
    p is 1. Not a number for fewer than two images.

    Example:
        >>> signed_rank(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 0.0]))
        0.0625
    """
    known = values[~np.isnan(values)]
    if len(known) < 2:
        return math.nan
    moved = known[known != 0]
    return float(stats.wilcoxon(moved).pvalue) if len(moved) else 1.0


def holm(values: Any) -> Array:
    """Holm's correction of the p values of a family; those that are not a number do not count.

    Example:
        >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
        [0.03, 0.06, 0.06]
    """
    p = np.asarray(values, dtype=float)
    corrected = np.full(p.shape, math.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(p[order] * steps), 1.0)
    return corrected


__all__ = [
    "UNIT",
    "Comparison",
    "by_split",
    "by_task",
    "compare",
    "differences",
    "holm",
    "interval",
    "intervals",
    "mean",
    "signed_rank",
    "summarise",
]
