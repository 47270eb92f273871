"""Draw the picture of the README: masks before and after Sitta, and the expected Dice.

    python scripts/hero.py

Scenes are phantoms: the first of a seed that nothing else draws, seen by the sites of
``sitta demo``. Nothing is picked by eye.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor

import sitta
from sitta.data import phantom
from sitta.inference.demo import MODEL, SITES, dice
from sitta.prediction.prediction import Prediction

SEED = 6  # of the scenes
SCANNERS = {"cedar": "bright, washed out", "fir": "uneven brightness", "rowan": "old, dark, noisy"}
OUT = Path(__file__).parents[1] / "docs" / "images" / "hero.png"
TRUTH, BEFORE, AFTER = "#ffffff", "#ff7b4a", "#35d0ff"  # apart for colour-blind readers too
SIDE, GAP = 2.6, 0.2  # inches: of an image, and between two
STYLE = {"font.family": "DejaVu Sans", "font.size": 11, "svg.hashsalt": "sitta"}


def scenes() -> list[tuple[str, Tensor, Prediction]]:
    """Each site with the truth and the prediction of a scene of its own."""
    adapt = sitta.Adapt(sitta.load(MODEL))
    drawn = [(site, *phantom.draw(site, n, seed=SEED)) for n, site in enumerate(SITES)]
    return [(site, truth, adapt(image)) for site, image, truth in drawn]


def outlined(ax: Any, image: Tensor, truth: Tensor, mask: Tensor, colour: str) -> None:
    """An image with the true outline dashed and the outline of a mask."""
    inside, true = mask.float().numpy(), truth.float().numpy()
    ax.imshow(image.numpy(), cmap="gray", vmin=0, vmax=1)
    ax.contourf(inside, levels=[0.5, 1.5], colors=[colour], alpha=0.25)
    ax.contour(true, levels=[0.5], colors=TRUTH, linewidths=1.2, linestyles="--")
    if mask.any():
        ax.contour(inside, levels=[0.5], colors=colour, linewidths=2.2)
    ax.set(xticks=[], yticks=[])


def gauge(ax: Any, p: Prediction, true: float) -> None:
    """The expected Dice with its interval, and the true Dice that it stands for."""
    (low, high), middle = p.expected_interval.tolist(), float(p.expected_dice)
    ax.hlines(0, 0, 1, color="#d9dde2", linewidth=9, capstyle="round")
    ax.hlines(0, low, high, color=AFTER, linewidth=9, alpha=0.55)
    ax.plot(middle, 0, "|", color="#00506b", markersize=15, markeredgewidth=3)
    ax.plot(true, 0, "o", color="black", markersize=6)
    ax.set(xlim=(-0.03, 1.03), ylim=(-1, 1), yticks=[], xticks=[0, 0.5, 1])
    ax.set_title(f"expected Dice {middle:.2f}\n({low:.2f} to {high:.2f})", fontsize=11)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, labelsize=9, colors="#555555")


def place(figure: Figure, column: int, bottom: float, height: float) -> Any:
    """Axes as wide as an image, in inches from the lower left corner."""
    width, full = figure.get_size_inches()
    left = GAP + column * (SIDE + GAP)
    return figure.add_axes((left / width, bottom / full, SIDE / width, height / full))


def picture(shown: list[tuple[str, Tensor, Prediction]]) -> Figure:
    """A column for each scene: before, after, and what Sitta says of it."""
    figure = Figure(figsize=(GAP + len(shown) * (SIDE + GAP), 2 * SIDE + 2.95))
    for n, (site, truth, p) in enumerate(shown):
        before, after = place(figure, n, SIDE + 2.25, SIDE), place(figure, n, 1.9, SIDE)
        rows = ((before, "Before", p.source_mask, BEFORE), (after, "After", p.mask, AFTER))
        for ax, name, mask, colour in rows:
            outlined(ax, p.image[0], truth, mask, colour)
            score = float(dice(mask[None], truth[None]))
            ax.set_title(f"{name}: Dice {score:.2f}", fontsize=13, fontweight="bold")
            ax.spines[:].set_visible(False)
        about = "Scanner: " + SCANNERS[site]
        before.text(0.5, 1.15, about, transform=before.transAxes, ha="center", va="bottom")
        gauge(place(figure, n, 1.0, 0.3), p, float(dice(p.mask[None], truth[None])))
    figure.supxlabel(
        "White dashes: true outline.   Orange: model as trained.   Blue: after Sitta.\n"
        "Dice: overlap with the true outline, 1 is perfect.   Black dot: Dice after Sitta.\n"
        "Bar: expected Dice with its 80 % interval, computed without the true outline.",
        fontsize=10,
        y=0.01,
    )
    return figure


def main() -> None:
    """Draw it, and print what it shows."""
    shown = scenes()
    for site, truth, p in shown:
        before, after = (float(dice(m[None], truth[None])) for m in (p.source_mask, p.mask))
        low, high = p.expected_interval.tolist()
        print(
            f"{site:6} before {before:.2f}  after {after:.2f}  "
            f"expected {float(p.expected_dice):.2f} ({low:.2f} to {high:.2f})"
        )
    with rc_context(STYLE):
        picture(shown).savefig(OUT, dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    main()
