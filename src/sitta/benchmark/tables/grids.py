"""Variants by source domain or by split, with the paper's figures in brackets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from sitta.benchmark import paper
from sitta.benchmark.scores import extent, shifted, source_means, split_keys, split_means
from sitta.benchmark.tables.listing import labels
from sitta.benchmark.tables.sheets import Sheet, of_methods, of_strategies
from sitta.benchmark.tables.table import Column, Table, beside, number, tabulate
from sitta.benchmark.tables.theirs import OVER_SOURCES, about_views, by_split

OVER_SPLITS = "mean over splits"
SOURCES = (
    "Dice x100 by source domain: mean over the repeats of an image, the images of a split and the"
    " targets of the source; the last column is the mean over source domains."
)
SPLITS = (
    "Dice x100 by split (source -> target): mean over the repeats of an image and the images of the"
    " split; the last column is the mean over splits."
)
DRAWN = " All rows are on the images that every listed method was run on ({extent})."
WHOLE = " All rows are on the images that every one was run on, drawn or not ({extent}){but}."
MARK = "*"
BUT = ", but those with * on the seeded draw only, and so not to be held against the others"
BOLD = " Bold is the best of a column{among}."
THEIRS = " In brackets the paper's, averaged from the same splits of its appendix."
ELSEWHERE = " The paper has other sites of {tasks}: none of these, and its means are over its own."
ORACLE = ", without the oracle, which is chosen knowing the truth"
HINDSIGHT = (
    ", without oracle and best fixed lambda: both are chosen knowing the truth, the first for each"
    " image, the second for each task"
)
WIDEST = 8  # splits side by side; more are a table for each source


@dataclass(frozen=True)
class Group:
    """A column of a grid: which splits it averages, here and in the paper."""

    header: str
    ours: Callable[[pd.DataFrame], pd.Series]
    theirs: Callable[[pd.Series], float]


def methods(rows: pd.DataFrame) -> list[Table]:
    """The paper's table of methods at given statistics, by source domain."""
    sheet = of_methods(shifted(rows))
    title = "Methods at given statistics"
    return [_grid("methods", title, SOURCES + DRAWN, sheet, by_source)] if sheet else []


def strategies(rows: pd.DataFrame) -> list[Table]:
    """The paper's table of lambdas and strategies, by source domain."""
    sheet = of_strategies(shifted(rows))
    title = "Fixed lambdas and strategies"
    return [_grid("strategies", title, SOURCES + WHOLE, sheet, by_source)] if sheet else []


def splits(rows: pd.DataFrame) -> list[Table]:
    """The appendix: all methods, and all lambdas and strategies, of each split of each task."""
    found = []
    for task, shown in shifted(rows).groupby("task", sort=False):
        if sheet := of_methods(shown):
            found += _by_split(str(task), "methods", "Methods", DRAWN, sheet)
        if sheet := of_strategies(shown):
            found += _by_split(str(task), "strategies", "Lambdas and strategies", WHOLE, sheet)
    return found


def _by_split(task: str, kind: str, title: str, images: str, sheet: Sheet) -> list[Table]:
    """One table of a task, or one for each source where the splits would be too many."""
    if len(split_keys(sheet.values)) <= WIDEST:
        words = f"{title} by split: {task}"
        return [_grid(f"splits-{task}-{kind}", words, SPLITS + images, sheet, by_each)]
    return [
        _grid(
            f"splits-{task}-{source}-{kind}",
            f"{title} by split: {task}, source {source}",
            SPLITS + images,
            replace(sheet, values=values, times=sheet.times.loc[values.index]),
            by_each,
        )
        for source, values in sheet.values.groupby(level="source", observed=True)
    ]


def by_source(values: pd.DataFrame) -> list[Group]:
    """A column for each source domain, and their mean."""
    keys = split_means(values).groupby(level=["task", "source"], observed=True, sort=True)
    found = [(str(task), str(source)) for task, source in keys.groups]
    tasks = list(dict.fromkeys(task for task, _ in found))
    groups = [
        Group(
            f"{task} {source}" if len(tasks) > 1 else source,
            partial(_ours, key={"task": task, "source": source}),
            partial(paper.source_mean, task=task, source=source),
        )
        for task, source in found
    ]
    theirs = partial(paper.mean_over_sources, names=tasks)
    return [*groups, Group(OVER_SOURCES, _over_sources, theirs)]


def by_each(values: pd.DataFrame) -> list[Group]:
    """A column for each split of one task, and their mean."""
    found = [tuple(map(str, key)) for key in split_means(values).index]
    groups = [
        Group(
            f"{source} -> {target}",
            partial(_ours, key={"source": source, "target": target}),
            partial(paper.split, task=task, source=source, target=target),
        )
        for task, _, source, target in found
    ]
    task, sources = found[0][0], {source for _, _, source, _ in found}
    theirs = partial(paper.task_mean, task=task)
    if len(sources) == 1:  # never that of all its sites beside one of ours
        theirs = partial(paper.source_mean, task=task, source=sources.pop())
    return [*groups, Group(OVER_SPLITS, lambda means: means.mean(skipna=False), theirs)]


def _ours(means: pd.DataFrame, key: dict[str, str]) -> pd.Series:
    return means.xs(tuple(key.values()), level=list(key)).mean(skipna=False)


def _over_sources(means: pd.DataFrame) -> pd.Series:
    return source_means(means).mean(skipna=False)


def _grid(
    name: str,
    title: str,
    caption: str,
    sheet: Sheet,
    group_by: Callable[[pd.DataFrame], list[Group]],
) -> Table:
    names = labels(sheet.listed)
    means = split_means(sheet.values)[names]
    theirs = [paper.alike(by_split(v), split_keys(means)) for v in sheet.listed]
    data = pd.DataFrame({"method": names})
    columns = [Column("Method", ("method",), lambda name: name + MARK * (name in sheet.marked))]
    for group in group_by(sheet.values):
        data[group.header] = group.ours(means).to_numpy()
        column = Column(group.header, (group.header,), number, strong=1)
        figures = [group.theirs(series) for series in theirs]
        if not all(map(math.isnan, figures)):
            key = f"{group.header}, paper"
            data[key] = figures
            column = replace(column, keys=(group.header, key), show=beside)
        columns.append(column)
    said = caption.format(extent=extent(sheet.times), but=BUT if sheet.marked else "")
    among = ("", ORACLE, HINDSIGHT)[min(len(sheet.chosen), 2)]
    said += BOLD.format(among=among) + _about_paper(data, sheet)
    return tabulate(name, title, said, data, columns, contest=[sheet.contest])


def _about_paper(data: pd.DataFrame, sheet: Sheet) -> str:
    """Whether the paper's figures are there, and of which of its tasks they cannot be."""
    other = paper.foreign(split_keys(sheet.values))
    said = THEIRS if any(name.endswith(", paper") for name in data) else ""
    said += about_views(sheet.listed, data)
    return said + (ELSEWHERE.format(tasks=" and ".join(other)) if other else "")
