"""Scores of several variants on the same images, which most tables are means of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from sitta.bench.stats.scores import best, per_image, split_means, task_means
from sitta.bench.variant import Variant

BEST_FIXED = Variant("fixed")  # the best fixed lambda of each task, which only the truth can tell


@dataclass(frozen=True, eq=False)
class GridData:
    """Scores of the listed variants on the images that they have in common."""

    wide: pd.DataFrame  # a line per image and repeat, a column per label
    listed: Sequence[Variant]  # in the order of the table
    marked: Sequence[str] = ()  # labels of those run on the draw only, while others were on all

    @property
    def labels(self) -> list[str]:
        """Labels of the variants."""
        return [v.label for v in self.listed]

    @cached_property
    def values(self) -> pd.DataFrame:
        """Scores of each image: mean over its repeats."""
        return per_image(self.wide[self.labels])

    @cached_property
    def means(self) -> pd.DataFrame:
        """Mean over images, by task, source and target."""
        return split_means(self.values).droplevel("training")

    @property
    def splits(self) -> list[tuple[str, str, str]]:
        """Task, source and target of every split, in order."""
        return list(self.means.index)

    @property
    def with_truth(self) -> list[str]:
        """Labels of those that were chosen knowing the truth."""
        return [v.label for v in self.listed if v.method in ("oracle", "fixed")]

    @property
    def contest(self) -> list[int]:
        """Rows that may be best: chosen without the truth, and on the images of the others."""
        out = (*self.with_truth, *self.marked)
        return [row for row, label in enumerate(self.labels) if label not in out]


def only(wide: pd.DataFrame, **levels: str) -> pd.DataFrame:
    """The lines with these levels of the index, such as one task."""
    kept = pd.Series(True, wide.index)
    for level, name in levels.items():
        kept &= wide.index.get_level_values(level) == name
    return wide[kept]


def mean_of(means: pd.DataFrame, **levels: str) -> pd.Series:
    """Mean over the splits with these levels; NaN where a variant lacks one."""
    return only(means, **levels).mean(skipna=False)


def best_fixed(wide: pd.DataFrame, fixed: list[str]) -> dict[str, str]:
    """The fixed lambda with the highest mean of each task; none where there is no choice."""
    if len(fixed) < 2 or wide.empty:
        return {}
    return best(task_means(per_image(wide[fixed])).iloc[:-1])


def follow(wide: pd.DataFrame, chosen: dict[str, str]) -> pd.Series:
    """The scores, in each task, of the variant that was chosen for it."""
    tasks = wide.index.get_level_values("task").astype("str")
    result = pd.Series(math.nan, wide.index, dtype=float)
    for task, name in chosen.items():
        result = result.where(tasks != task, wide[name])
    return result
