"""Means by task: of every method (the paper's Table 1), of members, by metric, by their number."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from sitta.bench.stats.bootstrap import intervals
from sitta.bench.stats.rows import METRICS, each_class
from sitta.bench.stats.scores import (
    OVER_TASKS,
    extent,
    per_image,
    scores,
    shifted,
    source_means,
    task_means,
)
from sitta.bench.tables.captions import caption
from sitta.bench.tables.grid_data import GridData
from sitta.bench.tables.paper_columns import OVER_SOURCES, about_paper, reported
from sitta.bench.tables.table import NUMBER, Column, Table, table, tabulate
from sitta.bench.tables.table_data import TableData

LAST = "; the last column is the mean over source domains of all tasks"


@table("overall", "All methods", order=1)
def overall(selection: TableData) -> Iterator[Table]:
    """All methods by task, with the paper's scores beside them."""
    if grid := selection.common(selection.main):
        yield _by_task(grid, "the images that every listed method was run on", over_sources=True)


@table("members", "Fixed lambdas and strategies, all images", order=2)
def members(selection: TableData) -> Iterator[Table]:
    """Fixed lambdas, strategies and the oracle by task, on all images."""
    served = [*selection.fixed, *selection.of_members, *selection.oracle]
    drawn = selection.only_drawn(served)  # a fixed lambda that was asked for beside the members
    if grid := selection.common([v for v in served if v.label not in drawn]):
        yield _by_task(grid, "all images, drawn or not")


@table("classes", "By class", order=2, rows=lambda rows: each_class(shifted(rows)))
def classes(selection: TableData) -> Iterator[Table]:
    """All methods by class, of tasks with several."""
    if grid := selection.common(selection.main):
        yield _by_task(grid, "the images that every listed method was run on", over_tasks=False)


def _by_task(
    grid: GridData, images: str, over_sources: bool = False, over_tasks: bool = True
) -> Table:
    """Means of each task and, of several, over tasks, with intervals and the paper's scores."""
    means, ends, theirs = task_means(grid.values), intervals(grid.values), reported(grid)
    data, columns = pd.DataFrame({"method": grid.labels}), []

    def add(name: str, column: Column) -> None:
        columns.append(column)
        if theirs[name].notna().any():
            data[f"{name}, paper"] = theirs[name].to_numpy()
            columns.append(Column(f"{name}, paper"))

    several = over_tasks and len(means) > 2
    for task in means.index if several else means.index[:-1]:
        data[task] = means.loc[task].to_numpy()
        data[f"{task}, low"], data[f"{task}, high"] = ends[task]
        add(task, Column.interval(task, NUMBER, strong=1))
    last = ", then over tasks" if several else ""
    if several and over_sources:
        last += LAST
        data[OVER_SOURCES] = source_means(grid.means).mean(skipna=False).to_numpy()
        add(OVER_SOURCES, Column(OVER_SOURCES, strong=1))
    text = caption("overall", images=images, extent=extent(grid.wide), last=last)
    return tabulate(text + about_paper(grid, data), data, ["method"], columns, [grid.contest])


@table("quality", "Overlap, boundary and calibration", order=9)
def quality(selection: TableData) -> Iterator[Table]:
    """All metrics of the methods of the overall table."""
    grid = selection.common(selection.main)
    if grid is None:
        return
    means = {}
    for key, metric in METRICS.items():
        wide = scores(selection.rows, key, metric.scale)[grid.labels].loc[grid.wide.index]
        means[key] = task_means(per_image(wide)).drop(OVER_TASKS).T.unstack()
    data = pd.DataFrame(means).rename_axis(["task", "method"]).reset_index()
    columns = [
        Column(metric.title, NUMBER, (key,), strong=1 if metric.higher_is_better else -1)
        for key, metric in METRICS.items()
    ]
    contest = [[at + row for row in grid.contest] for at in range(0, len(data), len(grid.listed))]
    text = caption("quality", extent=extent(grid.wide))
    yield tabulate(text, data, ["task", "method"], columns, contest)


@table("sweep", "Number of members", order=11)
def sweep(selection: TableData) -> Iterator[Table]:
    """A row for each strategy of each task, a column for each number of members."""
    extents = []
    rows: dict[tuple[str, str], dict[int, float]] = {}  # means of each task and strategy
    for task, part in selection.rows.groupby("task", sort=False):
        shown = TableData(part)
        if grid := shown.common(shown.several):
            extents.append(extent(grid.wide))
            means = task_means(grid.values).iloc[-1]
            for v in grid.listed:
                rows.setdefault((str(task), v.strategy), {})[v.members] = means[v.label]
    if rows:
        numbers = sorted(set().union(*rows.values()))
        data = pd.DataFrame(rows, index=numbers).rename(index=str).T
        data = data.rename_axis(["task", "strategy"]).reset_index()
        text = caption("sweep", extent="; ".join(extents))
        yield tabulate(text, data, ["task", "strategy"], [Column(str(n)) for n in numbers])
