"""Scores of images with the variants side by side, and their averages.

Every average is a mean of means, in this order: over the repeats of an image, over the images of a
split, over the splits of a task, over tasks. So no split counts more for having more images.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pandas as pd

from sitta.benchmark.rows import MEMBERS, PLAIN, VARIANT, label

SPLIT = ["task", "training", "source", "target"]
UNIT = [*SPLIT, "image", "slice"]  # one image of one split, whatever the repeat
OVER_TASKS = "mean over tasks"
PERCENT = 100.0


@dataclass(frozen=True)
class Variant:
    """A method with its settings, under a name that no other variant of the results has."""

    method: str
    lam: float
    strategy: str
    members: int
    settings: str
    label: str

    @property
    def unadapted(self) -> bool:
        """Whether this is the network as it was trained."""
        return self.method == "source" and self.lam == 1


def variants(rows: pd.DataFrame) -> list[Variant]:
    """The variants of the results, in order of appearance.

    Example:
        >>> row = {"method": "sar", "lam": 0.0, "strategy": "", "members": 1, "settings": ""}
        >>> [v.label for v in variants(pd.DataFrame([row, row]))]
        ['SAR, lambda 0']
    """
    unique = rows[list(VARIANT)].drop_duplicates()
    found: list[dict[str, Any]] = [dict(row._asdict()) for row in unique.itertuples(index=False)]
    seen = Counter(label(one) for one in found)
    return [Variant(**one, label=_name(one, seen[label(one)])) for one in found]


def _name(one: dict[str, Any], times: int) -> str:
    """Its label, with what else tells it from others of the same label."""
    if times == 1:
        return label(one)
    told = ", ".join(filter(None, [f"{one['members']} members", one["settings"]]))
    return f"{label(one)} [{told}]"


def usual_members(rows: pd.DataFrame) -> int:
    """How many members InTEnt has where nothing else is said: as many as the plan's own grid.

    The oracle chooses from that grid and so tells its size. A sweep has other numbers on the draw
    alone, and 6 may be among them. Without an oracle, it is the number that most rows have.

    Example:
        >>> columns = ["method", "settings", "members"]
        >>> found = [("intent", "", 6), ("intent", "", 11), ("oracle", "", 11)]
        >>> usual_members(pd.DataFrame(found, columns=columns))
        11
    """
    plain = rows[rows["settings"] == ""]
    counts = Counter(plain.loc[plain["method"] == "intent", "members"].tolist())
    told = Counter(plain.loc[plain["method"] == "oracle", "members"].tolist())
    return max(counts, key=lambda n: (told[n], counts[n], n == MEMBERS), default=MEMBERS)


def shifted(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the plain training on other domains than the source."""
    return rows[(rows["training"] == PLAIN) & (rows["source"] != rows["target"])]


def scores(rows: pd.DataFrame, value: str = "dice", scale: float = PERCENT) -> pd.DataFrame:
    """A row for each image in each repeat, a column for each variant's label.

    Tasks and domains come in order of appearance, images by their names, so that resampling draws
    the same from a folder of a run and from its published rows. Missing runs are not a number.

    Args:
        rows: As loaded.
        value: Which column.
        scale: What to multiply it by.
    """
    keys = [*UNIT, "repeat"]
    data = rows[[*keys, value]].assign(slice=rows["slice"].fillna(0))
    for key in SPLIT:
        data[key] = pd.Categorical(data[key], categories=data[key].unique())
    names_of_images = sorted(data["image"].unique(), key=_by_number)
    data["image"] = pd.Categorical(data["image"], categories=names_of_images)
    names = [v.label for v in variants(rows)]
    # Groups that are not sorted are numbered as they appear, as the variants are.
    codes = rows.groupby(list(VARIANT), sort=False, dropna=False).ngroup()
    data["variant"] = pd.Categorical.from_codes(codes, categories=names)
    means = data.groupby([*keys, "variant"], observed=True, sort=True)[value].mean()
    wide = means.unstack("variant") * scale
    wide.columns = wide.columns.astype("str")
    return wide


def _by_number(name: str) -> tuple[float, str]:
    """Numbers by their value, as published images have them, then all else by its letters."""
    return (int(name) if name.isdecimal() else math.inf), name


