"""How InTEnt's cost grows with members and with pixels: compact preset, one image, this machine.

    python benchmarks/scale.py [--what members pixels] [--rounds 3]

The sizes take turns; a time is the median over the turns. Results go to scale.json and scale.md
beside this file, and to docs/images/scale.png. ``--what`` measures one part and keeps the other.
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
SIDES = (64, 128, 256, 512, 1024)
SIDE, COUNT = 128, 6
Points = list[list[float]]


def timed(count: int, side: int) -> float:
    """Seconds of one adaptation with so many members, evenly spaced, of an image of this side."""
    lambdas = torch.linspace(1, 0, count).tolist()
    adapt = sitta.InTEnt(network("compact"), lambdas=lambdas)
    image = torch.rand(1, side, side)
    adapt(image)  # loads the kernels; the first image of a large shape also tells what a row takes
    start = time.perf_counter()
    adapt(image)
    return time.perf_counter() - start


def measure(what: str, rounds: int) -> Points:
    """Pairs of members or sides with seconds."""
    sizes = [(k, SIDE) for k in MEMBERS] if what == "members" else [(COUNT, s) for s in SIDES]
    turns = [[timed(*size) for size in sizes] for _ in range(rounds)]
    values = [count if what == "members" else side for count, side in sizes]
    return [[v, statistics.median(t)] for v, *t in zip(values, *turns, strict=True)]


def exponent(points: Points, power: int) -> float:
    """Slope of log seconds over log size from the middle on: 1 is linear."""
    (a, s), (b, t) = points[len(points) // 2 - 1], points[-1]
    log = torch.tensor([t / s, (b / a) ** power]).log()
    return float(log[0] / log[1])


def draw(found: dict[str, Points]) -> None:
    """Both parts side by side, with the line through the largest size and zero."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    axes = figure.subplots(1, 2)
    titles = {"members": f"{SIDE}x{SIDE} pixels", "pixels": f"{COUNT} members"}
    for ax, (what, points) in zip(axes, found.items(), strict=True):
        power = 1 if what == "members" else 2
        sizes = [x**power for x, _ in points]
        times = [t for _, t in points]
        ax.loglog(sizes, [times[-1] * s / sizes[-1] for s in sizes], color="0.7", label="linear")
        ax.loglog(sizes, times, "o-", color="tab:blue", label="measured")
        ax.set_xticks(sizes, [f"{x:g}" if power == 1 else f"{x:g}²" for x, _ in points])
        ax.minorticks_off()
        ax.set(xlabel=what, ylabel="seconds of one image", title=titles[what])
        ax.legend(frameon=False)
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGE, dpi=150)


def table(found: dict[str, Points]) -> str:
    """The text of scale.md."""
    lines = [
        "# Scale",
        "",
        f"Written by `python benchmarks/scale.py`: {os.cpu_count()} cores, torch "
        f"{torch.__version__}, compact preset, one image at a time. Members are measured at "
        f"{SIDE}x{SIDE} pixels, pixels with {COUNT} members.",
    ]
    for what, points in found.items():
        power = 1 if what == "members" else 2
        unit = "member" if what == "members" else "million pixels"
        lines += ["", f"| {what} | seconds | seconds a {unit} |", "|---:|---:|---:|"]
        for x, t in points:
            each = t / x if power == 1 else t / x**2 * 1e6
            lines.append(f"| {x:g}{'' if power == 1 else f'x{x:g}'} | {t:.3g} | {each:.3g} |")
        grows = exponent(points, power)
        lines += ["", f"From the middle on, time grows as {what} to the power of {grows:.2f}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, draw and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--what", nargs="+", default=["members", "pixels"])
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    path = HERE / "scale.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    found.update({what: measure(what, given.rounds) for what in given.what})
    found = {what: found[what] for what in ("members", "pixels") if what in found}
    path.write_text(json.dumps(found, indent=1) + "\n")
    (HERE / "scale.md").write_text(table(found))
    print(table(found))
    if len(found) == 2:
        draw(found)


if __name__ == "__main__":
    main()
