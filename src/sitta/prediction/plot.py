"""A prediction as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from sitta.core.masks import one_class
from sitta.prediction.notes import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sitta.prediction.prediction import Prediction

MOST_MEMBERS = 11  # a longer strip is thinned evenly, ends kept


def plot(p: Prediction) -> Figure:
    """Image, source mask, integrated mask and uncertainty above the strip of members."""
    at = _slice(p)
    picture = _picture(p.image[at])
    ran = np.flatnonzero(p.record.ran[:, 0])
    shown = sorted({int(ran[round(i)]) for i in np.linspace(0, len(ran) - 1, MOST_MEMBERS)})
    figure = Figure(figsize=(max(9.6, 1.6 * len(shown)), 5.2), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1.45, 1])  # type: ignore[misc]
    _panels(above, p, picture, at)
    for ax, k in zip(np.atleast_1d(below.subplots(1, len(shown))), shown, strict=True):
        outline(ax, picture, p.member_masks[k][at])
        ax.set_title(
            f"{_named(p.record.names[k])}\n"
            f"entropy {float(p.entropies[k]):.3f}\nweight {float(p.weights[k]):.3f}",
            fontsize=8,
        )
    return figure


def _named(member: str) -> str:
    """A member by its lambda, unless it has a name of its own."""
    return f"$\\lambda$ = {member}" if member[0].isdecimal() else member


def _panels(above: Any, p: Prediction, picture: Array, at: Any) -> None:
    axes = above.subplots(1, 4)
    outline(axes[0], picture)
    axes[0].set_title("image")
    if p.source_mask is None:
        axes[1].set_axis_off()
        axes[1].set_title("no source member")
    else:
        outline(axes[1], picture, p.source_mask[at])
        axes[1].set_title("source")
    outline(axes[2], picture, p.mask[at])
    axes[2].set_title(f"{p.method}, agreement {float(p.agreement):.2f}")
    heat = axes[3].imshow(p.uncertainty[at].cpu().numpy(), cmap="magma", vmin=0, vmax=1)
    axes[3].set_title("uncertainty")
    axes[3].set_axis_off()
    above.colorbar(heat, ax=axes[3], label="bit", shrink=0.8)


def outline(ax: Axes, picture: Array, mask: Tensor | None = None) -> None:
    """Show a picture, and each class of a mask painted and outlined on it."""
    ax.imshow(picture, cmap="gray", vmin=0, vmax=1)
    if mask is not None:
        classes = mask.cpu().numpy() if mask.dim() == 2 else one_class(mask.cpu().numpy())
        painted = np.ma.masked_equal(classes, 0)
        ax.imshow(painted, cmap="tab10", vmin=0, vmax=9, alpha=0.45, interpolation="nearest")
        for c in np.unique(classes[classes > 0]):
            ax.contour(classes == c, levels=[0.5], colors=[f"C{int(c) % 10}"], linewidths=1.2)
    ax.set_axis_off()


def _slice(p: Prediction) -> Any:
    """Index of the picture in a map ``(..., *S)``: of a volume, the slice with most foreground."""
    if p.image.dim() != 4:
        return ...
    foreground = (p.mask if p.mask.dim() == 3 else p.mask.amax(dim=0)) > 0
    return ..., int(foreground.flatten(1).sum(dim=1).argmax()), slice(None), slice(None)


def _picture(image: Tensor) -> Array:
    """(C, H, W) as grey or RGB in [0, 1]."""
    values: Array = image.detach().cpu().float().numpy()
    low, high = float(values.min()), float(values.max())
    values = (values - low) / max(high - low, 1e-12)
    return np.moveaxis(values, 0, -1) if len(values) == 3 else values[0]
