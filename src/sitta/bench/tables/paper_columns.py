"""The paper's scores beside ours, and what captions say of them."""

from __future__ import annotations

import math

import pandas as pd

from sitta.bench.papers.intent2024 import paper
from sitta.bench.stats.scores import OVER_TASKS, source_means
from sitta.bench.tables.captions import caption
from sitta.bench.tables.grid_data import GridData, mean_of

OVER_SOURCES = "mean over sources"
APPENDIX = "the mean over the same splits of its appendix"
TAKEN = "; its mean over tasks is computed here, as it prints only the mean over source domains"
ELSEWHERE = " Its sites of {tasks} are others than these."


def reported(grid: GridData) -> pd.DataFrame:
    """The paper's score of each variant by task, over tasks and over sources.

    They are printed in its Table 1 if our splits are all of the paper's; where that has none, they
    are the mean of the same splits of its appendix.
    """
    splits, theirs = grid.splits, paper.beside(grid.listed, grid.splits)

    def printed(whole: bool, task: str = "") -> pd.Series:
        scores = [paper.printed(v, task) if whole else math.nan for v in grid.listed]
        return pd.Series(scores, grid.labels, dtype=float)

    ours = dict.fromkeys(task for task, _, _ in splits)
    scores = pd.DataFrame(
        {t: printed(paper.has(t, splits), t).fillna(mean_of(theirs, task=t)) for t in ours}
    )
    whole = {*ours} == {*paper.tasks()} and all(paper.has(task, splits) for task in ours)
    over_sources = printed(whole)
    if whole:
        over_sources = over_sources.fillna(source_means(theirs).mean(skipna=False))
    over_tasks = scores.mean(axis=1, skipna=False)
    return scores.assign(**{OVER_TASKS: over_tasks, OVER_SOURCES: over_sources})


def about_paper(grid: GridData, data: pd.DataFrame) -> str:
    """What the paper's scores ``<task>, paper`` are, if there are any, and whose sites differ."""
    splits = grid.splits
    tasks = dict.fromkeys(task for task, _, _ in splits if f"{task}, paper" in data)
    if not tasks:
        return ""
    whole = [task for task in tasks if paper.has(task, splits)]
    part = [task for task in tasks if task not in whole]
    main = caption(
        "paper-table-1", sources=" (or sources)" if f"{OVER_SOURCES}, paper" in data else ""
    )
    said = f" are {main if whole else APPENDIX}"
    if whole and part:
        said = f" of {' and '.join(whole)} are {main}; those of {' and '.join(part)} are {APPENDIX}"
    said += TAKEN if f"{OVER_TASKS}, paper" in data else ""
    return f" The paper's scores{said}.{about_views(grid, data)}{elsewhere(grid, ELSEWHERE)}"


def about_views(grid: GridData, data: pd.DataFrame) -> str:
    """How many views MEMO has, if that was chosen here and the paper's scores stand beside it."""
    theirs = data[[name for name in data if name.endswith(", paper")]].notna().any(axis=1)
    settings = [v.settings for v, there in zip(grid.listed, theirs, strict=True) if there]
    views = dict.fromkeys(value for each in settings for name, value in each if name == "views")
    return f" {caption('paper-views', views=' or '.join(views))}" if views else ""


def elsewhere(grid: GridData, sentence: str) -> str:
    """A sentence about the tasks of which the paper has other sites, if there are any."""
    tasks = paper.foreign(grid.splits)
    return sentence.format(tasks=" and ".join(tasks)) if tasks else ""
