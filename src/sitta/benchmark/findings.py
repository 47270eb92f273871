"""What the results come to, in sentences made from the numbers: gains and harm alike."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from sitta.benchmark.paired import Comparison, by_split, by_task, differences
from sitta.benchmark.rows import label
from sitta.benchmark.scores import OVER_TASKS, scores, shifted

INTENT = label({"method": "intent", "lam": 0, "strategy": "ent-baln", "members": 6, "settings": ""})
SOURCE = label({"method": "source", "lam": 1.0, "strategy": "", "members": 1, "settings": ""})
ORACLE = label({"method": "oracle", "lam": 0, "strategy": "", "members": 6, "settings": ""})


def findings(rows: pd.DataFrame) -> list[str]:
    """Sentences about InTEnt against the source model; none if the rows do not have both."""
    cross = shifted(rows)
    if cross.empty:
        return []
    wide = scores(cross)
    if not {INTENT, SOURCE} <= set(wide.columns):
        return []
    return list(_sentences(wide))


def _sentences(wide: pd.DataFrame) -> Iterator[str]:
    gain = differences(wide[INTENT], wide[SOURCE])
    found = by_task(gain)
    for task, one in found.items():
        if task != OVER_TASKS or len(found) > 2:
            yield f"{_place(task)}: InTEnt {_change(one)} against the source model; {_shares(one)}."
    splits = by_split(gain)
    hurt = [key for key, one in splits.items() if one.difference < 0]
    sure = [key for key in hurt if splits[key].high < 0]
    yield (
        f"It is worse than the source model on {len(hurt)} of {len(splits)} splits by its mean "
        f"over images, on {len(sure)} of them beyond the 95 % interval."
    )
    if ORACLE in wide:
        left = by_task(differences(wide[ORACLE], wide[INTENT]))[OVER_TASKS]
        yield (
            f"An oracle that knows the best lambda of each image would gain another "
            f"{left.difference:.1f} points on it."
        )


def _place(task: str) -> str:
    return task.capitalize() if task == OVER_TASKS else f"On {task}"


def _change(one: Comparison) -> str:
    return f"{one.difference:+.1f} points of Dice [{one.low:+.1f}, {one.high:+.1f}]"


def _shares(one: Comparison) -> str:
    return (
        f"{one.better:.0%} of {one.images:,} images better by more than a point, "
        f"{one.worse:.0%} worse"
    )
