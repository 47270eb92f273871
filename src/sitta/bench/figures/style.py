"""How figures look, and the registry of figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sitta.bench.tables.table_data import TableData

Split = tuple[str, str]
Draw = Callable[[TableData], Figure | None]

BLUE, RED, GREEN, PURPLE = "#0072b2", "#c44e00", "#00805d", "#a0418f"
SHEET = Path(__file__).with_name("figures.mplstyle")
STYLE: Any = rc_params_from_file(SHEET, use_default_template=False)
BLACK, FADED, GREY = STYLE["text.color"], STYLE["axes.edgecolor"], "#8a949e"
# Told apart with any colour vision, and each at 3 to 1 or more against white.
COLOURS = (BLUE, RED, GREEN, PURPLE, "#332288", "#7f7a1c", "#3f8fc4", "#7a1f4d")
POINTS = "Dice (points, higher is better)"
WIDTH = 9.0  # inches, of every figure: on a page all have one size of text


@dataclass(frozen=True)
class Kind:
    """A kind of figure."""

    title: str
    caption: str  # how to read it
    order: int  # place among the figures
    by_task: bool  # whether there is one for each task, such as ``lambda-chest``
    draw: Draw  # from cross-domain rows to a figure; None if the rows for it are missing


KINDS: dict[str, Kind] = {}


def figure(name: str, title: str, order: int, by_task: bool = False) -> Callable[[Draw], Draw]:
    """Register a function that draws a figure; its docstring is the caption."""

    def register(draw: Draw) -> Draw:
        caption = " ".join((draw.__doc__ or "").split())
        KINDS[name] = Kind(title, caption, order, by_task, draw)
        return draw

    return register


def panels(splits: list[Split], sharey: bool = False) -> tuple[Figure, dict[Split, Axes]]:
    """A panel for each split: sources side by side if they all have several targets."""
    places = _places(splits)
    lines, columns = (1 + max(at) for at in zip(*places.values(), strict=True))
    height = {1: 2.6, 2: 2.4, 3: 1.95, 4: 1.7}.get(columns, 1.36)
    figure = Figure(figsize=(WIDTH, height * lines + 0.75), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=sharey)
    for ax in axes.flat:
        ax.set_visible(False)
    for split, (line, column) in places.items():
        ax = axes[line, column]
        ax.set_visible(True)
        ax.set_title(" → ".join(split), fontsize=8.5 if columns < 5 else 7.5, pad=3)
        ax.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        ax.grid(axis="y")
        ax.set_axisbelow(True)
        ax.tick_params(labelbottom=(line + 1, column) not in places.values())  # none below
    return figure, {split: axes[place] for split, place in places.items()}


def _places(splits: list[Split]) -> dict[Split, tuple[int, int]]:
    """Line and column of each split."""
    by_source: dict[str, list[Split]] = {}
    for split in splits:
        by_source.setdefault(split[0], []).append(split)
    if 3 <= len(by_source) <= 6 and min(map(len, by_source.values())) > 1:
        columns = enumerate(by_source.values())
        return {split: (line, at) for at, column in columns for line, split in enumerate(column)}
    wide = min(4, math.ceil(len(splits) / 2)) if len(splits) > 3 else len(splits)
    return {split: divmod(i, wide) for i, split in enumerate(splits)}


def share_legend(figure: Figure, axes: Iterable[Axes]) -> None:
    """One legend above all panels."""
    handles: dict[str, Any] = {}
    for ax in axes:
        handles |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=5)
