"""What InTEnt changes, mask by mask."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sitta.bench.figures.style import BLUE, FADED, GREY, RED, figure, panels
from sitta.bench.stats.bootstrap import MARGIN, differences
from sitta.bench.tables.table_data import TableData

MOST_STEPS = 200  # in a waterfall, and in all of a figure: more are finer than the eye
ALL_STEPS = 2400
TICKS = (-100, -10, -1, 0, 1, 10, 100)


@figure("change", "Change in Dice, image by image", order=3, by_task=True)
def change(selection: TableData) -> Figure | None:
    """Change in Dice of InTEnt against the source, one panel per split.

    One bar for each image under each trained network, sorted. Better and worse: by more than 1
    point. The scale is linear up to 1 point (the grey band) and logarithmic beyond.
    """
    wide = selection.source_and_intent()
    if wide is None:
        return None
    gains = differences(wide["intent"], wide["source"])
    groups = gains.groupby(level=["source", "target"], observed=True)
    by_split = {(str(a), str(b)): np.sort(part.to_numpy(float)) for (a, b), part in groups}
    drawn, axes = panels(sorted(by_split), sharey=True)
    reach = 1.25 * max(1.5, float(gains.abs().max()))
    for split, ax in axes.items():
        _waterfall(ax, by_split[split], min(MOST_STEPS, ALL_STEPS // len(axes)))
        ax.set_ylim(-reach, reach)
    drawn.supxlabel("Masks, sorted (%)")
    drawn.supylabel("Change in Dice (points)")  # longer is cut in one row
    worse, better = _shares(gains)
    drawn.set_label(
        f"{len(axes)} panels, one per split: sorted changes in Dice. Of all {len(gains)}, "
        f"{100 * worse:.0f} % lose more than 1 point and {100 * better:.0f} % gain more than 1."
    )
    return drawn


def _shares(gains: Any) -> tuple[float, float]:
    """Shares of masks that lose, and that gain, more than a point."""
    return float((gains < -MARGIN).mean()), float((gains > MARGIN).mean())


def _waterfall(ax: Axes, gains: Any, steps: int) -> None:
    """One panel: losses, little changes and gains, each of one colour, and their shares."""
    few = gains[np.linspace(0, len(gains) - 1, min(len(gains), steps)).round().astype(int)]
    edges = np.linspace(0, 100, len(few) + 1)
    ax.set_yscale("symlog", linthresh=MARGIN, linscale=0.7)
    ax.axhspan(-MARGIN, MARGIN, color="#f0f2f4", linewidth=0, zorder=0)
    for chosen, colour in ((few < -MARGIN, RED), (abs(few) <= MARGIN, GREY), (few > MARGIN, BLUE)):
        at = np.flatnonzero(chosen)
        if len(at):
            span = edges[at[0] : at[-1] + 2]
            ax.fill_between(span, [*few[at], few[at[-1]]], step="post", color=colour, linewidth=0)
    ax.axhline(0, color=FADED, linewidth=0.6)
    ax.set_xlim(0, 100)
    ax.set_xticks([0, 50, 100], ["0", "50", "100"])
    ax.set_yticks(TICKS, [f"{t:+d}".replace("-", "\N{MINUS SIGN}") if t else "0" for t in TICKS])
    ax.minorticks_off()
    worse, better = _shares(gains)
    below = better >= worse  # the corner without bars: below the gains, or above the losses
    x, y = (0.98, 0.15) if below else (0.03, 0.97)
    place: Any = {"ha": "right", "va": "bottom"} if below else {"ha": "left", "va": "top"}
    place |= {"transform": ax.transAxes, "fontsize": 7.5}
    ax.text(x, y, f"{100 * better:.0f} % better", color=BLUE, **place)
    ax.text(x, y - 0.12, f"{100 * worse:.0f} % worse", color=RED, **place)