def complete(wide: pd.DataFrame, needed: list[str] | None = None) -> pd.DataFrame:
    """Only the images, in the repeats, that every variant of their task was run on.

    Args:
        wide: From ``scores``.
        needed: The variants that must be there; those that a task lacks altogether are not asked
            of it. If not given, all.
    """
    needed = list(wide.columns) if needed is None else needed
    kept = []
    for _, block in wide.groupby(level="task", observed=True):
        there = block[needed].notna()
        kept.append(block[there.loc[:, there.any()].all(axis=1) & there.any(axis=1)])
    return pd.concat(kept) if kept else wide


def per_image(wide: pd.DataFrame) -> pd.DataFrame:
    """Mean over the repeats of each image."""
    return wide.groupby(level=UNIT, observed=True, sort=True).mean()


def shared(rows: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Figures of the images, in each repeat, that all these variants were run on.

    Args:
        rows: As loaded, restricted to the splits that are meant.
        names: Labels of the variants, which are the columns.
    """
    return complete(scores(rows)[names])


def in_common(rows: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """As ``shared``, mean over repeats."""
    return per_image(shared(rows, names))


def repeats(wide: pd.DataFrame) -> pd.Series:
    """In how many repeats each image is there, for ``extent``.

    Args:
        wide: From ``scores``, restricted to what is averaged.
    """
    return wide.groupby(level=UNIT, observed=True, sort=True).size()


def of_variant(rows: pd.DataFrame, variant: Variant) -> pd.DataFrame:
    """The rows of one variant."""
    kept = (rows["lam"] == variant.lam) | (rows["lam"].isna() & math.isnan(variant.lam))
    for name in ("method", "strategy", "members", "settings"):
        kept &= rows[name] == getattr(variant, name)
    return rows[kept]


def split_means(values: pd.DataFrame) -> pd.DataFrame:
    """Mean over the images of each split."""
    return values.groupby(level=SPLIT, observed=True, sort=True).mean()


def split_keys(values: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Task, source and target of every split that is there."""
    levels = (
        values.index.get_level_values(name).astype("str") for name in SPLIT if name != "training"
    )
    return list(dict.fromkeys(zip(*levels, strict=True)))


def source_means(values: pd.DataFrame) -> pd.DataFrame:
    """Mean over the targets of each source; not a number where a variant lacks one of them."""
    groups = split_means(values).groupby(level=["task", "source"], observed=True, sort=True)
    return groups.mean().where(groups.count().eq(groups.size(), axis=0))


def task_means(values: pd.DataFrame) -> pd.DataFrame:
    """Mean over the splits of each task, and as the last row the mean over tasks.

    The last is not a number for a variant that some task lacks: it would be a mean of other tasks
    than the rest.

    Args:
        values: Figures of images, indexed by ``UNIT``.
    """
    means = split_means(values).groupby(level="task", observed=True, sort=True).mean()
    means.index = means.index.astype("str")
    last = means.mean(skipna=False).to_frame(OVER_TASKS).T if len(means) else means
    return pd.concat([means, last])


def extent(times: pd.Series) -> str:
    """How many images in how many splits and repeats, by task, in words.

    An image is one however many sources are tried on it; of volumes, slices are counted.

    Args:
        times: From ``repeats``.

    Example:
        >>> keys = [("spinal", "plain", a, "b", "sub-1", at) for at in (0, 1) for a in "xy"]
        >>> extent(pd.Series([2, 2, 3, 3], pd.MultiIndex.from_tuples(keys, names=UNIT)))
        'spinal 2 slices of 1 volume in 2 splits, 4 in all, 2 to 3 repeats'
    """
    parts = []
    for task, block in times.groupby(level="task", observed=True):
        names = block.index.to_frame(index=False)
        files = len(names[["target", "image"]].drop_duplicates())
        single = len(names[["target", "image", "slice"]].drop_duplicates())
        said = _count(single, "image")
        if single > files:
            said = f"{_count(single, 'slice')} of {_count(files, 'volume')}"
        said += f" in {_count(len(names[SPLIT].drop_duplicates()), 'split')}"
        said += f", {len(block):,} in all" if len(block) > single else ""
        parts.append(f"{task} {said}, {_span(int(block.min()), int(block.max()))}")
    return "; ".join(parts)


def _span(low: int, high: int) -> str:
    return (f"{low} to " if low < high else "") + _count(high, "repeat")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def best(means: pd.Series, among: list[str]) -> str | None:
    """Which of these variants has the highest mean, if any has one."""
    there = means.reindex(among).dropna()
    return str(there.idxmax()) if len(there) else None
