"""The demonstration: a small model meets three scanners that it has never seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from sitta.adaptation import Adapt, InTEnt
from sitta.data import phantom
from sitta.inference import Request, Run, predict
from sitta.models import load
from sitta.prediction.plot import outline
from sitta.prediction.prediction import Prediction

MODEL = "phantom-alder"
SITES = ("cedar", "fir", "rowan")
Scene = tuple[str, Tensor, Prediction]  # a site, and the truth and prediction of its first image


@dataclass(frozen=True)
class Row:
    """Mean Dice over the images of one site."""

    site: str  # the scanner
    images: int  # how many images
    fixed: dict[float, float]  # Dice by lambda; the first, lambda 1, is the unadapted model
    intent: float  # Dice of InTEnt
    adapt: float  # Dice of Adapt
    oracle: float  # Dice of the best lambda of each image, which only the truth can tell
    worse: int  # images whose Dice Adapt lowered by more than 0.01 against the unadapted model


def dice(masks: Tensor, truth: Tensor, empty: float = 1.0) -> Tensor:
    """Dice of binary masks ``(..., N, *S)`` with the truth ``(N, *S)``; ``empty`` if both are."""
    space = tuple(range(1 - truth.dim(), 0))
    total = masks.sum(dim=space) + truth.sum(dim=space)
    both = (masks * truth).sum(dim=space)
    return torch.where(total > 0, 2 * both / total.clamp(min=1), empty)


def run(sites: Iterable[str], images: int) -> tuple[list[Row], list[Scene]]:
    """Adapt the model that ships with Sitta: mean Dice of each site, and its first image."""
    model = load(MODEL)
    intent, adapt = InTEnt(model), Adapt(model)
    rows, scenes = [], []
    for site in sites:
        pictures, truth = phantom.batch(site, images)
        grid, p = intent(pictures), adapt(pictures)
        each = dice(grid.member_masks, truth)  # (K, N)
        fixed = {
            float(lam): float(d) for lam, d in zip(grid.lambdas, each.mean(dim=1), strict=True)
        }
        ours, best = dice(p.mask, truth), each.amax(dim=0)
        worse = int((ours < each[0] - 0.01).sum())
        theirs = float(dice(grid.mask, truth).mean())
        rows.append(Row(site, images, fixed, theirs, float(ours.mean()), float(best.mean()), worse))
        scenes.append((site, truth[0], p[0]))
    return rows, scenes


def predict_files(out: Path, images: int, watch: Callable[[int, int], None]) -> Run:
    """Write the same images to ``out/phantom``, and predict them as files, with a report."""
    for site in SITES:
        phantom.write(out, site, images)
    folders = [out / "phantom" / site / "images" for site in SITES]
    return predict(Request(MODEL), folders, out / "predictions", watch=watch)


def draw(scenes: Sequence[Scene], path: Path) -> None:
    """Save a picture: a line for each site with truth, source mask, adapted mask, uncertainty."""
    figure = Figure(figsize=(9.6, 2.5 * len(scenes)), layout="constrained")
    axes = figure.subplots(len(scenes), 4, squeeze=False)
    for line, (site, truth, p) in zip(axes, scenes, strict=True):
        assert p.source_mask is not None  # noqa: S101  (the grid holds lambda 1)
        masks = {"truth": truth, "source": p.source_mask, "Adapt": p.mask}
        for ax, (name, mask) in zip(line, masks.items(), strict=False):
            outline(ax, p.image[0].numpy(), mask)
            score = float(dice(mask[None], truth[None]))
            told = "" if name == "truth" else f"  Dice {score:.2f}"
            ax.set_title(f"{site}: {name}{told}", fontsize=9)
        heat = line[3].imshow(p.uncertainty.numpy(), cmap="magma", vmin=0, vmax=1)
        line[3].set_title("uncertainty", fontsize=9)
        line[3].set_axis_off()
        figure.colorbar(heat, ax=line[3], label="bit", shrink=0.8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
