"""What the members of InTEnt answer on phantoms, which may be shown: they are nobody's images."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray

from sitta.benchmark.figures.style import WIDTH, styled

if TYPE_CHECKING:
    from torch import Tensor

    from sitta.prediction import Prediction

MODEL = "phantom-alder"
SITES = ("birch", "elm", "rowan")
TRUTH, FOUND = "#ffd23f", "#35c4ff"  # seen on grey, with any colour vision

Array = NDArray[Any]


@styled
def members(
    rows: pd.DataFrame | None = None, sites: Sequence[str] = SITES, index: int = 0
) -> Figure:
    """A line a site: a phantom, its truth, the mask of every member, and the integrated mask.

    Args:
        rows: Not needed; real images are never shown.
        sites: Of ``sitta.data.phantom.SITES``.
        index: Number of the scene.
    """
    from sitta.adaptation import InTEnt
    from sitta.data import phantom
    from sitta.models import load

    adapt = InTEnt(load(MODEL))
    tight = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02, hspace=0.02)
    figure = Figure(figsize=(WIDTH, 1.42 * len(sites) + 0.2), layout=tight)
    axes = figure.subplots(len(sites), len(adapt.grid) + 3, squeeze=False)
    said = []
    for line, site in zip(axes, sites, strict=True):
        image, truth = phantom.draw(site, index)
        scores = _strip(line, adapt(image), truth)
        about = fill(phantom.SITES[site].about, 18)
        line[0].set_xlabel(f"{site}\n{about}", fontsize=7, labelpad=2.5)
        said.append(f"{site} {scores[0]:.0f} at lambda 1, {scores[-1]:.0f} integrated")
    titles = ["image", "truth", *(f"λ = {lam:g}" for lam in adapt.grid), "InTEnt"]
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title, fontsize=8, pad=3, weight="bold" if title == "InTEnt" else "normal")
    figure.set_label(
        f"Outlines of the members' masks on phantoms of other scanners. Dice: {'; '.join(said)}."
    )
    return figure


def _strip(line: Sequence[Axes], p: Prediction, truth: Tensor) -> list[float]:
    """One line of panels; returns the Dice of each member and of all together, in points."""
    masks = [*p.member_masks, p.mask]
    scores = [_points(mask, truth) for mask in masks]
    picture, wanted = p.image[0].numpy(), truth.numpy()
    _panel(line[0], picture)
    _panel(line[1], picture, wanted)
    for ax, mask in zip(line[2:], masks, strict=True):
        _panel(ax, picture, wanted, mask.numpy())
    for ax, entropy, weight, score in zip(line[2:], p.entropies, p.weights, scores, strict=False):
        words = f"entropy {float(entropy):.3f}\nweight {float(weight):.2f}\nDice {score:.1f}"
        ax.set_xlabel(words, fontsize=7, labelpad=2.5)
    line[-1].set_xlabel(f"Dice {scores[-1]:.1f}", fontsize=7, labelpad=2.5, weight="bold")
    return scores


def _points(mask: Tensor, truth: Tensor) -> float:
    """Dice, in points; a phantom's truth is never empty."""
    return 200 * float((mask * truth).sum()) / float(mask.sum() + truth.sum())


def _panel(ax: Axes, picture: Array, truth: Array | None = None, mask: Array | None = None) -> None:
    """The picture with the outlines of the truth and of a mask."""
    ax.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="none")
    for outline, colour, wide in ((truth, TRUTH, 0.8), (mask, FOUND, 1.1)):
        if outline is not None and np.ptp(outline) > 0:
            ax.contour(outline, levels=[0.5], colors=[colour], linewidths=[wide])
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
