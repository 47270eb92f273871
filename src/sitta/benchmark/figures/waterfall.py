"""What InTEnt changes, mask by mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sitta.benchmark.figures.style import BLUE, FADED, GREY, RED, of_task, panels, styled
from sitta.benchmark.paired import MARGIN, differences
from sitta.benchmark.scores import scores
from sitta.benchmark.tables.listing import Listing

MOST_STEPS = 200  # in a waterfall, and in all of a figure: more are finer than the eye
ALL_STEPS = 3000
TICKS = (-100, -10, -1, 0, 1, 10, 100)


@styled
def change(rows: pd.DataFrame, task: str) -> Figure | None:
    """Change in Dice of InTEnt against the source, mask by mask, sorted, a panel a split.

    Args:
        rows: See ``rows.COLUMNS``.
        task: Which one.
    """
    gains = changes(of_task(rows, task))
    if gains is None or gains.empty:
        return None
    groups = gains.groupby(level=["source", "target"], observed=True)
    by_split = {(str(a), str(b)): np.sort(part.to_numpy(float)) for (a, b), part in groups}
    figure, axes = panels(sorted(by_split), sharey=True)
    reach = 1.25 * max(1.5, float(gains.abs().max()))
    for split, ax in axes.items():
        _waterfall(ax, by_split[split], min(MOST_STEPS, ALL_STEPS // len(axes)))
        ax.set_ylim(-reach, reach)
    figure.supxlabel("Masks, sorted (%)", fontsize=8.5)
    figure.supylabel("Change in Dice (points)", fontsize=8.5)  # longer is cut in one row
    worse, better = shares(gains)
    figure.set_label(
        f"{len(axes)} panels, one a split: sorted changes in Dice. Of all {len(gains)}, "
        f"{percent(worse)} lose more than 1 point and {percent(better)} gain more than 1."
    )
    return figure


def changes(rows: pd.DataFrame) -> pd.Series | None:
    """Points that InTEnt gains on the source, image by image in each repeat; None without."""
    known = Listing.of(rows)
    if known.source is None or known.intent is None:
        return None
    wide = scores(rows)
    return differences(wide[known.intent.label], wide[known.source.label])


def shares(gains: Any) -> tuple[float, float]:
    """Shares of masks that lose, and that gain, more than a point."""
    figures = np.asarray(gains, dtype=float)
    return float((figures < -MARGIN).mean()), float((figures > MARGIN).mean())


def percent(share: float) -> str:
    """A share as people read it."""
    return f"{100 * share:.0f} %"


def _waterfall(ax: Axes, gains: Any, steps: int) -> None:
    """One panel: losses, little changes and gains, each of one colour, and their shares."""
    few = gains[np.linspace(0, len(gains) - 1, min(len(gains), steps)).round().astype(int)]
    edges = np.linspace(0, 100, len(few) + 1)
    ax.set_yscale("symlog", linthresh=MARGIN, linscale=0.7)
    ax.axhspan(-MARGIN, MARGIN, color="#f0f2f4", linewidth=0, zorder=0)
    kinds = ((few < -MARGIN, RED), (abs(few) <= MARGIN, GREY), (few > MARGIN, BLUE))
    for chosen, colour in kinds:
        at = np.flatnonzero(chosen)
        if len(at):
            x = edges[at[0] : at[-1] + 2]
            ax.fill_between(x, [*few[at], few[at[-1]]], step="post", color=colour, linewidth=0)
    ax.axhline(0, color=FADED, linewidth=0.6)
    ax.set_xlim(0, 100)
    ax.set_xticks([0, 50, 100], ["0", "50", "100"])
    ax.set_yticks(TICKS, [f"{t:+d}".replace("-", "\N{MINUS SIGN}") if t else "0" for t in TICKS])
    ax.minorticks_off()
    _write_shares(ax, *shares(gains))


def _write_shares(ax: Axes, worse: float, better: float) -> None:
    """Both shares in the corner that has no bars: below the gains, or above the losses."""
    low = better >= worse
    place: dict[str, Any] = {"transform": ax.transAxes, "fontsize": 7.5}
    place |= {"ha": "right", "x": 0.98} if low else {"ha": "left", "x": 0.03}
    kinds = ((better, "better", BLUE), (worse, "worse", RED))
    for line, (share, word, colour) in enumerate(kinds):
        y = 0.03 + 0.12 * (1 - line) if low else 0.97 - 0.12 * line
        text = f"{percent(share)} {word}"
        ax.text(y=y, s=text, color=colour, va="bottom" if low else "top", **place)
