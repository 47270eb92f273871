"""Splits and tasks where InTEnt loses to the source network, and its cost without a shift."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import pandas as pd

from sitta.bench.stats.bootstrap import by_split, by_task, differences
from sitta.bench.stats.rows import PLAIN
from sitta.bench.stats.scores import OVER_SPLITS, per_image, split_means, task_means
from sitta.bench.tables.captions import caption
from sitta.bench.tables.differences import COUNTS, DIFFERENCE, MEDIAN, SHARES
from sitta.bench.tables.table import Column, Row, Table, table, tabulate
from sitta.bench.tables.table_data import TableData

SHIFT, NO_SHIFT = "other domain", "source domain"
LEAD = ["images of", "task", "split"]


@table("hurts", "Where InTEnt harms", 8, lambda rows: rows[rows["training"] == PLAIN])
def regressions(selection: TableData) -> Iterator[Table]:
    """Splits and tasks with a loss across domains, and all splits in-domain."""
    wide = selection.source_and_intent()
    if wide is None or selection.intent is None:
        return
    source, target = (wide.index.get_level_values(n).astype("str") for n in ("source", "target"))
    kinds = ((SHIFT, wide[source != target]), (NO_SHIFT, wide[source == target]))
    data = pd.DataFrame([row for kind, part in kinds for row in _by_split(part, kind)])
    shift, of_task = data["images of"] == SHIFT, data["split"] == OVER_SPLITS
    worse = shift & (data["difference"] < 0)
    text = caption(
        "hurts",
        intent=selection.intent.label,
        hurt=sum(worse & ~of_task),
        splits=sum(shift & ~of_task),
        tasks_hurt=sum(worse & of_task),
        tasks=sum(shift & of_task),
    )
    text += "" if shift.all() else f" {caption('hurts-in-domain')}"
    columns = [Column("Source"), Column("InTEnt"), DIFFERENCE, MEDIAN, *SHARES, *COUNTS]
    yield tabulate(text, data[worse | ~shift], LEAD, columns)


def _by_split(wide: pd.DataFrame, kind: str) -> Iterator[Row]:
    """A row for each split, and after those of a task their mean."""
    values = per_image(wide)
    of_splits, of_tasks = split_means(values), task_means(values)
    gains = differences(wide["intent"], wide["source"])
    each, together = by_split(gains), by_task(gains)
    for task in of_tasks.index[:-1]:
        parts = [
            (f"{key[2]} -> {key[3]}", of_splits.loc[key], one)
            for key, one in each.items()
            if key[0] == task
        ]
        for split, means, one in [*parts, (OVER_SPLITS, of_tasks.loc[task], together[task])]:
            row = {"images of": kind, "task": task, "split": split}
            yield {**row, **means.to_dict(), **asdict(one)}
