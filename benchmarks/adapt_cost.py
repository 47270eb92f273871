"""What Adapt costs beside InTEnt and one plain forward pass, on phantoms: passes and time.

    python benchmarks/adapt_cost.py [--images 16] [--turns 5]

Images of the model's own site and of others, adapted one at a time and eight at a time. Ratios are
medians over turns in which all methods run one after the other. Run it on a machine that does
nothing else. Results go to adapt_cost.json and adapt_cost.md, beside this file.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sitta
from sitta.data import phantom

HERE = Path(__file__).parent
MODEL, HOME = "phantom-alder", "alder"
SITES = (HOME, "cedar", "fir", "rowan")
TWO, ALL = 2, 7  # members that run where the first two agree, and elsewhere


def passes(adapt: sitta.Adapt, images: Tensor) -> float:
    """Mean forward passes per image, from the notes."""
    notes = adapt(images).notes
    return statistics.mean(TWO if "two-members-agree" in codes else ALL for codes in notes)


def seconds(run: Callable[[Tensor], Any], images: Tensor, batch: int) -> float:
    """Of all images, so many at a time."""
    start = time.perf_counter()
    with torch.no_grad():
        for part in images.split(batch):
            run(part)
    return time.perf_counter() - start


def ratios(model: torch.nn.Module, images: Tensor, batch: int, turns: int) -> dict[str, float]:
    """Time of each method, in plain forward passes."""
    runs: dict[str, Callable[[Tensor], Any]] = {
        "plain": model,
        "InTEnt": sitta.InTEnt(model),
        "Adapt": sitta.Adapt(model),
        "Adapt, full budget": sitta.Adapt(model, budget="full"),
    }
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(turns + 1):
        for name, run in runs.items():
            once = seconds(run, images, batch)
            if turn:  # the first turn warms up
                taken[name].append(once)
    plain = taken.pop("plain")
    each = {n: [t / p for t, p in zip(ts, plain, strict=True)] for n, ts in taken.items()}
    return {name: statistics.median(values) for name, values in each.items()}


def page(result: dict[str, Any]) -> str:
    """The table, and on what machine."""
    lines = [
        "# What Adapt costs",
        "",
        f"Written by `python benchmarks/adapt_cost.py`: {result['machine']}; {MODEL}, "
        f"{result['images']} phantoms of 128x128 for each site, one thread, median of "
        f"{result['turns']} turns. Time in plain forward passes.",
        "",
        "| site | images at a time | passes per image | InTEnt | Adapt | Adapt, full budget |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in result["rows"]:
        times = " | ".join(f"{row[n]:.1f}" for n in ("InTEnt", "Adapt", "Adapt, full budget"))
        lines.append(f"| {row['site']} | {row['batch']} | {row['passes']:.1f} | {times} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure and write both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    model, rows = sitta.load(MODEL), []
    for site in SITES:
        images = phantom.batch(site, given.images, (128, 128))[0]
        count = passes(sitta.Adapt(model), images)
        for batch in (1, 8):
            times = ratios(model, images, batch, given.turns)
            rows.append({"site": site, "batch": batch, "passes": count, **times})
            print(rows[-1], flush=True)
    machine = f"{platform.system()}, torch {torch.__version__}"
    result = {"machine": machine, "images": given.images, "turns": given.turns, "rows": rows}
    (HERE / "adapt_cost.json").write_text(json.dumps(result, indent=2) + "\n")
    (HERE / "adapt_cost.md").write_text(page(result))


if __name__ == "__main__":
    main()
