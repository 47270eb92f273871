"""Paired statistics: by how much one variant differs from another on the same images.

The unit is one image of one split. Its value is the mean over repeats of the difference in Dice
points, on repeats in which both variants were run on it: ten trainings of a network do not make
ten images of one. Shares of images that got worse or better are counted mask by mask, each image
under each trained network: nobody uses the mean of several networks. The median and Wilcoxon's test
take an image that several sources are tried on once, by its mean over them: the same image under
five networks does not make five images either.

Intervals come from resampled images. An image that several sources are tried on is drawn for all of
them at once. They speak of other images for these networks, not of other trainings. Slices of a
volume count as images: where they resemble each other, intervals are too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from sitta.benchmark.scores import OVER_TASKS, SPLIT, per_image

DRAWS = 2000
LEVEL = 0.95
MARGIN = 1.0  # Dice points that a person would call worse, or better
DECIMALS = 9  # finer differences are rounding, not better masks

Array = NDArray[np.float64]
Split = tuple[str, ...]  # task, training, source, target
T = TypeVar("T")


@dataclass(frozen=True)
class Comparison:
    """One variant against another.

    Attributes:
        difference: In Dice points: mean over images, then splits, then tasks.
        low: Lower end of its 95 % interval.
        high: Upper end.
        median: Over all images of a task, each by its mean over the sources tried on it.
        p: Of Wilcoxon's signed-rank test on the same figures; not corrected.
        worse: Share of the masks of a task that are worse by more than a Dice point.
        better: Share that are better by more than a Dice point.
        images: How many, each as often as there are sources that are tried on it.
        masks: How many with all repeats.
        splits: How many.
    """

    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    median: float = math.nan
    p: float = math.nan
    worse: float = math.nan
    better: float = math.nan
    images: int = 0
    masks: int = 0
    splits: int = 0


def differences(one: pd.Series, other: pd.Series) -> pd.Series:
    """Difference of each mask: of each image in each repeat that both have.

    Args:
        one: A column of ``sitta.benchmark.scores.scores``.
        other: Another, which is subtracted.
    """
    return (one - other).dropna().round(DECIMALS).rename("difference")


def by_task(values: pd.Series, seed: int = 0) -> dict[str, Comparison]:
    """Comparisons by task, then over tasks.

    Args:
        values: What ``differences`` returns.
        seed: Of the resampling.

    Example:
        >>> names = [*SPLIT, "image", "slice"]
        >>> keys = [("chest", "plain", "a", "b", name, 0) for name in "xyz"]
        >>> index = pd.MultiIndex.from_tuples(keys, names=names)
        >>> found = by_task(pd.Series([3.0, -2.0, 0.5], index))["chest"]
        >>> found.difference, found.median, round(found.worse, 2), found.images
        (0.5, 0.5, 0.33, 3)
    """
    masks, parts = _parts(values.to_frame()), _parts(per_image(values.to_frame()))
    drawn = _drawn(parts, DRAWS, seed)
    tasks = dict.fromkeys(key[0] for key in parts)
    found = {
        task: _comparison(_of_task(parts, task), _of_task(masks, task), drawn) for task in tasks
    }
    return {**found, OVER_TASKS: _over_tasks(list(found.values()), drawn)}


def by_split(values: pd.Series, seed: int = 0) -> dict[Split, Comparison]:
    """Comparisons by task, training, source and target."""
    masks, parts = _parts(values.to_frame()), _parts(per_image(values.to_frame()))
    drawn = _drawn(parts, DRAWS, seed)
    return {key: _comparison({key: part}, {key: masks[key]}, drawn) for key, part in parts.items()}


def mean(values: pd.Series) -> float:
    """Mean over tasks of the mean over splits of the mean over images."""
    if values.empty:
        return math.nan
    return float(_macro(_means(_parts(per_image(values.to_frame()))))[0])


def interval(values: pd.Series, draws: int = DRAWS, seed: int = 0) -> tuple[float, float]:
    """The 95 % bootstrap percentile interval of ``mean``.

    Images of a target are drawn with replacement, the same ones for all sources that were tried on
    the same. Not a number if some split has fewer than two images, of which nothing can be said.

    Args:
        values: Figures of images, or of masks, indexed as ``sitta.benchmark.scores.scores`` does.
        draws: How often.
        seed: Of the draws; the same images in the same order get the same draws.
    """
    low, high = intervals(values.to_frame(), draws, seed)[OVER_TASKS]
    return float(low[0]), float(high[0])


def intervals(
    values: pd.DataFrame, draws: int = DRAWS, seed: int = 0
) -> dict[str, tuple[Array, Array]]:
    """As ``interval``, of each column, by task and over tasks; all columns share the draws."""
    drawn = _drawn(_parts(per_image(values)), draws, seed)
    tasks = dict.fromkeys(key[0] for key in drawn)
    found = {task: _ends(_of_task(drawn, task)) for task in tasks}
    return {**found, OVER_TASKS: _ends(drawn)}


class _Part(NamedTuple):
    """A split: its images, and figures ``(images, columns)`` of them."""

    images: tuple[Any, ...]
    figures: Array


def _parts(values: pd.DataFrame) -> dict[Split, _Part]:
    """Splits of a table; grouped once, as that is what takes time."""
    numbers = values.groupby(level=SPLIT, observed=True, sort=True).ngroup().to_numpy()
    figures = values.to_numpy(float)
    images = values.index.droplevel(SPLIT).to_numpy()
    _, first = np.unique(numbers, return_index=True)
    names = (values.index.get_level_values(level)[first].astype("str") for level in SPLIT)
    return {
        key: _Part(tuple(images[numbers == at]), figures[numbers == at])
        for at, key in enumerate(zip(*names, strict=True))
    }


def _of_task(parts: Mapping[Split, T], task: str) -> dict[Split, T]:
    return {key: part for key, part in parts.items() if key[0] == task}


def _means(parts: Mapping[Split, _Part]) -> dict[Split, Array]:
    return {key: part.figures.mean(axis=0) for key, part in parts.items()}


def _drawn(parts: Mapping[Split, _Part], draws: int, seed: int) -> dict[Split, Array]:
    """Means of resampled images ``(draws, columns)`` of each split; one draw for one target."""
    generator, times, found = np.random.default_rng(seed), {}, {}
    for key, (images, figures) in parts.items():
        count, target = len(images), (key[0], key[3], images)
        if count < 2:
            found[key] = np.full((draws, figures.shape[1]), math.nan)
            continue
        if target not in times:
            times[target] = _times(count, draws, generator)
        found[key] = times[target] @ figures / count
    return found


def _times(count: int, draws: int, generator: np.random.Generator) -> Array:
    """How often each of some images is drawn, ``(draws, images)``."""
    picks = generator.integers(count, size=(draws, count))
    picks += count * np.arange(draws)[:, None]  # each draw counts in a row of its own
    times = np.bincount(picks.ravel(), minlength=draws * count)
    return times.reshape(draws, count).astype(float)


def _macro(means: Mapping[Split, Array]) -> Array:
    """Mean over tasks of the mean over splits, of anything that each split has."""
    if not means:
        return np.full((1, 1), math.nan)
    tasks = dict.fromkeys(key[0] for key in means)
    result: Array = np.mean(
        [np.mean(list(_of_task(means, task).values()), axis=0) for task in tasks], axis=0
    )
    return result


def _ends(drawn: Mapping[Split, Array]) -> tuple[Array, Array]:
    low, high = np.quantile(_macro(drawn), (0.5 - LEVEL / 2, 0.5 + LEVEL / 2), axis=0)
    return low, high


def _comparison(
    parts: Mapping[Split, _Part], masks: Mapping[Split, _Part], drawn: Mapping[Split, Array]
) -> Comparison:
    """Of splits of one task."""
    once = _over_sources(parts)
    each = np.concatenate([part.figures[:, 0] for part in masks.values()])
    low, high = _ends({key: drawn[key] for key in parts})
    return Comparison(
        float(_macro(_means(parts))[0]),
        float(low[0]),
        float(high[0]),
        float(np.median(once)),
        signed_rank(once),
        float((each < -MARGIN).mean()),
        float((each > MARGIN).mean()),
        sum(len(part.images) for part in parts.values()),
        len(each),
        len(parts),
    )


def _over_sources(parts: Mapping[Split, _Part]) -> Array:
    """Each image of each target once: its mean over the sources that are tried on it."""
    found: dict[tuple[str, str, Any], list[float]] = {}
    for (task, _, _, target), (images, figures) in parts.items():
        for image, figure in zip(images, figures[:, 0].tolist(), strict=True):
            found.setdefault((task, target, image), []).append(figure)
    means: Array = np.array([fmean(some) for some in found.values()])
    return means.round(DECIMALS)  # sources that cancel out make no difference, not a tiny one


def _over_tasks(found: list[Comparison], drawn: Mapping[Split, Array]) -> Comparison:
    """Means of those of the tasks. A test of all images together would be one of the largest."""
    if len(found) <= 1:
        return found[0] if found else Comparison()
    low, high = _ends(drawn)
    return Comparison(
        difference=fmean(one.difference for one in found),
        low=float(low[0]),
        high=float(high[0]),
        worse=fmean(one.worse for one in found),
        better=fmean(one.better for one in found),
        images=sum(one.images for one in found),
        masks=sum(one.masks for one in found),
        splits=sum(one.splits for one in found),
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
