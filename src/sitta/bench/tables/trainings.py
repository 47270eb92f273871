"""Other trainings of the same source, and the same training with other seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from sitta.bench.stats.bootstrap import differences, interval, mean
from sitta.bench.stats.rows import PLAIN, SPLIT
from sitta.bench.stats.scores import OVER_SPLITS, by, per_image
from sitta.bench.tables.captions import caption
from sitta.bench.tables.grid_data import only
from sitta.bench.tables.table import PRECISE, SIGNED, WHOLE, Column, Row, Table, table, tabulate
from sitta.bench.tables.table_data import TableData

OVER_TARGETS, ONE_SPLIT = "mean over targets", "root mean square"
TWO = ("Source", "InTEnt")


@table("robust", "Other trainings", 12, lambda rows: rows[rows["source"] != rows["target"]])
def robust(selection: TableData) -> Iterator[Table]:
    """What adaptation still gains where the training was made more robust."""
    wide = selection.source_and_intent()
    if wide is None or selection.intent is None:
        return
    plain = only(wide, training=PLAIN)
    others = [name for name in selection.rows["training"].unique() if name != PLAIN]
    data = [row for name in others for row in _beside(name, plain, only(wide, training=name))]
    columns = []
    for side in (PLAIN, "other"):
        columns += [Column(f"{side}: {n}", keys=(f"{side} {n.lower()}",)) for n in TWO]
        columns.append(Column.interval(f"{side}: gain", SIGNED, f"{side} gain"))
    columns.append(Column("Images", WHOLE))
    if data:
        text = caption("robust", intent=selection.intent.label)
        yield tabulate(text, data, ["training", "task", "source", "target"], columns)


def _beside(name: str, plain: pd.DataFrame, other: pd.DataFrame) -> Iterator[Row]:
    """A row for each target of each source, and one for their mean, on images that both have."""
    both = plain.index.droplevel("training").intersection(other.index.droplevel("training"))
    plain, other = (w[w.index.droplevel("training").isin(both)] for w in (plain, other))
    for (task, source), block in by(plain, ["task", "source"]):
        targets = {str(target): {"target": target} for target in block.index.unique("target")}
        if len(targets) > 1:
            targets[OVER_TARGETS] = {}
        for target, level in targets.items():
            row: Row = {"training": name, "task": task, "source": source, "target": target}
            here, there = (only(w, task=task, source=source, **level) for w in (plain, other))
            row |= _gain(PLAIN, here) | _gain("other", there)
            yield {**row, "images": len(per_image(here))}


def _gain(side: str, wide: pd.DataFrame) -> Row:
    values = differences(wide["intent"], wide["source"])
    low, high = interval(values)
    means = {f"{side} {name}": mean(wide[name]) for name in wide}
    gain = f"{side} gain"
    return {**means, gain: mean(values), f"{gain}, low": low, f"{gain}, high": high}


@table("seeds", "Spread over repeats", order=13)
def seeds(selection: TableData) -> Iterator[Table]:
    """How far means of source and InTEnt differ between trainings."""
    wide = selection.source_and_intent()
    if wide is None or wide.index.get_level_values("repeat").nunique() < 2:
        return
    wide["gain"] = wide["intent"] - wide["source"]
    data: list[Row] = []
    for task, block in by(by(wide, ["repeat", *SPLIT]).mean(), "task"):
        splits = by(block, ["source", "target"])
        data += [_spread(task, f"{a} -> {b}", part) for (a, b), part in splits]
        data += _over_splits(task, block)
    columns = []
    for header in (*TWO, "Gain"):
        columns += [Column(header), Column(f"{header}, sd", PRECISE)]
    yield tabulate(caption("seeds"), data, ["task", "split"], [*columns, Column("Repeats", WHOLE)])


def _spread(task: object, split: str, means: pd.DataFrame) -> Row:
    row: Row = {"task": task, "split": split, "repeats": float(len(means))}
    for name in means:
        row |= {name: float(means[name].mean()), f"{name}, sd": float(means[name].std())}
    return row


def _over_splits(task: object, means: pd.DataFrame) -> list[Row]:
    """Of the splits that have all repeats: the spread of their mean, and that of one of them."""
    repeats = means.index.get_level_values("repeat").nunique()
    whole = means[by(means, ["source", "target"])["source"].transform("size") == repeats]
    if whole.empty or repeats < 2:
        return []
    together = _spread(task, OVER_SPLITS, by(whole, "repeat").mean())
    single = by(whole, ["source", "target"]).var().mean() ** 0.5
    typical = {f"{name}, sd": float(single[name]) for name in means}
    return [together, {**together, "split": ONE_SPLIT, **dict.fromkeys(means, math.nan), **typical}]
