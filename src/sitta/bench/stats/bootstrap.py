"""Paired statistics: by how much one variant differs from another on the same images.

The unit is one image of one split: the mean over repeats of its difference in Dice points, on
repeats in which both variants were run on it. Ten trainings of a network do not make ten images of
one. Shares of worse and better are counted mask by mask, each image under each trained network:
nobody uses the mean of several networks. The median and Wilcoxon's test take an image that several
sources are tried on once, by its mean over them.

Intervals come from resampled images. An image that several sources are tried on is drawn for all of
them at once. They speak of other images for these networks, not of other trainings. Slices of a
volume count as images: where they resemble each other, intervals are too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from sitta.bench.stats.rows import SPLIT
from sitta.bench.stats.scores import OVER_TASKS, UNIT, by, per_image, split_means, task_means

DRAWS = 2000
ENDS = (0.5 - 0.95 / 2, 0.5 + 0.95 / 2)  # quantiles of the 95 % interval
MARGIN = 1.0  # Dice points that a person would call worse, or better
DECIMALS = 9  # finer differences are rounding, not better masks

Array = NDArray[np.float64]
Split = tuple[str, ...]  # task, training, source, target


@dataclass(frozen=True)
class Comparison:
    """One variant against another, in Dice points; see the module for units and tests."""

    difference: float = math.nan  # mean over images, then splits, then tasks
    low: float = math.nan  # ends of its 95 % interval
    high: float = math.nan
    median: float = math.nan  # over all images of a task, each by its mean over sources
    p: float = math.nan  # of Wilcoxon's signed-rank test on the same; not corrected
    worse: float = math.nan  # share of the masks of a task that are worse by more than a point
    better: float = math.nan
    images: int = 0  # each as often as there are sources that are tried on it
    masks: int = 0  # images with all repeats
    splits: int = 0


def differences(one: pd.Series, other: pd.Series) -> pd.Series:
    """Difference of each mask: of each image in each repeat that both columns of scores have."""
    return (one - other).dropna().round(DECIMALS).rename("difference")


def by_task(values: pd.Series) -> dict[str, Comparison]:
    """Comparisons by task, then over tasks, of what ``differences`` returns.

    Over tasks there is no median and no p: a test of all images would be one of the largest task.
    """
    ends = intervals(values.to_frame())
    tasks = _compared(values, ["task"], ends)
    if len(tasks) <= 1:
        return {**tasks, OVER_TASKS: next(iter(tasks.values()), Comparison())}
    low, high = ends[OVER_TASKS]
    each = pd.DataFrame(list(tasks.values()))
    means = each[["difference", "worse", "better"]].mean().to_dict()
    counts = each[["images", "masks", "splits"]].sum().to_dict()
    return {**tasks, OVER_TASKS: Comparison(low=low.item(), high=high.item(), **means, **counts)}


def by_split(values: pd.Series) -> dict[Split, Comparison]:
    """Comparisons by task, training, source and target."""
    drawn = _drawn(values.to_frame(), DRAWS, seed=0)
    ends = {split: np.quantile(means, ENDS, axis=0) for split, means in drawn.items()}
    return _compared(values, SPLIT, ends)


def mean(values: pd.Series) -> float:
    """Mean over tasks of the mean over splits of the mean over images."""
    return float(task_means(per_image(values.to_frame())).iloc[-1, 0])


def interval(values: pd.Series, draws: int = DRAWS, seed: int = 0) -> tuple[float, float]:
    """The 95 % bootstrap percentile interval of ``mean``.

    Images of a target are drawn with replacement, the same ones for all sources that were tried on
    the same. The same images in the same order get the same draws. NaN if a split has fewer than
    two images.
    """
    low, high = intervals(values.to_frame(), draws, seed)[OVER_TASKS]
    return low.item(), high.item()


def intervals(values: pd.DataFrame, draws: int = DRAWS, seed: int = 0) -> dict[str, Array]:
    """As ``interval``, low and high of each column, by task and over tasks, from the same draws."""
    tasks: dict[str, list[Array]] = {}
    for (task, *_), means in _drawn(values, draws, seed).items():
        tasks.setdefault(task, []).append(means)
    drawn = {task: np.mean(splits, axis=0) for task, splits in tasks.items()}
    nothing = [np.full((1, values.shape[1]), math.nan)]
    drawn[OVER_TASKS] = np.mean(list(drawn.values()) or nothing, axis=0)
    return {task: np.quantile(means, ENDS, axis=0) for task, means in drawn.items()}


def _drawn(values: pd.DataFrame, draws: int, seed: int) -> dict[Split, Array]:
    """Means of resampled images ``(draws, columns)`` of each split; one draw for one target."""
    values = per_image(values)
    every, images = values.to_numpy(float), values.index.droplevel(SPLIT).to_numpy()
    generator, times, drawn = np.random.default_rng(seed), {}, {}
    for split, rows in by(values, SPLIT).indices.items():
        count, target = len(rows), (split[0], split[3], *images[rows])
        if count < 2:
            drawn[split] = np.full((draws, every.shape[1]), math.nan)
            continue
        if target not in times:  # how often each image is drawn, (draws, images)
            picks = generator.integers(count, size=(draws, count))
            picks += count * np.arange(draws)[:, None]  # each draw counts in a row of its own
            counts = np.bincount(picks.ravel(), minlength=draws * count)
            times[target] = counts.reshape(draws, count).astype(float)
        drawn[split] = times[target] @ every[rows] / count
    return drawn


def _compared(
    values: pd.Series, levels: list[str], ends: Mapping[Any, Array]
) -> dict[Any, Comparison]:
    """Comparisons of tasks or of splits, by their levels of the index."""
    images = per_image(values.to_frame("difference"))
    splits = split_means(images)["difference"]
    # Each image of each target once. Sources that cancel out make no difference, not a tiny one.
    target = ["task", "target", *UNIT[len(SPLIT) :]]
    once = by(images["difference"], list(dict.fromkeys([*levels, *target]))).mean().round(DECIMALS)
    summaries = pd.DataFrame(
        {
            "difference": by(splits, levels).mean(),
            "median": by(once, levels).median(),
            "p": by(once, levels).agg(signed_rank),
            "worse": by(values < -MARGIN, levels).mean(),
            "better": by(values > MARGIN, levels).mean(),
            "images": by(images, levels).size(),
            "masks": by(values, levels).size(),
            "splits": by(splits, levels).size(),
        }
    )
    summaries[["low", "high"]] = np.reshape([ends[key] for key in summaries.index], (-1, 2))
    return {key: Comparison(**row) for key, row in summaries.to_dict("index").items()}


def signed_rank(values: Array) -> float:
    """Two-sided p of Wilcoxon's signed-rank test against no difference.

    Images without a difference say nothing about its sign and are left out; if there is no other,
    p is 1. NaN for fewer than two images.
    """
    there = values[~np.isnan(values)]
    if len(there) < 2:
        return math.nan
    moved = there[there != 0]
    return float(stats.wilcoxon(moved).pvalue) if len(moved) else 1.0


def holm(values: Any) -> Array:
    """Holm's correction of the p values of a family; those that are NaN do not count."""
    p = np.asarray(values, dtype=float)
    corrected = np.full(p.shape, math.nan)
    order = np.argsort(p, kind="stable")[: np.count_nonzero(~np.isnan(p))]  # NaN sorts last
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.maximum.accumulate(steps).clip(max=1.0)
    return corrected
