"""Whether the figures of trust tell good from bad: agreement against the true Dice."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sitta.benchmark.figures.style import COLOURS, FADED, WIDTH, arrow, of_task, styled
from sitta.benchmark.scores import of_variant
from sitta.benchmark.tables.listing import Listing
from sitta.benchmark.tables.trust import CODES, FEWEST, spearman

MOST_POINTS = 2000  # more of them are a picture, not shapes: the file stays small


@styled
def trust(rows: pd.DataFrame, task: str) -> Figure | None:
    """Agreement of the members against the true Dice of InTEnt, a point an image.

    Args:
        rows: See ``rows.COLUMNS``.
        task: Which one.
    """
    shown = of_task(rows, task)
    own = Listing.of(shown).intent
    if own is None:
        return None
    found = of_variant(shown, own)
    found = found[found["agreement"].notna()]
    if found.empty:
        return None
    found = found.assign(kind=_kinds(found), flagged=flagged(found))
    figure = Figure(figsize=(WIDTH, 4.4), layout="constrained")
    ax = figure.subplots()
    kinds = sorted(found["kind"].unique())
    colours = {kind: COLOURS[i % len(COLOURS)] for i, kind in enumerate(kinds)}
    _points(ax, found, colours)
    ax.set_xlabel("Agreement of the members (1: all masks alike)")
    ax.set_ylabel("True Dice of InTEnt (points, higher is better)")
    ax.set_title(_title(found), loc="left")
    _legend(figure, colours, "Split" if " → " in kinds[0] else "Target")
    figure.set_label(
        f"Scatter of {len(found)} points, {int(found['flagged'].sum())} of them flagged. "
        f"{_title(found)}."
    )
    return figure


def flagged(rows: pd.DataFrame) -> pd.Series:
    """Whether a note asks a person to look, because of agreement or distance."""
    return rows["notes"].str.contains("|".join(CODES))


def _title(rows: pd.DataFrame) -> str:
    """The correlation over all, and the mean over splits: the first also tells splits apart."""
    every = spearman(rows["agreement"].to_numpy(float), rows["dice"].to_numpy(float))
    each = [
        spearman(some["agreement"].to_numpy(float), some["dice"].to_numpy(float))
        for _, some in rows.groupby(["source", "target"])
        if len(some[["image", "slice"]].drop_duplicates()) >= FEWEST
    ]
    known = [value for value in each if not math.isnan(value)]
    within = f", {sum(known) / len(known):.2f} within a split on average" if known else ""
    whole = "not defined" if math.isnan(every) else f"{every:.2f}"
    return f"Spearman's rank correlation {whole} over all{within}"


def _kinds(rows: pd.DataFrame) -> pd.Series:
    """What the colour says: the split, or the target if there are more splits than colours."""
    if len(rows[["source", "target"]].drop_duplicates()) > len(COLOURS):
        return rows["target"]
    return rows["source"].combine(rows["target"], lambda a, b: arrow((a, b)))


def _points(ax: Axes, rows: pd.DataFrame, colours: dict[str, str]) -> None:
    """All points in a shuffled order, so that no split lies on top."""
    shuffled = rows.sample(frac=1, random_state=0)
    area = 26 if len(rows) < 300 else 14 if len(rows) < MOST_POINTS else 8
    for flag, shape, size in ((False, "o", area), (True, "^", 2 * area)):
        some = shuffled[shuffled["flagged"] == flag]
        ax.scatter(
            some["agreement"],
            100 * some["dice"],
            s=size,
            c=[colours[kind] for kind in some["kind"]],
            marker=shape,
            alpha=0.7,
            linewidths=0.3,
            edgecolors="white",
            rasterized=len(rows) > MOST_POINTS,
        )
    ax.grid()
    ax.set_axisbelow(True)


def _legend(figure: Figure, colours: dict[str, str], what: str) -> None:
    """Beside the points: colours, then shapes."""
    none = Line2D([], [], linestyle="", label="")
    keys = [Line2D([], [], linestyle="", label=what)]
    for name, colour in colours.items():
        keys.append(Line2D([], [], linestyle="", marker="o", color=colour, label=name))
    keys += [none, Line2D([], [], linestyle="", marker="o", color=FADED, label="not flagged")]
    keys.append(Line2D([], [], linestyle="", marker="^", color=FADED, label="flagged for a look"))
    figure.legend(handles=keys, loc="outside right upper", handletextpad=0.2)
