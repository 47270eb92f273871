"""What the members of InTEnt predict on phantoms, which may be shown: no patient's images."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sitta.bench.figures.style import WIDTH, figure
from sitta.bench.tables.table_data import TableData

if TYPE_CHECKING:
    from torch import Tensor

    from sitta.prediction.prediction import Prediction

MODEL = "phantom-alder"
SITES = ("birch", "elm", "rowan")
TRUTH, MASK = "#ffd23f", "#35c4ff"  # seen on grey, with any colour vision
GAP = 6  # pixels between pictures


@figure("members", "Predictions of the members", order=6)
def members(_: TableData) -> Figure:
    """Synthetic phantoms as seen by three scanners that the model was not trained on.

    Yellow: truth. Blue: the mask of the member at this lambda, and at the right the integrated one.
    Entropy is balanced, in bits; a lower one has a larger weight. Dice is in points.
    """
    from sitta.adaptation import InTEnt
    from sitta.data import phantom
    from sitta.models import load

    adapt = InTEnt(load(MODEL))
    drawn = Figure(figsize=(WIDTH, 1.5 * len(SITES) + 0.2), layout="constrained")
    axes = drawn.subplots(len(SITES), squeeze=False)[:, 0]
    scores = []
    for ax, site in zip(axes, SITES, strict=True):
        image, truth = phantom.draw(site, 0)
        about = f"{site}\n{fill(phantom.SITES[site].about, 18)}"
        dice = _line(ax, adapt(image), truth, about)
        scores.append(f"{site} {dice[0]:.0f} at lambda 1, {dice[-1]:.0f} integrated")
    titles = ["image", "truth", *(f"λ = {lam:g}" for lam in adapt.grid), "InTEnt"]
    for at, title in enumerate(titles):
        weight = "bold" if title == "InTEnt" else "normal"
        axes[0].text(_middle(at, image), -4, title, fontsize=8, ha="center", weight=weight)
    drawn.set_label(
        f"Outlines of the members' masks on phantoms of other scanners. Dice: {'; '.join(scores)}."
    )
    return drawn


def _line(ax: Axes, p: Prediction, truth: Tensor, about: str) -> list[float]:
    """The pictures of one site; returns the Dice of each member and of all together, in points.

    They are one picture that repeats itself, which makes a far smaller file than several.
    """
    masks = [None, None, *p.member_masks, p.mask]
    image = p.image[0].numpy()
    tile = np.pad(image, ((0, 0), (0, GAP)), constant_values=np.nan)
    ax.imshow(np.tile(tile, len(masks)), cmap="gray", vmin=0, vmax=1, interpolation="none")
    ax.axis("off")
    dice = [200 * float((m * truth).sum() / (m.sum() + truth.sum())) for m in masks[2:]]
    labels = [about, ""]
    for entropy, weight, score in zip(p.entropies, p.weights, dice, strict=False):
        labels.append(f"entropy {entropy:.3f}\nweight {weight:.2f}\nDice {score:.1f}")
    labels.append(f"Dice {dice[-1]:.1f}")
    below: dict[str, Any] = {"fontsize": 7, "ha": "center", "va": "top", "linespacing": 1.1}
    x, y = np.arange(image.shape[1]), np.arange(len(image))
    for at, (mask, label) in enumerate(zip(masks, labels, strict=True)):
        weight = "bold" if mask is p.mask else "normal"
        ax.text(_middle(at, image), len(image) + 4, label, weight=weight, **below)
        for outline, colour, width in ((truth, TRUTH, 0.8), (mask, MASK, 1.1)):
            if at > 0 and outline is not None and outline.any():
                left = at * tile.shape[1]
                ax.contour(left + x, y, outline, levels=[0.5], colors=[colour], linewidths=[width])
    return dice


def _middle(at: int, image: Any) -> float:
    """Where the middle of a picture is."""
    width = float(image.shape[-1])
    return at * (width + GAP) + width / 2
