"""Whether agreement of the members tells good masks from bad ones."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sitta.bench.figures.style import COLOURS, FADED, WIDTH, figure
from sitta.bench.stats.scores import of_variant
from sitta.bench.tables.table_data import TableData
from sitta.bench.tables.trust import CODES, FEWEST, slices, spearman

MOST_POINTS = 2000  # more of them are a picture, not shapes: the file stays small


@figure("trust", "Agreement of members against true Dice", order=4, by_task=True)
def trust(selection: TableData) -> Figure | None:
    """Agreement of the members of InTEnt, which needs no ground truth, against the true Dice.

    Each point is an image under one source model. Triangles are flagged: their members disagree or
    their statistics are far from the source's. With more splits than colours, a colour is a target.
    """
    if selection.intent is None:
        return None
    rows = of_variant(selection.rows, selection.intent)
    rows = rows[rows["agreement"].notna()]
    if rows.empty:
        return None
    by_split = len(rows[["source", "target"]].drop_duplicates()) <= len(COLOURS)
    kinds = rows["source"] + " → " + rows["target"] if by_split else rows["target"]
    flagged = rows["notes"].str.contains("|".join(CODES))
    colours = dict(zip(sorted(kinds.unique()), itertools.cycle(COLOURS), strict=False))
    drawn = Figure(figsize=(WIDTH, 4.4), layout="constrained")
    ax = drawn.subplots()
    _points(ax, rows.assign(colour=kinds.map(colours), flagged=flagged))
    ax.set_xlabel("Agreement of the members (1: all masks alike)")
    ax.set_ylabel("True Dice of InTEnt (points, higher is better)")
    title = _title(rows)
    ax.set_title(title, loc="left")
    _legend(drawn, colours, "Split" if by_split else "Target")
    drawn.set_label(f"Scatter of {len(rows)} points, {flagged.sum()} of them flagged. {title}.")
    return drawn


def _title(rows: pd.DataFrame) -> str:
    """The correlation over all, and the mean over splits: the first also tells splits apart."""

    def rho(part: pd.DataFrame) -> float:
        return spearman(part["agreement"].to_numpy(float), part["dice"].to_numpy(float))

    each = [rho(p) for _, p in rows.groupby(["source", "target"]) if slices(p) >= FEWEST]
    mean = pd.Series(each, dtype=float).mean()
    within = "" if math.isnan(mean) else f", {mean:.2f} within a split on average"
    whole = "not defined" if math.isnan(rho(rows)) else f"{rho(rows):.2f}"
    return f"Spearman's rank correlation {whole} over all{within}"


def _points(ax: Axes, rows: pd.DataFrame) -> None:
    """All points in a shuffled order, so that no split lies on top."""
    shuffled = rows.sample(frac=1, random_state=0)
    area = 26 if len(rows) < 300 else 14 if len(rows) < MOST_POINTS else 8
    look: Any = {"alpha": 0.7, "linewidths": 0.3, "edgecolors": "white"}
    look["rasterized"] = len(rows) > MOST_POINTS
    for flag, shape, size in ((False, "o", area), (True, "^", 2 * area)):
        part = shuffled[shuffled["flagged"] == flag]
        dice, colours = 100 * part["dice"], part["colour"].tolist()
        ax.scatter(part["agreement"], dice, s=size, c=colours, marker=shape, **look)
    ax.grid()
    ax.set_axisbelow(True)


def _legend(drawn: Figure, colours: dict[str, str], what: str) -> None:
    """Beside the points: colours, then shapes."""
    keys = [(what, "", FADED), *((name, "o", colour) for name, colour in colours.items())]
    keys += [("", "", FADED), ("not flagged", "o", FADED), ("flagged", "^", FADED)]
    handles = [Line2D([], [], ls="", marker=shape, color=c, label=name) for name, shape, c in keys]
    drawn.legend(handles=handles, loc="outside right upper", handletextpad=0.2)
