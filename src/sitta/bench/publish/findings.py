"""Conclusions in sentences made from the numbers: gains and harm alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import pandas as pd

from sitta.bench.stats.bootstrap import by_split, by_task, differences
from sitta.bench.stats.scores import OVER_TASKS, shifted
from sitta.bench.tables.differences import against_strongest
from sitta.bench.tables.table import Row
from sitta.bench.tables.table_data import TableData


def findings(rows: pd.DataFrame) -> list[str]:
    """Sentences about InTEnt against the source model; none if the rows do not have both."""
    selection = TableData(shifted(rows))
    if selection.intent is None or selection.source is None:
        return []
    wide = selection.scores
    best = wide[selection.oracle[0].label] if selection.oracle else None
    sentences = _sentences(wide[selection.intent.label], wide[selection.source.label], best)
    return [*sentences, *_rivals(against_strongest(selection))]


def _sentences(intent: pd.Series, source: pd.Series, best: pd.Series | None) -> Iterator[str]:
    gain = differences(intent, source)
    tasks = by_task(gain)
    for task, one in tasks.items():
        if task != OVER_TASKS or len(tasks) > 2:
            place, masks = f"On {task}", f"{one.masks:,} masks"
            if task == OVER_TASKS:
                place, masks = task.capitalize(), "masks"
            change = _change(one.difference, one.low, one.high)
            yield (
                f"{place}: InTEnt {change} against the source model; {one.better:.0%} of {masks} "
                f"gain more than a point, {one.worse:.0%} are harmed (lose more than a point)."
            )
    splits = by_split(gain)
    worse = [one for one in splits.values() if one.difference < 0]
    yield (
        f"It is worse than the source model on {len(worse)} of {len(splits)} splits by its mean "
        f"over images, on {sum(one.high < 0 for one in worse)} of them beyond the 95 % interval."
    )
    if best is not None:
        left = by_task(differences(best, intent))[OVER_TASKS].difference
        how = "above it" if left >= 0 else "below it: a mixture may be better than any one lambda"
        yield f"An oracle that knows the best lambda of each image is {abs(left):.1f} points {how}."


def _rivals(rows: Iterable[Row]) -> Iterator[str]:
    """InTEnt against the best rivals in hindsight, over tasks."""
    for row in rows:
        if row["task"] == OVER_TASKS:
            change = _change(*(float(str(row[name])) for name in ("difference", "low", "high")))
            rival = str(row["against"]).replace(": ", ", ")
            yield f"InTEnt {change} against the {rival}, chosen in hindsight."


def _change(difference: float, low: float, high: float) -> str:
    ends = "" if math.isnan(low) else f" [{low:+.1f}, {high:+.1f}]"
    return f"{difference:+.1f} points of Dice{ends}"
