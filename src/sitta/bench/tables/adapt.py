"""Adapt against the unadapted network, InTEnt, and the best that hindsight can choose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import pandas as pd

from sitta.bench.stats.bootstrap import by_task, differences
from sitta.bench.stats.rows import PLAIN
from sitta.bench.stats.scores import OVER_TASKS, of_variant, per_image, task_means
from sitta.bench.tables.captions import caption
from sitta.bench.tables.differences import COUNTS, DIFFERENCE, SHARES
from sitta.bench.tables.grid_data import best_fixed, follow
from sitta.bench.tables.table import PRECISE, Column, Row, Table, table, tabulate
from sitta.bench.tables.table_data import TableData
from sitta.bench.variant import IN_LAYER, Variant

TWO, ALL = 2, 7  # members of Adapt that run where two are enough, and elsewhere
SHORT = "two-members-agree"
NAMES = ["adapt", "other"]
HOME, ABROAD = "in-domain", "cross-domain"


@table("adapt", "Adapt", 3, lambda rows: rows[rows["training"] == PLAIN])
def adapt(selection: TableData) -> Iterator[Table]:
    """Adapt by task, across domains and in-domain, with its cost in forward passes."""
    method = next((v for v in selection.every if v.method == "adapt" and not v.settings), None)
    if method is None or selection.source is None:
        return
    rows = [row for kind in (ABROAD, HOME) for row in _compared(selection, method, kind)]
    if rows:
        columns = [Column("Adapt"), Column("Other"), DIFFERENCE, *SHARES]
        columns += [Column("Passes", PRECISE), *COUNTS]
        yield tabulate(caption("adapt"), rows, ["domain", "task", "against"], columns)


def _compared(selection: TableData, method: Variant, kind: str) -> Iterator[Row]:
    every = selection.rows
    kept = every[(every["source"] == every["target"]) == (kind == HOME)]
    if kept.empty:
        return
    part = TableData(kept)
    passes = _passes(of_variant(kept, method))
    wide = part.scores
    if method.label not in wide:
        return
    for name, other in _others(part, wide, method.label):
        both = pd.concat([wide[method.label], other], axis=1).dropna().set_axis(NAMES, axis=1)
        means = task_means(per_image(both))
        for task, one in by_task(differences(both["adapt"], both["other"])).items():
            if task in means.index and (task != OVER_TASKS or len(part.tasks) > 1):
                cost = passes.get(task, passes.mean())
                lead = {"domain": kind, "task": task, "against": name, "passes": cost}
                yield {**lead, **asdict(one), **means.loc[task].to_dict()}


def _others(part: TableData, wide: pd.DataFrame, own: str) -> Iterator[tuple[str, pd.Series]]:
    """The rivals of Adapt by name, each with its scores."""
    named = {"unadapted": part.source, "InTEnt": part.intent}
    for name, variant in named.items():
        if variant is not None:
            yield name, wide[variant.label]
    layered = [v for v in part.every if v.method == "source" and v.settings == IN_LAYER]
    kinds = {"": part.fixed, ", in-layer": [*part.fixed[:1], *layered] if layered else []}
    for name, listed in kinds.items():
        drawn = part.only_drawn(listed) if listed else []
        lambdas = [v.label for v in listed if v.label not in drawn]
        common = wide[[*lambdas, own]].dropna()
        if len(lambdas) > 1 and (chosen := best_fixed(common, lambdas)):
            yield f"best fixed lambda{name} (hindsight)", follow(common, chosen)
    for variant in part.oracle:
        yield "oracle lambda (ground truth)", wide[variant.label]


def _passes(rows: pd.DataFrame) -> pd.Series:
    """Mean forward passes per image, by task."""
    short = rows["notes"].fillna("").str.contains(SHORT, regex=False)
    counts = pd.Series(ALL, rows.index).where(~short, TWO).astype(float)
    return counts.groupby(rows["task"], sort=False).mean()
