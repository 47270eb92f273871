"""Variants by source domain or by split, with the paper's scores in brackets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pandas as pd

from sitta.bench.papers.intent2024 import paper
from sitta.bench.stats.scores import OVER_SPLITS, by, complete, extent, source_means
from sitta.bench.tables.captions import caption
from sitta.bench.tables.grid_data import BEST_FIXED, GridData, best_fixed, follow, mean_of
from sitta.bench.tables.paper_columns import OVER_SOURCES, about_views, elsewhere
from sitta.bench.tables.table import Column, Table, table, tabulate
from sitta.bench.tables.table_data import TableData, is_own, labels

DRAWN = " All rows are on the images that every listed method was run on ({extent})."
WHOLE = " All rows are on all images, drawn or not ({extent}){but}."
BUT = ", but those with * on the seeded draw only: do not compare them with the others"
BOLD = " Bold: the best of a column{among}."
THEIRS = " In brackets: the paper's, averaged from the same splits of its appendix."
ELSEWHERE = " The paper has other sites of {tasks}, and its means are over those."
ORACLE = ", without the oracle, which needs the ground truth"
HINDSIGHT = ", without the oracle and the best fixed lambda, which need the ground truth"
WIDEST = 8  # splits side by side; more are a table for each source

# A column of a grid: its header, and the mean it takes of the splits, ours or the paper's.
Group = tuple[str, Callable[[pd.DataFrame], pd.Series]]


@table("methods", "Methods at given statistics", order=3)
def methods(selection: TableData) -> Iterator[Table]:
    """The paper's table of methods at given statistics, by source domain."""
    if grid := of_methods(selection):
        yield _grid("by-source", DRAWN, grid, by_source(grid))


@table("strategies", "Fixed lambdas and strategies", order=4)
def strategies(selection: TableData) -> Iterator[Table]:
    """The paper's table of lambdas and strategies, by source domain."""
    if grid := of_strategies(selection):
        yield _grid("by-source", WHOLE, grid, by_source(grid))


@table("splits", "By split", order=5)
def splits(selection: TableData) -> Iterator[Table]:
    """The appendix: methods, and lambdas and strategies, by split of a task, or of each source."""
    for task, rows in selection.rows.groupby("task", sort=False):
        shown = TableData(rows)
        kinds = (
            ("methods", "Methods", DRAWN, of_methods(shown)),
            ("strategies", "Lambdas and strategies", WHOLE, of_strategies(shown)),
        )
        for kind, title, images, grid in kinds:
            parts = {} if grid is None else {"": grid}
            if grid and len(grid.splits) > WIDEST:
                parts = {a: replace(grid, wide=wide) for a, wide in by(grid.wide, "source")}
            for source, part in parts.items():
                name = "-".join(filter(None, ("splits", str(task), source, kind)))
                where = f"{task}, source {source}" if source else str(task)
                made = _grid("by-split", images, part, by_split(part))
                yield replace(made, name=name, title=f"{title} by split: {where}")


def of_methods(selection: TableData) -> GridData | None:
    """Methods in blocks of equal lambda, then each at its own, then InTEnt; None without rivals."""
    if not selection.rivals:
        return None
    every = [*selection.fixed, *selection.adaptive]
    blocks = [v for lam in selection.lambdas for v in every if v.lam == lam]
    others = [v for v in selection.adaptive if v not in blocks]
    own = sorted(others, key=lambda v: not is_own(v))
    return selection.common([*blocks, *own, *selection.plain, *selection.last])


def of_strategies(selection: TableData) -> GridData | None:
    """Fixed lambdas, strategies, the best fixed lambda and the oracle."""
    listed = [*selection.fixed, *selection.strategies, *selection.oracle]
    if not listed:
        return None
    marked = selection.only_drawn(listed)
    wide = selection.scores[labels(listed)]
    wide = complete(wide, [name for name in wide if name not in marked])
    if chosen := best_fixed(wide, [n for n in labels(selection.fixed) if n not in marked]):
        wide = wide.assign(**{BEST_FIXED.label: follow(wide, chosen)})
        listed = [*selection.fixed, *selection.strategies, BEST_FIXED, *selection.oracle]
    return GridData(wide, listed, marked) if len(wide) else None


def by_source(grid: GridData) -> list[Group]:
    """A column for each source domain, and their mean."""
    keys = dict.fromkeys((task, source) for task, source, _ in grid.splits)
    several = len({task for task, _ in keys}) > 1
    groups: list[Group] = [
        (f"{task} {source}" if several else source, partial(mean_of, task=task, source=source))
        for task, source in keys
    ]
    return [*groups, (OVER_SOURCES, lambda means: source_means(means).mean(skipna=False))]


def by_split(grid: GridData) -> list[Group]:
    """A column for each split of one task, and their mean."""
    groups: list[Group] = [
        (f"{source} -> {target}", partial(mean_of, source=source, target=target))
        for _, source, target in grid.splits
    ]
    sources = {source for _, source, _ in grid.splits}
    # The paper's mean over all its sites never stands beside one of ours.
    only = {"source": sources.pop()} if len(sources) == 1 else {}
    return [*groups, (OVER_SPLITS, partial(mean_of, **only))]


def _grid(kind: str, images: str, grid: GridData, groups: list[Group]) -> Table:
    theirs = paper.beside(grid.listed, grid.splits)
    data, columns = pd.DataFrame({"method": grid.labels}), []
    for header, mean in groups:
        data[header] = mean(grid.means).to_numpy()
        keys: tuple[str, ...] = (header,)
        if (scores := mean(theirs)).notna().any():
            keys = (header, f"{header}, paper")
            data[keys[1]] = scores.to_numpy()
        columns.append(Column(header, keys=keys, strong=1))
    text = caption(kind)
    text += images.format(extent=extent(grid.wide), but=BUT if grid.marked else "")
    text += BOLD.format(among=("", ORACLE, HINDSIGHT)[min(len(grid.with_truth), 2)])
    text += THEIRS if any(name.endswith(", paper") for name in data) else ""
    text += about_views(grid, data) + elsewhere(grid, ELSEWHERE)
    made = tabulate(text, data, ["method"], columns, [grid.contest])
    marks = ["*" * (name in grid.marked) for name in grid.labels]
    return replace(made, cells=made.cells.assign(Method=made.cells["Method"] + marks))
