"""The paper's figures beside ours, and what captions say of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from sitta.benchmark import paper
from sitta.benchmark.scores import OVER_TASKS, Variant, split_keys
from sitta.benchmark.tables.listing import labels

OVER_SOURCES = "mean over sources"
TABLE_1 = (
    "those of its Table 1, and where that has none the mean over splits{sources} of its appendix"
)
APPENDIX = "the mean over the same splits of its appendix"
OR_SOURCES = " (or sources)"
TAKEN = "; its mean over tasks is taken here, for it prints only the one over source domains"
ELSEWHERE = " Its sites of {tasks} are others than these."
VIEWS = (
    " MEMO has {views} views here; the paper takes the settings of the original, which has 32 or"
    " 64."
)
# Settings that make no other method of it: a prior is its lambda, and views are told by VIEWS.
ALIKE = {"memo": {"prior", "views"}}
Splits = list[tuple[str, str, str]]


def reported(listed: list[Variant], values: pd.DataFrame) -> pd.DataFrame:
    """What the paper has for each variant and task, and over them."""
    splits = split_keys(values)
    tasks = dict.fromkeys(task for task, _, _ in splits)
    found = {task: [of_task(v, task, splits) for v in listed] for task in tasks}
    frame = pd.DataFrame(found, index=labels(listed), dtype=float)
    whole = {*tasks} == {*paper.tasks()} and all(paper.has(task, splits) for task in tasks)
    every = [over_sources(v) if whole else math.nan for v in listed]
    return frame.assign(**{OVER_TASKS: frame.mean(axis=1, skipna=False), OVER_SOURCES: every})


def of_task(variant: Variant, task: str, splits: Splits) -> float:
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

    Not so those of ``ALIKE``, such as MEMO's views.
    """
    changed = {word.partition("=")[0] for word in variant.settings.split()}
    return changed <= ALIKE.get(variant.method, set())


def about_paper(listed: Sequence[Variant], values: pd.DataFrame, data: pd.DataFrame) -> str:
    """What the paper's figures are, if there are any, and whose sites differ.

    Args:
        listed: The variants, one to a row.
        values: Our figures on each image.
        data: Means by task, and those of the paper as ``<task>, paper``.
    """
    splits = split_keys(values)
    tasks = dict.fromkeys(task for task, _, _ in splits if f"{task}, paper" in data)
    if not tasks:
        return ""
    whole = [task for task in tasks if paper.has(task, splits)]
    sources = OR_SOURCES if f"{OVER_SOURCES}, paper" in data else ""
    said = _whence(whole, [task for task in tasks if task not in whole], sources)
    said += f"{TAKEN if f'{OVER_TASKS}, paper' in data else ''}.{about_views(listed, data)}"
    other = paper.foreign(splits)
    return said + (ELSEWHERE.format(tasks=" and ".join(other)) if other else "")


def _whence(whole: list[str], part: list[str], sources: str) -> str:
    """Where figures are from: tasks with all of the paper's splits, and those with some of them."""
    table = TABLE_1.format(sources=sources)
    if not whole or not part:
        return f" The paper's figures are {table if whole else APPENDIX}"
    first, second = " and ".join(whole), " and ".join(part)
    return f" The paper's figures of {first} are {table}; those of {second} are {APPENDIX}"


def about_views(listed: Sequence[Variant], data: pd.DataFrame) -> str:
    """How many views MEMO has, if that was chosen here and the paper's figures stand beside it.

    Args:
        listed: The variants, one to a row.
        data: With the paper's figures in columns that end in ``, paper``.
    """
    theirs = data[[name for name in data if name.endswith(", paper")]].notna().any(axis=1)
    settings = [v.settings for v, there in zip(listed, theirs, strict=True) if there]
    words = (word.partition("=") for text in settings for word in text.split())
    found = dict.fromkeys(value for name, _, value in words if name == "views")
    return VIEWS.format(views=" or ".join(found)) if found else ""
