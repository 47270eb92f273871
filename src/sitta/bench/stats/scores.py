"""Scores of images with the variants side by side, and their averages.

Every average is a mean of means, in this order: over the repeats of an image, over the images of a
split, over the splits of a task, over tasks. So no split counts more for having more images.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pandas as pd

from sitta.bench.stats.rows import PLAIN, SPLIT, VARIANT
from sitta.bench.variant import MEMBERS, Variant

UNIT = [*SPLIT, "image", "slice"]  # one image of one split, whatever the repeat
OVER_SPLITS, OVER_TASKS = "mean over splits", "mean over tasks"


def variants(rows: pd.DataFrame) -> list[Variant]:
    """The variants of the results, in order of appearance, each with a label of its own."""
    unique = rows[list(VARIANT)].drop_duplicates().to_dict("records")
    listed = [Variant.of_row(row) for row in unique]
    times = Counter(v.label for v in listed)
    return [replace(v, spelled_out=True) if times[v.label] > 1 else v for v in listed]


def usual_members(rows: pd.DataFrame) -> int:
    """The number of members of InTEnt in the plan's own grid.

    The oracle chooses from that grid, so its rows say the size. A sweep has other numbers on the
    draw alone, and 6 may be among them. Without an oracle, it is the number that most rows have.
    """
    plain = rows[rows["settings"] == ""]
    counts = Counter(plain.loc[plain["method"] == "intent", "members"].tolist())
    told = Counter(plain.loc[plain["method"] == "oracle", "members"].tolist())
    return max(counts, key=lambda n: (told[n], counts[n], n == MEMBERS), default=MEMBERS)


def shifted(rows: pd.DataFrame) -> pd.DataFrame:
    """Cross-domain rows of the plain training."""
    return rows[(rows["training"] == PLAIN) & (rows["source"] != rows["target"])]


def scores(rows: pd.DataFrame, value: str = "dice", scale: float = 100.0) -> pd.DataFrame:
    """One column of the rows, times a scale: a line per image and repeat, a column per label.

    Tasks and domains come in order of appearance, images by their names, so that resampling draws
    the same from a folder of a run and from its published rows. Missing runs are NaN.
    """
    keys = [*UNIT, "repeat"]
    data = rows[[*keys, value]].assign(slice=rows["slice"].fillna(0))
    for key in SPLIT:
        data[key] = pd.Categorical(data[key], categories=data[key].unique())
    # Numbers by their value, as published images have them, then all else by its letters.
    numbered = [(float(n) if n.isdecimal() else math.inf, n) for n in data["image"].unique()]
    names_of_images = [name for _, name in sorted(numbered)]
    data["image"] = pd.Categorical(data["image"], categories=names_of_images)
    names = [v.label for v in variants(rows)]
    # Groups that are not sorted are numbered as they appear, as the variants are.
    codes = rows.groupby(list(VARIANT), sort=False, dropna=False).ngroup()
    data["variant"] = pd.Categorical.from_codes(codes, categories=names)
    means = data.groupby([*keys, "variant"], observed=True, sort=True)[value].mean()
    wide = means.unstack("variant") * scale
    return wide.set_axis(wide.columns.astype("str"), axis=1)


def complete(wide: pd.DataFrame, needed: list[str] | None = None) -> pd.DataFrame:
    """The images, in the repeats, that every one of the needed variants of their task was run on.

    A variant that a task lacks altogether is not needed there. By default all columns are needed.
    """
    there = wide[list(wide.columns) if needed is None else needed].notna()
    lacking = ~by(there, "task").transform("any")
    return wide[(there | lacking).all(axis=1) & there.any(axis=1)]


def by(values: pd.DataFrame | pd.Series, levels: str | list[str]) -> Any:
    """Groups by levels of the index, in its order, those that have lines."""
    return values.groupby(level=levels, observed=True)


def per_image(wide: pd.DataFrame) -> pd.DataFrame:
    """Mean over the repeats of each image."""
    return by(wide, UNIT).mean()


def of_variant(rows: pd.DataFrame, variant: Variant) -> pd.DataFrame:
    """The rows of one variant."""
    kept = pd.Series(True, rows.index)
    for name, value in variant.columns.items():
        kept &= rows[name].isna() if value != value else rows[name] == value  # NaN
    return rows[kept]


def split_means(values: pd.DataFrame) -> pd.DataFrame:
    """Mean over the images of each split."""
    return by(values, SPLIT).mean()


def source_means(splits: pd.DataFrame) -> pd.DataFrame:
    """Mean over the targets of each source; NaN where a variant lacks one of them."""
    groups = by(splits, ["task", "source"])
    return groups.mean().where(groups.count().eq(groups.size(), axis=0))


def task_means(values: pd.DataFrame) -> pd.DataFrame:
    """Mean over the splits of each task, and as the last row the mean over tasks.

    The last is NaN for a variant that some task lacks: it would be a mean of other tasks.
    """
    means = by(split_means(values), "task").mean()
    means.index = means.index.astype("str")
    return pd.concat([means, means.mean(skipna=False).to_frame(OVER_TASKS).T])


def extent(wide: pd.DataFrame) -> str:
    """The number of images, splits and repeats of each task, in words.

    An image counts once however many sources are tried on it; of volumes, slices are counted.
    """
    parts = []
    for task, block in by(by(wide, UNIT).size(), "task"):
        names = block.index.to_frame(index=False)
        files = len(names[["target", "image"]].drop_duplicates())
        single = len(names[["target", "image", "slice"]].drop_duplicates())
        text = _count(single, "image")
        if single > files:
            text = f"{_count(single, 'slice')} of {_count(files, 'volume')}"
        text += f" in {_count(len(names[SPLIT].drop_duplicates()), 'split')}"
        text += f", {len(block):,} in all" if len(block) > single else ""
        low, high = int(block.min()), int(block.max())
        repeats = (f"{low} to " if low < high else "") + _count(high, "repeat")
        parts.append(f"{task} {text}, {repeats}")
    return "; ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def best(means: pd.DataFrame) -> dict[str, str]:
    """The variant with the highest mean in each row, of those rows that have any."""
    return dict(means.dropna(how="all").idxmax(axis=1))
