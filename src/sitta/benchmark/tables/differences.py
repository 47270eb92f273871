"""Paired differences: what adaptation gains, against whom, and where it costs."""

from __future__ import annotations

from dataclasses import asdict

import pandas as pd

from sitta.benchmark.paired import Comparison, by_split, by_task, differences, holm
from sitta.benchmark.rows import PLAIN
from sitta.benchmark.scores import (
    OVER_TASKS,
    Variant,
    per_image,
    scores,
    shifted,
    split_means,
    task_means,
)
from sitta.benchmark.tables.hindsight import best_fixed, follow, runners_up
from sitta.benchmark.tables.listing import Listing, labels
from sitta.benchmark.tables.sheets import partly
from sitta.benchmark.tables.table import (
    Column,
    Table,
    chance,
    number,
    share,
    signed,
    signed_within,
    tabulate,
    text,
    whole,
)

OF_EACH = "best fixed lambda of each task"
PAIRED = (
    "Paired differences in Dice points, the first variant minus the second, on the images that both"
    " were run on: mean over the repeats of an image, the images of a split, the splits of a task,"
    " and tasks, with a 95 % interval from resampled images. The median, and p of Wilcoxon's"
    " signed-rank test, are over all images of a task, each taken once, by its mean over the"
    " sources that are tried on it, so that large targets count more: they may point the other way"
    " than the mean. p is corrected by Holm over all rows. Images are counted once for each source."
    " Worse and better are the shares of all masks of a task (each image under each trained"
    " network) that differ by more than one Dice point, and over tasks their mean. The best fixed"
    " lambda and the runner-up are chosen in hindsight, by the task's mean over splits, which"
    " favours them."
)
HURTS = (
    "Where {intent} is worse than the source network by its mean over images: {hurt} of {splits}"
    " splits, {tasks_hurt} of {tasks} tasks. Differences are in Dice points with a 95 % interval;"
    " splits are selected for being negative, which the intervals do not allow for. The median of a"
    " task is over its images, each by its mean over the sources tried on it. Worse is the share of"
    " masks (each image under each trained network) that lose more than one Dice point."
)
NO_SHIFT = (
    " Rows of the source domain say what adaptation costs on its held-out images, where nothing"
    " has shifted; they are all shown."
)
SHIFT, DIAGONAL = "other domain", "source domain"
ALL_SPLITS = "mean over splits"
Row = dict[str, object]

FIGURES = (
    Column("Difference", ("difference", "low", "high"), signed_within),
    Column("Median", ("median",), signed),
    Column("p (Holm)", ("p_holm",), chance),
    Column("Worse by > 1", ("worse",), share),
    Column("Better by > 1", ("better",), share),
    Column("Images", ("images",), whole),
    Column("Splits", ("splits",), whole),
)


def paired(rows: pd.DataFrame) -> list[Table]:
    """Every method against the source network, and InTEnt against its strongest rivals."""
    shown = shifted(rows)
    known = Listing.of(shown)
    if known.source is None:
        return []
    wide = scores(shown)
    found = [*_against_source(wide, known), *against_strongest(shown, wide, known)]
    tasks = [*dict.fromkeys(wide.index.get_level_values("task")), OVER_TASKS]
    tasks = tasks if len(tasks) > 2 else tasks[:-1]
    data = pd.DataFrame([row for task in tasks for row in found if row["task"] == task])
    if data.empty:
        return []
    data.insert(data.columns.get_loc("p") + 1, "p_holm", holm(data["p"]))
    lead = [Column(name.capitalize(), (name,), text) for name in ("task", "variant", "against")]
    return [tabulate("paired", "Paired differences", PAIRED, data, [*lead, *FIGURES], lead=3)]


def against_strongest(shown: pd.DataFrame, wide: pd.DataFrame, known: Listing) -> list[Row]:
    """InTEnt against what is best in hindsight: a fixed lambda, and a method of others.

    Args:
        shown: Rows of splits.
        wide: Their scores.
        known: Their variants.
    """
    if known.intent is None:
        return []
    drawn = partly(shown, known.fixed)  # asked for beside the members
    fixed = [v for v in known.fixed if v.label not in drawn]
    intent = known.intent.label
    rivals = _against_runner_up(wide, intent, labels(known.rivals))
    return [*_against_fixed(wide, intent, fixed), *rivals]


