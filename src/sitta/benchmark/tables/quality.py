"""More than Dice, and more or fewer members."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd

from sitta.benchmark.rows import HIGHER_IS_BETTER, QUALITY
from sitta.benchmark.scores import (
    OVER_TASKS,
    Variant,
    extent,
    per_image,
    repeats,
    scores,
    shared,
    shifted,
    task_means,
    variants,
)
from sitta.benchmark.tables.listing import Listing, labels
from sitta.benchmark.tables.table import Column, Table, number, tabulate, text

HEADERS = {
    "dice": "Dice",
    "iou": "IoU",
    "hd95": "HD95",
    "surface_dice": "Surface Dice",
    "ece": "ECE",
}
PIXELS = ("hd95",)  # not a share, so not times 100
QUALITY_CAPTION = (
    "Mean over the repeats of an image, the images of a split and the splits (source to another"
    " domain) of a task, on the images that every listed method was run on ({extent}). HD95, the"
    " 95th percentile of the distance between boundaries, is in pixels of the network's input, and"
    " the image's diagonal where a mask is empty that should not be, which may be most of its mean;"
    " all others are x100. HD95 and the calibration error ECE are better when lower."
    " Bold is the best of a task but for the oracle."
)
SWEEP_CAPTION = (
    "Dice x100 of InTEnt by its number of members (columns): mean over the repeats of an image, the"
    " images of a split and the splits of a task, on the images that every number and strategy of"
    " the task was run on ({extent})."
)


def quality(rows: pd.DataFrame) -> list[Table]:
    """Overlap, boundary and calibration of the methods of the overall table."""
    shown = shifted(rows)
    listed = Listing.of(shown).main
    if not listed:
        return []
    names = labels(listed)
    common = shared(shown, names)
    if common.empty:
        return []
    figures, data = {}, []
    for value in QUALITY:
        scale = 1.0 if value in PIXELS else 100.0
        figures[value] = per_image(scores(shown, value, scale)[names].loc[common.index])
    means = {value: task_means(figures[value]).drop(OVER_TASKS) for value in QUALITY}
    for task in means["dice"].index:
        of_task = {value: means[value].loc[task].to_numpy() for value in QUALITY}
        data.append(pd.DataFrame({"task": task, "method": names, **of_task}))
    columns = [Column("Task", ("task",), text), Column("Method", ("method",), text)]
    columns += [
        Column(HEADERS[value], (value,), number, strong=1 if HIGHER_IS_BETTER[value] else -1)
        for value in QUALITY
    ]
    fair = [i for i, v in enumerate(listed) if v.method != "oracle"]
    contest = [[len(listed) * at + i for i in fair] for at in range(len(data))]
    caption = QUALITY_CAPTION.format(extent=extent(repeats(common)))
    title = "Overlap, boundary and calibration"
    return [tabulate("quality", title, caption, pd.concat(data), columns, 2, contest)]


def sweep(rows: pd.DataFrame) -> list[Table]:
    """Dice by the number of members, of the strategies that were run with several."""
    found: list[dict[Any, object]] = []
    parts = []
    for _, shown in shifted(rows).groupby("task", sort=False):
        several = _several(shown)
        if several:
            wide = shared(shown, labels(several))
            if wide.empty:
                continue
            parts.append(extent(repeats(wide)))
            means = task_means(per_image(wide)).iloc[-1]
            found += _by_strategy(shown["task"].iloc[0], several, means)
    if not found:
        return []
    order = sorted({key for row in found for key in row if isinstance(key, int)})
    data = pd.DataFrame(found, columns=["task", "strategy", *order])
    data.columns = data.columns.astype("str")
    columns = [Column("Task", ("task",), text), Column("Strategy", ("strategy",), text)]
    columns += [Column(str(count), (str(count),), number) for count in order]
    caption = SWEEP_CAPTION.format(extent="; ".join(parts))
    return [tabulate("sweep", "Number of members", caption, data, columns, lead=2)]


def _several(rows: pd.DataFrame) -> list[Variant]:
    """InTEnt under the strategies that were run with more than one number of members."""
    asked = [v for v in variants(rows) if v.method == "intent" and not v.settings]
    times = Counter(v.strategy for v in asked)
    return [v for v in asked if times[v.strategy] > 1]


def _by_strategy(task: str, listed: list[Variant], means: pd.Series) -> list[dict[Any, object]]:
    """A row for each strategy, with the mean of each number of members under that number."""
    rows: dict[str, dict[Any, object]] = {}
    for v in listed:
        row = rows.setdefault(v.strategy, {"task": task, "strategy": v.strategy})
        row[v.members] = means[v.label]
    return list(rows.values())
