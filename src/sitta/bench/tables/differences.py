"""Paired differences: what adaptation gains over the source network, and over its rivals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import pandas as pd

from sitta.bench.stats.bootstrap import Comparison, by_task, differences, holm
from sitta.bench.stats.scores import OVER_TASKS, best, complete, per_image, task_means
from sitta.bench.tables.captions import caption
from sitta.bench.tables.grid_data import best_fixed, follow
from sitta.bench.tables.table import SHARE, SIGNED, WHOLE, Column, Row, Table, cell, table, tabulate
from sitta.bench.tables.table_data import TableData, labels

DIFFERENCE = Column("Difference", SIGNED, ("difference", "low", "high"))
MEDIAN = Column("Median", SIGNED)
P_HOLM = Column("p (Holm)", lambda p: "<0.001" if p < 0.001 else cell("z.3f", p), ("p_holm",))
SHARES = (Column("Worse by > 1", SHARE, ("worse",)), Column("Better by > 1", SHARE, ("better",)))
COUNTS = (Column("Images", WHOLE), Column("Splits", WHOLE))


@table("paired", "Paired differences", order=6)
def paired_differences(selection: TableData) -> Iterator[Table]:
    """Every method against the source network, and InTEnt against its strongest rivals."""
    if selection.source is None:
        return
    rows = [*_against_source(selection, selection.source.label), *against_strongest(selection)]
    tasks = [*selection.tasks, *([OVER_TASKS] if len(selection.tasks) > 1 else [])]
    data = pd.DataFrame([row for task in tasks for row in rows if row["task"] == task])
    if len(data):
        data.insert(data.columns.get_loc("p") + 1, "p_holm", holm(data["p"]))
        columns = [DIFFERENCE, MEDIAN, P_HOLM, *SHARES, *COUNTS]
        yield tabulate(caption("paired"), data, ["task", "variant", "against"], columns)


def against_strongest(selection: TableData) -> Iterator[Row]:
    """InTEnt against what is best in hindsight: a fixed lambda, and a method of others."""
    if selection.intent is None:
        return
    wide, intent = selection.scores, selection.intent.label
    drawn = selection.only_drawn(selection.fixed)  # asked for beside the members
    lambdas = {v.label: f"{v.lam:g}" for v in selection.fixed if v.label not in drawn}
    common = wide[[*lambdas, intent]].dropna()
    if chosen := best_fixed(common, list(lambdas)):
        names = {task: f"best fixed lambda ({lambdas[name]})" for task, name in chosen.items()}
        for task, one in _compared(selection, common[intent], follow(common, chosen)).items():
            yield _row(task, intent, names.get(task, "best fixed lambda of each task"), one)
    if rivals := labels(selection.rivals):
        means = task_means(per_image(complete(wide[rivals])))
        for task, name in best(means).items():
            one = _compared(selection, wide[intent], wide[name]).get(task, Comparison())
            yield _row(task, intent, f"runner-up: {name}", one)


def _against_source(selection: TableData, source: str) -> Iterator[Row]:
    wide = selection.scores
    for v in selection.main:
        if not v.unadapted and v.method != "oracle":
            for task, one in _compared(selection, wide[v.label], wide[source]).items():
                yield _row(task, v.label, source, one)


def _compared(selection: TableData, one: pd.Series, other: pd.Series) -> dict[str, Comparison]:
    """Comparisons by task; over tasks only if none is missing, or it would be a mean of others."""
    compared = by_task(differences(one, other))
    if len(compared) <= len(selection.tasks):
        del compared[OVER_TASKS]
    return compared


def _row(task: str, variant: str, against: str, one: Comparison) -> Row:
    return {"task": task, "variant": variant, "against": against, **asdict(one)}
