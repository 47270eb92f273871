"""Other trainings of the same source, and the same training with other seeds."""

from __future__ import annotations

import math

import pandas as pd

from sitta.benchmark.paired import differences, interval, mean
from sitta.benchmark.rows import PLAIN
from sitta.benchmark.scores import per_image, scores, shifted, split_means
from sitta.benchmark.tables.listing import Listing
from sitta.benchmark.tables.table import (
    Column,
    Table,
    number,
    precise,
    signed_within,
    tabulate,
    text,
    whole,
)

ALL_TARGETS = "mean over targets"
ALL_SPLITS, ONE_SPLIT = "mean over splits", "root mean square"
ROBUST = (
    "Networks trained otherwise beside the plain ones of the same source, on the same images in the"
    " same repeats: Dice x100 (mean over the repeats of an image, then over images, and in the last"
    " row of a source over its targets) without adaptation and with {intent}, and the gain in Dice"
    " points with its 95 % interval."
)
SEEDS = (
    "Spread over repeats, which differ in the training's seed: mean and standard deviation, over"
    " repeats, of the mean Dice x100 over the images of a split that both were run on. The last two"
    " rows of a task are of its splits that have all repeats: their mean, with the standard"
    " deviation of that mean, and the root mean square of their standard deviations."
)
Row = dict[str, object]


def robust(rows: pd.DataFrame) -> list[Table]:
    """What adaptation still gains where the training was made more robust, beside the plain one."""
    shown = rows[rows["source"] != rows["target"]]
    wide = _two(shown)
    if wide is None:
        return []
    plain = _of_training(wide, PLAIN)
    others = [name for name in shown["training"].unique() if name != PLAIN]
    found: list[Row] = []
    for name in others:
        other = _of_training(wide, name)
        both = plain.index.intersection(other.index)
        found += _compared(name, _restored(plain, both), _restored(other, both))
    if not found:
        return []
    columns = [Column(n.capitalize(), (n,), text) for n in ("training", "task", "source", "target")]
    for side in (PLAIN, "other"):
        columns.append(Column(f"{side}: Source", (f"{side} source",), number))
        columns.append(Column(f"{side}: InTEnt", (f"{side} intent",), number))
        keys = (f"{side} gain", f"{side} gain, low", f"{side} gain, high")
        columns.append(Column(f"{side}: gain", keys, signed_within))
    columns.append(Column("Images", ("images",), whole))
    intent = Listing.of(shown).intent
    caption = ROBUST.format(intent=intent.label if intent else "")
    title = "Other trainings"
    return [tabulate("robust", title, caption, pd.DataFrame(found), columns, lead=4)]


def _two(rows: pd.DataFrame) -> pd.DataFrame | None:
    """Scores of source and InTEnt where both are, under these two names."""
    known = Listing.of(rows)
    if known.source is None or known.intent is None:
        return None
    wide = scores(rows)[[known.source.label, known.intent.label]].dropna()
    return wide.set_axis(["source", "intent"], axis=1)


def _of_training(wide: pd.DataFrame, name: str) -> pd.DataFrame:
    kept = wide[wide.index.get_level_values("training") == name]
    return kept.droplevel("training")


def _restored(wide: pd.DataFrame, index: pd.MultiIndex) -> pd.DataFrame:
    """These rows, with a level for the training again, as all averages ask for it."""
    return pd.concat({"": wide.loc[index]}, names=["training"]).swaplevel(0, 1)


def _compared(name: str, plain: pd.DataFrame, other: pd.DataFrame) -> list[Row]:
    found: list[Row] = []
    for (task, source), block in plain.groupby(level=["task", "source"], observed=True):
        targets = block.groupby(level="target", observed=True)
        parts = {str(target): part.index for target, part in targets}
        if len(parts) > 1:
            parts[ALL_TARGETS] = block.index
        for target, index in parts.items():
            head: Row = {"training": name, "task": task, "source": source, "target": target}
            here, there = _gain(PLAIN, plain.loc[index]), _gain("other", other.loc[index])
            count = len(per_image(plain.loc[index]))
            found.append({**head, **here, **there, "images": count})
    return found


def _gain(side: str, wide: pd.DataFrame) -> Row:
    values = differences(wide["intent"], wide["source"])
    low, high = interval(values)
    means = {f"{side} {name}": mean(per_image(wide)[name]) for name in wide}
    ends = {f"{side} gain, low": low, f"{side} gain, high": high}
    return {**means, f"{side} gain": mean(values), **ends}


def seeds(rows: pd.DataFrame) -> list[Table]:
    """How far the split means of source and InTEnt differ between trainings."""
    wide = _two(shifted(rows))
    if wide is None or wide.index.get_level_values("repeat").nunique() < 2:
        return []
    wide["gain"] = wide["intent"] - wide["source"]
    groups = wide.groupby(level=["repeat"], observed=True)
    means = pd.concat({repeat: split_means(block) for repeat, block in groups}, names=["repeat"])
    found: list[Row] = []
    for task, block in means.groupby(level="task", observed=True):
        keys = block.groupby(level=["source", "target"], observed=True, sort=True)
        found += [_spread(task, f"{a} -> {b}", part) for (a, b), part in keys]
        found += _together(task, block)
    columns = [Column("Task", ("task",), text), Column("Split", ("split",), text)]
    for name, shown in (("source", "Source"), ("intent", "InTEnt"), ("gain", "Gain")):
        columns.append(Column(shown, (name,), number))
        columns.append(Column(f"{shown}, sd", (f"{name}, sd",), precise))
    columns.append(Column("Repeats", ("repeats",), whole))
    return [tabulate("seeds", "Spread over repeats", SEEDS, pd.DataFrame(found), columns, lead=2)]


def _spread(task: object, split: str, means: pd.DataFrame) -> Row:
    found: Row = {"task": task, "split": split, "repeats": float(len(means))}
    for name in means:
        spread = float(means[name].std(ddof=1)) if len(means) > 1 else math.nan
        found |= {name: float(means[name].mean()), f"{name}, sd": spread}
    return found


def _together(task: object, means: pd.DataFrame) -> list[Row]:
    """Of the splits that have all repeats: the spread of their mean, and that of one of them."""
    repeats = means.index.get_level_values("repeat").nunique()
    splits = means.groupby(level=["source", "target"], observed=True)
    whole = means[splits["source"].transform("size") == repeats]
    if whole.empty or repeats < 2:
        return []
    together = _spread(task, ALL_SPLITS, whole.groupby(level="repeat", observed=True).mean())
    single = whole.groupby(level=["source", "target"], observed=True).var(ddof=1).mean() ** 0.5
    typical = {f"{name}, sd": float(single[name]) for name in means}
    return [together, {**together, "split": ONE_SPLIT, **dict.fromkeys(means, math.nan), **typical}]
