"""A figure with one example per domain and its outline, from the user's own copy of the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sitta._util.files import atomic_write
from sitta.data.domains import Domain
from sitta.data.images import read, read_mask
from sitta.data.preprocess import TASKS, Preprocess


def draw(
    domains: Sequence[Domain], path: str | Path, chosen: Iterable[Domain] | None = None
) -> None:
    """Save a figure with one row per task; ``chosen`` is ``domains`` wrapped to show progress."""
    tasks = sorted({d.task for d in domains})
    widest = max(sum(d.task == task for d in domains) for task in tasks)
    figure = Figure(figsize=(2.1 * widest, 2.45 * len(tasks)), layout="constrained")
    axes = figure.subplots(len(tasks), widest, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    column = dict.fromkeys(tasks, 0)
    for domain in chosen or domains:
        ax = axes[tasks.index(domain.task), column[domain.task]]
        column[domain.task] += 1
        _panel(ax, domain)
    with atomic_write(Path(path)) as draft:
        figure.savefig(draft, dpi=150)


def _panel(ax: Any, domain: Domain) -> None:
    """The middle pair by name, as a model of the task would see it."""
    pairs = domain.pairs()
    pair = pairs[len(pairs) // 2]
    image = read(pair.image)
    labels = read_mask(pair.mask, like=image)
    usual = TASKS.get(domain.task, Preprocess(channels=3 if len(image.pixels) == 3 else 1))
    inputs = usual.apply(image)
    masks = inputs.inverse.masks(labels)
    at = int(masks.reshape(len(masks), -1).sum(axis=1).argmax())  # the slice with most foreground
    pixels = np.moveaxis(inputs.values[at], 0, -1)
    ax.imshow(pixels if pixels.shape[-1] == 3 else pixels[..., 0], cmap="gray", vmin=0, vmax=1)
    if masks[at].any():
        ax.contour(masks[at], levels=[0.5], colors=["#ff4d4d"], linewidths=0.9)
    unit = "volume" if len(image.geometry.shape) == 3 else "image"
    ax.set_title(f"{domain}\n{len(pairs)} {unit}{'s' * (len(pairs) > 1)}", fontsize=9)
