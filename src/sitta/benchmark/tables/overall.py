"""The paper's Table 1: every method at its own lambda, by task."""

from __future__ import annotations

import math

import pandas as pd

from sitta.benchmark import paper
from sitta.benchmark.paired import intervals
from sitta.benchmark.scores import (
    OVER_TASKS,
    Variant,
    extent,
    in_common,
    shifted,
    source_means,
    split_keys,
    task_means,
)
from sitta.benchmark.tables.listing import Listing, labels
from sitta.benchmark.tables.table import Column, Table, number, tabulate, text, within

OVER_SOURCES = "mean over sources"
CAPTION = (
    "Dice x100 with its 95 % interval: mean over the repeats of an image, the images of a split and"
    " the splits (source to another domain) of a task{last}. All rows are on the images that every"
    " listed method was run on ({extent}). Bold is the best but for the oracle, which needs the"
    " truth. InTEnt vote and average weigh its members alike."
)
LAST = ", then the mean over tasks, and last the mean over source domains of all tasks"
PAPER = (
    " The paper's figures are those of its Table 1, and for fixed lambdas and the average the mean"
    " over splits (or sources) of its appendix; its mean over tasks is taken here, for it prints"
    " only the one over source domains."
)
ELSEWHERE = " Its sites of {tasks} are others than these."
VIEWS = " How many views MEMO has there, the paper does not say."
# What the paper does not tell of a method, or calls its lambda: no setting makes another of it.
UNTOLD = {"memo": {"prior", "views"}}


def overall(rows: pd.DataFrame) -> list[Table]:
    """All methods by task, with intervals, and the paper's figures beside them."""
    shown = shifted(rows)
    listed = Listing.of(shown).main
    if not listed:
        return []
    values = in_common(shown, labels(listed))
    if values.empty:
        return []
    data, columns = by_task(listed, values)
    several = OVER_TASKS in data
    if several:
        data[OVER_SOURCES] = source_means(values).mean(skipna=False).to_numpy()
        columns.append(Column(OVER_SOURCES, (OVER_SOURCES,), number, strong=1))
        columns += _paper(data, OVER_SOURCES, reported(listed, values))
    caption = CAPTION.format(extent=extent(values), last=LAST if several else "")
    caption += about_paper(data, values, PAPER)
    fair = [i for i, v in enumerate(listed) if v.method != "oracle"]
    return [tabulate("overall", "All methods", caption, data, columns, contest=[fair])]


def by_task(listed: list[Variant], values: pd.DataFrame) -> tuple[pd.DataFrame, list[Column]]:
    """Means of each task and, of several, over tasks, with intervals and the paper's figures.

    Args:
        listed: The variants, one to a row.
        values: Their figures on each image.
    """
    means, ends, theirs = task_means(values), intervals(values), reported(listed, values)
    data = pd.DataFrame({"method": labels(listed)})
    columns = [Column("Method", ("method",), text)]
    for task in means.index if len(means) > 2 else means.index[:-1]:
        data[task] = means.loc[task].to_numpy()
        data[f"{task}, low"], data[f"{task}, high"] = ends[task]
        columns.append(Column(task, (task, f"{task}, low", f"{task}, high"), within, strong=1))
        columns += _paper(data, task, theirs)
    return data, columns


def about_paper(data: pd.DataFrame, values: pd.DataFrame, words: str) -> str:
    """What the paper's figures are, in these words, if there are any, and whose sites differ."""
    if not any(name.endswith(", paper") for name in data):
        return ""
    other = paper.foreign(split_keys(values))
    said = words + (VIEWS if views_untold(data) else "")
    return said + (ELSEWHERE.format(tasks=" and ".join(other)) if other else "")


def views_untold(data: pd.DataFrame) -> bool:
    """Whether there is a row of MEMO with views of our choice."""
    return bool(data["method"].str.fullmatch(r"MEMO.*views=.*").any())


def _paper(data: pd.DataFrame, name: str, theirs: pd.DataFrame) -> list[Column]:
    """The column with the paper's figures, if it has any."""
    if not theirs[name].notna().any():
        return []
    data[f"{name}, paper"] = theirs[name].to_numpy()
    return [Column(f"{name}, paper", (f"{name}, paper",), number)]


def reported(listed: list[Variant], values: pd.DataFrame) -> pd.DataFrame:
    """What the paper has for each variant and task, and over them."""
    splits = split_keys(values)
    tasks = dict.fromkeys(task for task, _, _ in splits)
    found = {task: [of_task(v, task, splits) for v in listed] for task in tasks}
    frame = pd.DataFrame(found, index=labels(listed), dtype=float)
    whole = {*tasks} == {*paper.tasks()} and all(paper.has(task, splits) for task in tasks)
    every = [over_sources(v) if whole else math.nan for v in listed]
    return frame.assign(**{OVER_TASKS: frame.mean(axis=1, skipna=False), OVER_SOURCES: every})


def of_task(variant: Variant, task: str, splits: list[tuple[str, str, str]]) -> float:
    """The paper's figure for a task: Table 1's, or the mean over these splits of its appendix."""
    if not in_paper(variant):
        return math.nan
    found = paper.printed(variant.method, variant.lam, variant.strategy, task)
    if paper.has(task, splits) and not math.isnan(found):
        return found
    return paper.task_mean(paper.alike(by_split(variant), splits), task)


def over_sources(variant: Variant) -> float:
    """The last column of Table 1, or what its appendix comes to."""
    if not in_paper(variant):
        return math.nan
    found = paper.printed(variant.method, variant.lam, variant.strategy)
    return (
        found
        if not math.isnan(found)
        else paper.mean_over_sources(by_split(variant), paper.tasks())
    )


def by_split(variant: Variant) -> pd.Series:
    """The paper's figures of a variant by split; empty if it has none."""
    series = paper.of_variant(variant.method, variant.lam, variant.strategy)
    return series if in_paper(variant) else series.iloc[:0]


def in_paper(variant: Variant) -> bool:
    """Whether the paper's figures are of the same method: other settings are another method.

    Not so what the paper leaves open, such as MEMO's views.
    """
    changed = {word.partition("=")[0] for word in variant.settings.split()}
    return changed <= UNTOLD.get(variant.method, set())
