"""How InTEnt's cost grows with members, images and pixels: compact preset, this machine.

    python benchmarks/scale.py [--what members images pixels] [--rounds 3]

The sizes take turns; a time is the median over the turns. Results go to scale.json and scale.md
beside this file, and to docs/images/scale.png. ``--what`` measures some parts and keeps the others.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import torch

import sitta
from variants import network

HERE = Path(__file__).parent
IMAGE = HERE.parent / "docs" / "images" / "scale.png"
MEMBERS = (2, 3, 5, 6, 11, 21, 34, 50)
IMAGES = (1, 2, 4, 8, 16, 32)
SIDES = (64, 128, 256, 512, 1024)
SIDE, COUNT = 128, 6
Points = list[list[float]]
TITLES = {
    "members": f"1 image, {SIDE}x{SIDE} pixels",
    "images": f"{COUNT} members, {SIDE}x{SIDE} pixels",
    "pixels": f"1 image, {COUNT} members",
}


def timed(count: int, images: int, side: int) -> float:
    """Seconds of one call with so many members, evenly spaced, for so many images of this side."""
    lambdas = torch.linspace(1, 0, count).tolist()
    adapt = sitta.InTEnt(network("compact"), lambdas=lambdas)
    image = torch.rand(images, 1, side, side)
    adapt(image)  # loads the kernels; the first image of a large shape also tells what a row takes
    start = time.perf_counter()
    adapt(image)
    return time.perf_counter() - start


def measure(what: str, rounds: int) -> Points:
    """Pairs of members, images or sides with seconds."""
    sizes: dict[int, tuple[int, int, int]] = {
        "members": {k: (k, 1, SIDE) for k in MEMBERS},
        "images": {n: (COUNT, n, SIDE) for n in IMAGES},
        "pixels": {s: (COUNT, 1, s) for s in SIDES},
    }[what]
    turns = [[timed(*size) for size in sizes.values()] for _ in range(rounds)]
    return [[v, statistics.median(t)] for v, *t in zip(sizes, *turns, strict=True)]


def exponent(points: Points, power: int) -> float:
    """Slope of log seconds over log size from the middle on: 1 is linear."""
    (a, s), (b, t) = points[len(points) // 2 - 1], points[-1]
    log = torch.tensor([t / s, (b / a) ** power]).log()
    return float(log[0] / log[1])


def draw(found: dict[str, Points]) -> None:
    """All parts side by side, with the line through the largest size and zero."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.4), layout="constrained")
    axes = figure.subplots(1, len(found))
    for ax, (what, points) in zip(axes, found.items(), strict=True):
        power = 2 if what == "pixels" else 1
        sizes = [x**power for x, _ in points]
        times = [t for _, t in points]
        ax.loglog(sizes, [times[-1] * s / sizes[-1] for s in sizes], color="0.7", label="linear")
        ax.loglog(sizes, times, "o-", color="tab:blue", label="measured")
        ax.set_xticks(sizes, [f"{x:g}" if power == 1 else f"{x:g}²" for x, _ in points])
        ax.minorticks_off()
        ax.set(xlabel=what, title=TITLES[what])
    axes[0].set_ylabel("seconds")
    axes[0].legend(frameon=False)
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGE, dpi=150)


def table(found: dict[str, Points]) -> str:
    """The text of scale.md."""
    lines = [
        "# Scale",
        "",
        f"Written by `python benchmarks/scale.py`: {os.cpu_count()} cores, torch "
        f"{torch.__version__}, compact preset. Members are measured with one image of "
        f"{SIDE}x{SIDE} pixels, images with {COUNT} members in one call at that size, pixels with "
        f"{COUNT} members and one image.",
    ]
    for what, points in found.items():
        power = 2 if what == "pixels" else 1
        unit = "million pixels" if what == "pixels" else what[:-1]
        lines += ["", f"| {what} | seconds | seconds for each {unit} |", "|---:|---:|---:|"]
        for x, t in points:
            each = t / x if power == 1 else t / x**2 * 1e6
            lines.append(f"| {x:g}{'' if power == 1 else f'x{x:g}'} | {t:.3g} | {each:.3g} |")
        grows = exponent(points, power)
        lines += ["", f"From the middle on, time grows as {what} to the power of {grows:.2f}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, draw and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--what", nargs="+", default=list(TITLES))
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    path = HERE / "scale.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    found.update({what: measure(what, given.rounds) for what in given.what})
    found = {what: found[what] for what in TITLES if what in found}
    path.write_text(json.dumps(found, indent=1) + "\n")
    (HERE / "scale.md").write_text(table(found))
    print(table(found))
    if len(found) == len(TITLES):
        draw(found)


if __name__ == "__main__":
    main()
