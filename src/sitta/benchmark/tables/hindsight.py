"""Choices that only the truth allows: the best fixed lambda, and the best rival of InTEnt."""

from __future__ import annotations

import math

import pandas as pd

from sitta.benchmark.scores import Variant, best, complete, per_image, task_means

BEST_FIXED = Variant("fixed", math.nan, "", 1, "", "Best fixed lambda (hindsight)")


def with_best_fixed(values: pd.DataFrame, fixed: list[str]) -> pd.DataFrame:
    """The same figures with a column for the fixed lambda that is best in each task.

    Args:
        values: Figures of images.
        fixed: Columns of fixed lambdas; with fewer than two there is no choice, and no column.
    """
    chosen = best_fixed(values, fixed)
    if len(fixed) < 2 or not chosen:
        return values
    return values.assign(**{BEST_FIXED.label: follow(values, chosen)})


def best_fixed(values: pd.DataFrame, fixed: list[str]) -> dict[str, str]:
    """Which fixed lambda has the highest mean over the splits of each task."""
    if not fixed or values.empty:
        return {}
    means = task_means(values[fixed]).iloc[:-1]
    found = {str(task): best(means.loc[task], fixed) for task in means.index}
    return {task: name for task, name in found.items() if name}


def follow(wide: pd.DataFrame, chosen: dict[str, str]) -> pd.Series:
    """The figures, in each task, of the variant that was chosen for it."""
    tasks = wide.index.get_level_values("task").astype("str")
    result = pd.Series(math.nan, wide.index, dtype=float)
    for task, name in chosen.items():
        result = result.where(tasks != task, wide[name])
    return result


def runners_up(wide: pd.DataFrame, rivals: list[str]) -> dict[str, str]:
    """The best of the rivals in each task, and over tasks, on the images that all were run on.

    Args:
        wide: From ``sitta.benchmark.scores.scores``.
        rivals: Labels to choose from.
    """
    if not rivals:
        return {}
    means = task_means(per_image(complete(wide[rivals])))
    found = {str(task): best(means.loc[task], rivals) for task in means.index}
    return {task: name for task, name in found.items() if name}
