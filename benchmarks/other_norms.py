"""Does mixing measured statistics help networks with InstanceNorm or GroupNorm?

    python benchmarks/other_norms.py --data $SITTA_DATA --out RESULTS
    python benchmarks/other_norms.py --out RESULTS --publish docs/results/other-norms

Trains small U-Nets on one site, plainly and with strong augmentation, three seeds each, and
compares members 0, 0.2 and 0.4 with the network as trained, on its own held-out images and on other
sites: by Adapt with a calibration, as ``sitta train`` makes it at its end, and by Adapt and InTEnt
with statistics of three training images alone, which have no gate. Every trained network and every
table of Dice is a file: a run that is stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import csv
import functools
import gzip
import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import sitta
from sitta._util.files import atomic_write
from sitta.calibration.run import calibrate_split
from sitta.core.calibrated_statistics import measure_statistics
from sitta.data.domains import find_domain
from sitta.data.preprocess import TASKS
from sitta.data.samples import Samples, Split, load, split
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
HOME = "home"  # the site of the held-out images of the source
METHODS = ("calibrated", "adapt", "intent")
TITLES = ("Adapt, calibrated", "Adapt, 3 images", "InTEnt, 3 images")
NAMES = {"instance": "InstanceNorm", "group": "GroupNorm"}
TRAININGS = {"none": "plain", "strong": "strong augmentation"}
COLUMNS = ("task", "norm", "augment", "seed", "site", "image", "slice", "gain", "adapts", "before")
COLUMNS += METHODS


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


def trained(cell: Cell, home: Samples, parts: Split, recipe: Recipe, out: Path) -> nn.Module:
    """The network, loaded if it was trained before."""
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
    return net.eval()


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
    home = samples(data, cell.task, SOURCES[cell.task][2])
    recipe = Recipe.named("fast", seed=cell.seed, augment=cell.augment, steps=steps)
    parts = split(home, recipe.validation, recipe.seed)
    net = trained(cell, home, parts, recipe, out)
    calibration = calibrate_split(net, home, parts, ["object"])
    statistics = measure_statistics(net, home[parts.train].images[:MEASURED])
    methods = [
        sitta.Adapt(net, calibration=calibration),
        sitta.Adapt(net, source_statistics=statistics),
        sitta.InTEnt(net, source_statistics=statistics),
    ]
    others = {s: samples(data, cell.task, s) for s in SOURCES[cell.task][3]}
    with atomic_write(path) as draft, open(draft, "w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["site", "image", "slice", "gain", "adapts", "before", *METHODS])
        (gate,) = calibration.classes
        for site, images in {HOME: home[parts.held_out], **others}.items():
            rows = list(range(0, len(images), max(1, len(images) // MOST)))[:MOST]
            for row in rows:
                truth = images.masks[row][None]
                found = [method(images.images[row]) for method in methods]
                each = [found[0].member_masks[0], *(p.mask for p in found)]
                scores = [dice(mask[None], truth)[0] for mask in each]
                about = [site, images.names[row], images.slices[row], gate.gain, int(gate.adapts)]
                table.writerow([*about, *scores])
    print(cell, flush=True)


def rows(out: Path) -> list[dict[str, str]]:
    """One row per image of every network, of a run or as published; images go by their numbers."""
    published = out / "rows.csv.gz"
    if published.is_file():
        with gzip.open(published, "rt", newline="") as stream:
            return list(csv.DictReader(stream))
    found = []
    for path in sorted((out / "cells").glob("*.csv")):
        about = dict(zip(("task", "norm", "augment", "seed"), path.stem.split("-"), strict=True))
        with path.open(newline="") as stream:
            found += [about | row for row in csv.DictReader(stream)]
    names = sorted({(row["task"], row["site"], row["image"]) for row in found})
    first = {name[:2]: at for at, name in reversed([*enumerate(names)])}
    numbers = {name: at - first[name[:2]] for at, name in enumerate(names)}
    return [row | {"image": str(numbers[row["task"], row["site"], row["image"]])} for row in found]


def publish(found: Sequence[dict[str, str]], out: Path) -> None:
    """The rows, without names of files."""
    with atomic_write(out / "rows.csv.gz") as draft:
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        table.writeheader()
        for row in found:
            short = {name: f"{float(row[name]):.2f}" for name in ("before", *METHODS)}
            table.writerow(row | short)
        draft.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def interval(sites: Sequence[Sequence[float]]) -> str:
    """Mean over sites of their means over images, with a 95 % interval from resampled images."""
    draw = np.random.default_rng(0)
    values = [np.array(site) for site in sites]
    drawn = [draw.choice(site, (DRAWS, len(site))).mean(axis=1) for site in values]
    low, high = np.quantile(np.mean(drawn, axis=0), (0.025, 0.975))
    return f"{np.mean([site.mean() for site in values]):+.2f} [{low:+.2f}, {high:+.2f}]"


def tables(found: Sequence[dict[str, str]]) -> list[str]:
    """Markdown: gains in-domain and over other sites, then of each site; seeds are averaged."""
    sites: dict[tuple[str, ...], dict[tuple[str, str], list[dict[str, str]]]] = {}
    for row in found:
        key = row["task"], row["norm"], row["augment"], row["site"]
        sites.setdefault(key, {}).setdefault((row["image"], row["slice"]), []).append(row)

    def mean(images: dict[tuple[str, str], list[dict[str, str]]], of: str) -> list[float]:
        less = 0.0 if of == "before" else 1.0
        return [
            float(np.mean([float(r[of]) - less * float(r["before"]) for r in seeds]))
            for seeds in images.values()
        ]

    def line(keys: Sequence[tuple[str, ...]], where: str) -> str:
        task, norm, augment, _ = keys[0]
        each = [sites[key] for key in keys]
        every = [r for images in each for seeds in images.values() for r in seeds]
        lost = [float(r["calibrated"]) < float(r["before"]) - 1 for r in every]
        before = np.mean([np.mean(mean(images, "before")) for images in each])
        gains = [interval([mean(images, name) for images in each]) for name in METHODS]
        words = [task, NAMES[norm], TRAININGS[augment], where, f"{before:.1f}", *gains]
        return f"| {' | '.join(words)} | {100 * np.mean(lost):.1f} % |"

    head = ["task", "layers", "training", "images", "as trained", *TITLES, "harmed"]
    start = f"| {' | '.join(head)} |\n|---|---|---|---|{'---:|' * 5}"
    groups = sorted({key[:3] for key in sites})
    short, long = [], []
    for group in groups:
        others = [key for key in sites if key[:3] == group and key[3] != HOME]
        short += [line([(*group, HOME)], "in-domain"), line(others, "other sites")]
        long += [line([key], key[3]) for key in others]
    return ["\n".join([start, *lines]) for lines in (short, long)]


def gates(found: Sequence[dict[str, str]]) -> str:
    """Markdown: of how many networks the gate is open, and the gain it expects of each."""
    kept: dict[tuple[str, ...], dict[str, tuple[bool, float]]] = {}
    for row in found:
        about = row["adapts"] == "1", 100 * float(row["gain"])
        kept.setdefault((row["task"], row["norm"], row["augment"]), {})[row["seed"]] = about
    lines = [
        "| task | layers | training | gate open | gain on shifted images |",
        "|---|---|---|---:|---:|",
    ]
    for (task, norm, augment), seeds in sorted(kept.items()):
        count = f"{sum(open for open, _ in seeds.values())} of {len(seeds)}"
        gains = ", ".join(f"{gain:+.1f}" for _, gain in seeds.values())
        lines.append(f"| {task} | {NAMES[norm]} | {TRAININGS[augment]} | {count} | {gains} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing; or print the tables, and write the rows to publish."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="root of the images; none prints the tables")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--publish", type=Path, help="folder for rows without names")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=220)
    parser.add_argument("--task", action="append", choices=list(SOURCES))
    given = parser.parse_args()
    if given.data is not None:
        for cell in cells(given.seeds, given.task or list(SOURCES)):
            evaluate(cell, given.data, given.out, given.steps)
    found = rows(given.out)
    if given.publish is not None:
        publish(found, given.publish)
        found = rows(given.publish)
    print(*tables(found), gates(found), sep="\n\n")


if __name__ == "__main__":
    main()
