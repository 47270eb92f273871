"""Does mixing measured statistics help networks with InstanceNorm or GroupNorm?

    python benchmarks/other_norms.py --data $SITTA_DATA --out RESULTS
    python benchmarks/other_norms.py --data $SITTA_DATA --out RESULTS --table

Trains small U-Nets on one site, at home and with strong augmentation, three seeds each; measures
statistics on three training images without their masks; and compares Adapt and InTEnt, both of
members 0, 0.2 and 0.4, with the network as trained, on its own held-out images and on other sites.
Every trained network and every table of Dice is a file: a run that is stopped goes on where it was.
There is no gate here: it needs a calibration on more images.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import sitta
from sitta._util.files import atomic_write
from sitta.core.calibrated_statistics import measure_statistics
from sitta.data.domains import find_domain
from sitta.data.preprocess import TASKS
from sitta.data.samples import Samples, load, split
from sitta.training import Callback, Recipe
from sitta.training.loop import Fit

NORMS = {"instance": ("instance", {"affine": True}), "group": ("group", {"num_groups": 4})}
# Task, folder on disk, masks, source site, other sites.
SOURCES = {
    "chest": ("chest", "masks", "mcu", ("jsrt", "chn")),
    "cord": ("spinal", "masks_cord", "ucl", ("nwu", "philips", "milan")),
}
MEASURED, MOST = 3, 60  # images to measure on, and to test on for each site
DRAWS = 2000


@dataclass(frozen=True)
class Cell:
    """One network."""

    task: str
    norm: str
    augment: str
    seed: int

    def __str__(self) -> str:
        return f"{self.task}-{self.norm}-{self.augment}-{self.seed}"


def cells(seeds: int, tasks: Sequence[str]) -> Iterator[Cell]:
    """All networks, seed by seed."""
    for seed, task, norm, augment in itertools.product(
        range(seeds), tasks, NORMS, ("none", "strong")
    ):
        yield Cell(task, norm, augment, seed)


def network(norm: str, seed: int) -> nn.Module:
    """A small U-Net of MONAI."""
    from monai.networks.nets import BasicUNet

    torch.manual_seed(seed)
    kind, options = NORMS[norm]
    return BasicUNet(2, 1, 1, features=(16, 16, 32, 64, 64, 16), norm=(kind, options))


@functools.cache
def samples(data: Path, task: str, site: str) -> Samples:
    """The images of a site."""
    folder, masks, *_ = SOURCES[task]
    return load(find_domain(data, folder, site, masks), TASKS[folder])


def trained(cell: Cell, data: Path, out: Path, steps: int) -> tuple[nn.Module, Samples, Samples]:
    """The network, loaded if it was trained before; what it was trained on; what was held out."""
    home = samples(data, cell.task, SOURCES[cell.task][2])
    recipe = Recipe.named("fast", seed=cell.seed, augment=cell.augment, steps=steps)
    parts = split(home, recipe.validation, recipe.seed)
    net, path = network(cell.norm, cell.seed), out / "networks" / f"{cell}.pt"
    if path.is_file():
        net.load_state_dict(torch.load(path, weights_only=True))
    else:
        device = torch.device("cpu")
        fit = Fit(net, recipe, home[parts.train], home[parts.held_out], device)
        while not fit.is_finished:
            fit.epoch(Callback())
        net.load_state_dict(fit.weights)
        with atomic_write(path) as draft:
            torch.save(net.state_dict(), draft)
    return net.eval(), home[parts.train], home[parts.held_out]


def dice(masks: Tensor, truth: Tensor) -> list[float]:
    """Of each image, in points; 100 where both are empty."""
    total = (masks + truth).flatten(1).sum(1)
    both = (masks * truth).flatten(1).sum(1)
    return torch.where(total > 0, 200 * both / total.clamp(min=1), 100.0).tolist()


def evaluate(cell: Cell, data: Path, out: Path, steps: int) -> None:
    """Write the Dice of each image, as trained and adapted."""
    path = out / "cells" / f"{cell}.csv"
    if path.is_file():
        return
    net, known, held = trained(cell, data, out, steps)
    statistics = measure_statistics(net, known.images[:MEASURED])
    methods = [kind(net, source_statistics=statistics) for kind in (sitta.Adapt, sitta.InTEnt)]
    sites = {"home": held, **{s: samples(data, cell.task, s) for s in SOURCES[cell.task][3]}}
    with atomic_write(path) as draft, open(draft, "w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["site", "image", "slice", "before", "adapt", "intent"])
        for site, images in sites.items():
            rows = list(range(0, len(images), max(1, len(images) // MOST)))[:MOST]
            for row in rows:
                truth = images.masks[row][None]
                found = [method(images.images[row]) for method in methods]
                each = [found[0].member_masks[0], *(p.mask for p in found)]
                scores = [dice(mask[None], truth)[0] for mask in each]
                table.writerow([site, images.names[row], images.slices[row], *scores])
    print(cell, flush=True)


def show(out: Path) -> None:
    """Mean gain over images, each by its mean over seeds; intervals from resampled images."""
    gains: dict[tuple[str, ...], dict[tuple[str, ...], list[float]]] = {}
    for path in sorted((out / "cells").glob("*.csv")):
        task, norm, augment, _ = path.stem.split("-")
        for row in csv.DictReader(path.open()):
            for method in ("adapt", "intent"):
                of_image = gains.setdefault((task, norm, augment, row["site"], method), {})
                gain = float(row[method]) - float(row["before"])
                of_image.setdefault((row["image"], row["slice"]), []).append(gain)
    chance = np.random.default_rng(0)
    for key, images in gains.items():
        means = np.array([np.mean(values) for values in images.values()])
        drawn = chance.choice(means, (DRAWS, len(means))).mean(axis=1)
        low, high = np.quantile(drawn, (0.025, 0.975))
        seeds = max(map(len, images.values()))
        about = f"{len(means)} images, {seeds} seeds"
        print(f"{' '.join(key):36} {means.mean():+.2f} [{low:+.2f}, {high:+.2f}]  {about}")


def main() -> None:
    """Run what is missing, or show what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=220)
    parser.add_argument("--task", action="append", choices=list(SOURCES))
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if not given.table:
        for cell in cells(given.seeds, given.task or list(SOURCES)):
            evaluate(cell, given.data, given.out, given.steps)
    show(given.out)


if __name__ == "__main__":
    main()
