"""A calibration as a picture: mean image, mean shapes, and Dice under synthetic shifts."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sitta.prediction.calibration import Calibration

MOST_CLASSES = 6  # whose mean shapes are drawn
COLUMNS = {"as trained": "member 0", "Adapt": "adapt"}  # of the table of shifts


def plot(calibration: Calibration) -> Figure:
    """Mean image and mean shapes above the Dice by kind of shift."""
    shapes = [c for c in calibration.classes if c.prior is not None][:MOST_CLASSES]
    figure = Figure(figsize=(max(6.4, 2.2 * (1 + len(shapes))), 5.6), layout="constrained")
    above, below = figure.subfigures(2, 1)  # type: ignore[misc]
    axes = np.atleast_1d(above.subplots(1, 1 + len(shapes)))
    inputs = calibration.inputs
    _map(axes[0], "mean image", None if inputs is None else inputs.image)
    for ax, shape in zip(axes[1:], shapes, strict=True):
        cells = shape.prior.mean.reshape(shape.prior.grid)  # type: ignore[union-attr]
        _map(ax, f"{shape.name}: mean shape", cells[len(cells) // 2] if cells.ndim == 3 else cells)
    _shifts(below.subplots(), calibration)
    return figure


def _map(ax: Any, title: str, values: Any) -> None:
    ax.set_axis_off()
    ax.set_title(title if values is not None else f"{title}: not kept", fontsize=9)
    if values is not None:
        ax.imshow(values, cmap="gray")


def _shifts(ax: Any, calibration: Calibration) -> None:
    """Dice as trained and adapted, by kind of shift."""
    kinds = list(calibration.members)
    for n, (title, name) in enumerate(COLUMNS.items()):
        dice = [calibration.members[kind].get(name, np.nan) for kind in kinds]
        places = np.arange(len(kinds)) + 0.4 * (n - 0.5)
        bars = ax.bar(places, dice, width=0.38, label=title, color=f"C{7 if n == 0 else 0}")
        ax.bar_label(bars, [f"{100 * d:.0f}" for d in dice], fontsize=7)
    ax.set_xticks(range(len(kinds)), kinds, fontsize=8)
    ax.set_ylabel("Dice in-domain")
    ax.set_ylim(0, 1.12)
    ax.legend(fontsize=8, ncols=2, loc="lower left")
    ax.spines[["top", "right"]].set_visible(False)
