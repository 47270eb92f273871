"""How figures look: sizes, colours that the colour-blind tell apart, and grids of panels."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sitta.benchmark.scores import shifted

P = ParamSpec("P")
R = TypeVar("R")
Split = tuple[str, str]

WIDTH = 9.0  # inches, of every figure: on a page all have one size of text
STYLE: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same layout on every machine
    "font.size": 8.5,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#5b6570",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.color": "#39424c",
    "ytick.color": "#39424c",
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.color": "#e3e7eb",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "text.color": "#17212b",
    "axes.labelcolor": "#17212b",
    "figure.facecolor": "white",
    "axes.facecolor": "none",  # a page may choose what the figure stands on
    "figure.dpi": 100,
    "svg.fonttype": "none",  # text stays text: small, sharp, and it can be searched
    "svg.hashsalt": "sitta",  # equal figures give equal bytes
    "path.simplify": True,
}

BLUE, RED, GREEN, PURPLE, BLACK, GREY = (
    "#0072b2",
    "#c44e00",
    "#00805d",
    "#a0418f",
    "#17212b",
    "#8a949e",
)
# Told apart with any colour vision, and each at 3 to 1 or more against white.
COLOURS = (BLUE, RED, GREEN, PURPLE, "#332288", "#7f7a1c", "#3f8fc4", "#7a1f4d")
FADED = "#5b6570"

POINTS = "Dice (points, higher is better)"
GAIN = "Change in Dice against source (points, higher is better)"


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """A function that draws in the style above, whatever the user's own settings are."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **settings: P.kwargs) -> R:
        with matplotlib.rc_context(STYLE):
            return draw(*args, **settings)

    return drawn


def of_task(rows: pd.DataFrame, task: str) -> pd.DataFrame:
    """Rows of the plain training on other domains than the source, with a Dice."""
    shown = shifted(rows)
    return shown[(shown["task"] == task) & shown["dice"].notna()]


def arrow(split: Split) -> str:
    """A split in words."""
    return f"{split[0]} → {split[1]}"


def panels(
    splits: list[Split], height: float = 0.0, sharey: bool = False
) -> tuple[Figure, dict[Split, Axes]]:
    """A panel for each split: sources side by side if they all have several targets.

    Args:
        splits: In order.
        height: Of a panel in inches; 0 chooses one.
        sharey: Whether all panels have one scale.
    """
    places = _places(splits)
    lines = 1 + max(line for line, _ in places.values())
    columns = 1 + max(column for _, column in places.values())
    tall = height or {1: 2.6, 2: 2.4, 3: 1.95, 4: 1.7}.get(columns, 1.36)
    figure = Figure(figsize=(WIDTH, tall * lines + 0.75), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=sharey)
    for ax in axes.flat:
        ax.set_visible(False)
    found = {split: axes[place] for split, place in places.items()}
    for split, ax in found.items():
        ax.set_visible(True)
        ax.set_title(arrow(split), fontsize=8.5 if columns < 5 else 7.5, pad=3)
        ax.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        ax.grid(axis="y")
        ax.set_axisbelow(True)
        under = (places[split][0] + 1, places[split][1])
        ax.tick_params(labelbottom=under not in places.values())  # nothing below has the labels
    return figure, found


def _places(splits: list[Split]) -> dict[Split, tuple[int, int]]:
    """Line and column of each split."""
    by_source: dict[str, list[Split]] = {}
    for split in splits:
        by_source.setdefault(split[0], []).append(split)
    if 3 <= len(by_source) <= 6 and min(map(len, by_source.values())) > 1:
        columns = enumerate(by_source.values())
        return {split: (line, at) for at, some in columns for line, split in enumerate(some)}
    wide = min(4, math.ceil(len(splits) / 2)) if len(splits) > 3 else len(splits)
    return {split: divmod(i, wide) for i, split in enumerate(splits)}
