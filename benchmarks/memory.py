"""How much memory does a large image take? InTEnt on the compact network, in a process of its own.

    python benchmarks/memory.py [--sides 512 1024 2048]

Results go to memory.json and memory.md beside this file. Sides that were measured before stay.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

import sitta
from sitta.core.accel import allocator, budget
from sitta.models import UNet

HERE = Path(__file__).parent


def highest() -> float:
    """Megabytes of this process that were in memory at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def child(side: int) -> None:
    """Adapt to one image, with all figures, and tell what it took."""
    torch.manual_seed(0)
    net, image = UNet.preset("compact").eval(), torch.rand(1, side, side)
    adapt, before = sitta.InTEnt(net), highest()
    start = time.perf_counter()
    prediction = adapt(image)
    seconds, passes = time.perf_counter() - start, highest()
    prediction.arrays()
    with adapt._twins.borrow() as twin:
        row = budget.row_bytes(twin.module, image)
    found = {"before_mb": before, "passes_mb": passes, "all_figures_mb": highest()}
    found |= {"estimate_of_a_row_mb": None if row is None else row / 1e6, "seconds": seconds}
    print(json.dumps({k: None if v is None else round(v, 1) for k, v in found.items()}))


def main() -> None:
    """Measure each side in a process of its own, print and store."""
    allocator.keep_between_passes()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", type=int, nargs="+", default=[512, 1024, 2048])
    parser.add_argument("--child", type=int)
    given = parser.parse_args()
    if given.child:
        return child(given.child)
    path = HERE / "memory.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    for side in given.sides:
        words = [sys.executable, __file__, "--child", str(side)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        found[str(side)] = json.loads(done.stdout)
        path.write_text(json.dumps(found, indent=2) + "\n")
    lines = [
        "# Memory of large images",
        "",
        "Written by `python benchmarks/memory.py`: one image, the compact network, InTEnt with 6 "
        f"members and the default settings, torch {torch.__version__}, each in a process of its "
        "own. Megabytes of the process that were in memory at most:",
        "",
        "| image | before | after all members | after all figures | estimate of a row |",
        "|---|---:|---:|---:|---:|",
    ]
    for side, m in sorted(found.items(), key=lambda pair: int(pair[0])):
        row = "" if m["estimate_of_a_row_mb"] is None else f"{m['estimate_of_a_row_mb']:.0f}"
        figures = (f"{m[k]:.0f}" for k in ("before_mb", "passes_mb", "all_figures_mb"))
        lines.append(f"| {side}x{side} | {' | '.join(figures)} | {row} |")
    (HERE / "memory.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return None


if __name__ == "__main__":
    main()
