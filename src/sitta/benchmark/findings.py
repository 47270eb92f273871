"""What the results come to, in sentences made from the numbers: gains and harm alike."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from sitta.benchmark.paired import Comparison, by_split, by_task, differences
from sitta.benchmark.scores import OVER_TASKS, scores, shifted
from sitta.benchmark.tables.differences import Row, against_strongest
from sitta.benchmark.tables.listing import Listing


def findings(rows: pd.DataFrame) -> list[str]:
    """Sentences about InTEnt against the source model; none if the rows do not have both."""
    cross = shifted(rows)
    if cross.empty:
        return []
    known = Listing.of(cross)
    if known.intent is None or known.source is None:
        return []
    wide = scores(cross)
    best = wide[known.oracle[0].label] if known.oracle else None
    said = _sentences(wide[known.intent.label], wide[known.source.label], best)
    return [*said, *_rivals(against_strongest(cross, wide, known))]


def _sentences(intent: pd.Series, source: pd.Series, best: pd.Series | None) -> Iterator[str]:
    gain = differences(intent, source)
    found = by_task(gain)
    for task, one in found.items():
        if task != OVER_TASKS or len(found) > 2:
            said = _shares(one, of_all=task != OVER_TASKS)
            change = _change(one.difference, one.low, one.high)
            yield f"{_place(task)}: InTEnt {change} against the source model; {said}."
    splits = by_split(gain)
    hurt = [key for key, one in splits.items() if one.difference < 0]
    sure = [key for key in hurt if splits[key].high < 0]
    yield (
        f"It is worse than the source model on {len(hurt)} of {len(splits)} splits by its mean "
        f"over images, on {len(sure)} of them beyond the 95 % interval."
    )
    if best is not None:
        left = by_task(differences(best, intent))[OVER_TASKS].difference
        how = "above it" if left >= 0 else "below it: a mixture may be better than any one lambda"
        yield f"An oracle that knows the best lambda of each image is {abs(left):.1f} points {how}."


def _rivals(found: list[Row]) -> Iterator[str]:
    """How InTEnt stands against what is best in hindsight, over tasks."""
    for row in found:
        if row["task"] == OVER_TASKS:
            change = _change(*(float(str(row[name])) for name in ("difference", "low", "high")))
            rival = str(row["against"]).replace(": ", ", ")
            yield f"InTEnt {change} against the {rival}, chosen in hindsight."


def _place(task: str) -> str:
    return task.capitalize() if task == OVER_TASKS else f"On {task}"


def _change(difference: float, low: float, high: float) -> str:
    ends = "" if math.isnan(low) else f" [{low:+.1f}, {high:+.1f}]"
    return f"{difference:+.1f} points of Dice{ends}"


def _shares(one: Comparison, of_all: bool) -> str:
    masks = f"{one.masks:,} masks" if of_all else "masks"
    return f"{one.better:.0%} of {masks} better by more than a point, {one.worse:.0%} worse"