def _against_source(wide: pd.DataFrame, known: Listing) -> list[Row]:
    base = known.source.label if known.source else ""
    listed = [v for v in known.main if not v.unadapted and v.method != "oracle"]
    return [
        _row(task, v.label, base, found)
        for v in listed
        for task, found in _compared(wide, wide[v.label], wide[base]).items()
    ]


def _compared(wide: pd.DataFrame, one: pd.Series, other: pd.Series) -> dict[str, Comparison]:
    """Comparisons by task; over tasks only if none is missing, lest it be a mean of others."""
    found = by_task(differences(one, other))
    if len(found) <= wide.index.get_level_values("task").nunique():
        del found[OVER_TASKS]
    return found


def _against_fixed(wide: pd.DataFrame, intent: str, listed: list[Variant]) -> list[Row]:
    """InTEnt against, in each task, the fixed lambda that turned out best there."""
    common = wide[[*labels(listed), intent]].dropna()
    chosen = best_fixed(per_image(common), labels(listed))
    if len(listed) < 2 or not chosen:
        return []
    found = _compared(wide, common[intent], follow(common, chosen))
    lambdas = {v.label: f"{v.lam:g}" for v in listed}
    names = {task: f"best fixed lambda ({lambdas[name]})" for task, name in chosen.items()}
    return [_row(task, intent, names.get(task, OF_EACH), one) for task, one in found.items()]


def _against_runner_up(wide: pd.DataFrame, intent: str, rivals: list[str]) -> list[Row]:
    """InTEnt against the best other method of each task, and against the best over tasks."""
    found = []
    for task, name in runners_up(wide, rivals).items():
        one = _compared(wide, wide[intent], wide[name]).get(task, Comparison())
        found.append(_row(task, intent, f"runner-up: {name}", one))
    return found


def _row(task: str, variant: str, against: str, found: Comparison) -> Row:
    return {"task": task, "variant": variant, "against": against, **asdict(found)}


def hurts(rows: pd.DataFrame) -> list[Table]:
    """Splits and tasks where InTEnt loses to the source network, and its cost without a shift."""
    shown = rows[rows["training"] == PLAIN]
    known = Listing.of(shown)
    if known.source is None or known.intent is None:
        return []
    wide = scores(shown)[[known.source.label, known.intent.label]].dropna()
    if wide.empty:
        return []
    wide.columns = ["source", "intent"]
    stays = _level(wide, "source") == _level(wide, "target")
    every = _by_split(wide[~stays], SHIFT)
    kept = [row for row in every if row["difference"] < 0]  # type: ignore[operator]
    same = _by_split(wide[stays], DIAGONAL)
    data = pd.DataFrame([*kept, *same], columns=_HURTS)
    caption = HURTS.format(
        intent=known.intent.label,
        hurt=sum(row["split"] != ALL_SPLITS for row in kept),
        splits=sum(row["split"] != ALL_SPLITS for row in every),
        tasks_hurt=sum(row["split"] == ALL_SPLITS for row in kept),
        tasks=sum(row["split"] == ALL_SPLITS for row in every),
    ) + (NO_SHIFT if same else "")
    columns = [Column(name.capitalize(), (name,), text) for name in ("images of", "task", "split")]
    columns += [Column("Source", ("source",), number), Column("InTEnt", ("intent",), number)]
    columns += [c for c in FIGURES if c.keys != ("p_holm",)]
    return [tabulate("hurts", "Where InTEnt hurts", caption, data, columns, lead=3)]


_HURTS = ["images of", "task", "split", "source", "intent", *Comparison.__annotations__]


def _by_split(wide: pd.DataFrame, kind: str) -> list[Row]:
    """A row for each split, and after those of a task their mean."""
    values = per_image(wide)
    of_splits, of_tasks = split_means(values), task_means(values)
    gains = differences(wide["intent"], wide["source"])
    each, together = by_split(gains), by_task(gains)
    found: list[Row] = []
    for task in of_tasks.index[:-1]:
        mine = {key: one for key, one in each.items() if key[0] == task}
        for key, one in mine.items():
            split = f"{key[2]} -> {key[3]}"
            head: Row = {"images of": kind, "task": task, "split": split}
            found.append({**head, **of_splits.loc[key].to_dict(), **asdict(one)})
        head = {"images of": kind, "task": task, "split": ALL_SPLITS}
        found.append({**head, **of_tasks.loc[task].to_dict(), **asdict(together[task])})
    return found


def _level(wide: pd.DataFrame, name: str) -> pd.Index:
    return wide.index.get_level_values(name).astype("str")
