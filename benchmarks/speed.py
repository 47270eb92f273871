"""What InTEnt costs against a plain forward pass of the same network: ratios within one run.

    python benchmarks/speed.py [--presets compact paper] [--rounds 9]

The variants of a preset take turns, so that noise hits all of them alike, and a ratio is the median
over the turns of the ratio within a turn.
Memory is the rise of the resident set's peak in a process of its own, median of several; six plain
forwards in a row, which keep nothing, show how much of it is the allocator's (tests/test_memory.py
counts live tensors exactly). Results go to speed.json and speed.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import sitta
from sitta.models import UNet

HERE = Path(__file__).parent
SIZE = 128


def network(preset: str) -> UNet:
    """An untrained network whose zero-initialised layers are not zero."""
    torch.manual_seed(0)
    net = UNet.preset(preset).eval()
    with torch.no_grad():
        for p in net.parameters():
            if not p.any():
                p.normal_(std=0.05)
    return net


def seconds(variants: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Times of each variant, taking turns."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(rounds + 1):
        for name, call in variants.items():
            start = time.perf_counter()
            call()
            if turn:  # the first round warms up
                times[name].append(time.perf_counter() - start)
    return times


def ratio(one: list[float], other: list[float]) -> float:
    """Median over the turns of the ratio within a turn."""
    return statistics.median(a / b for a, b in zip(one, other, strict=True))


def plain(net: UNet, rows: torch.Tensor) -> Callable[[], object]:
    """A forward pass and nothing else."""

    def call() -> object:
        with torch.no_grad():
            return net(rows)

    return call


def time_preset(preset: str, rounds: int) -> dict[str, float]:
    """Ratios of run times for one preset."""
    net, image = network(preset), torch.rand(1, SIZE, SIZE)
    builds = seconds({"build": lambda: sitta.InTEnt(net)}, 5)["build"]
    intent = sitta.InTEnt(net)
    parts = sitta.InTEnt(net, members_at_once=1)
    found = seconds(
        {
            "batch 1": plain(net, image[None]),
            "batch 6": plain(net, image.expand(6, 1, SIZE, SIZE).contiguous()),
            "intent": lambda: intent(image),
            "in parts": lambda: parts(image),
        },
        rounds,
    )
    return {
        "seconds of one forward": statistics.median(found["batch 1"]),
        "seconds to build the adapter": statistics.median(builds),
        "InTEnt / batch of 6": ratio(found["intent"], found["batch 6"]),
        "InTEnt in parts of 1 / batch of 6": ratio(found["in parts"], found["batch 6"]),
        "InTEnt / one forward": ratio(found["intent"], found["batch 1"]),
    }


def peak(preset: str, what: str, size: int) -> float:
    """MB by which the peak of the resident set rises over a call, in this process."""
    net, image = network(preset), torch.rand(1, size, size)
    adapt = sitta.InTEnt(net, members_at_once=1)
    times, call = 1, plain(net, image[None])
    if what == "intent":
        call = lambda: adapt(image)  # noqa: E731
    elif what == "six":
        times = 6
    plain(net, image[None, :, :32, :32])()  # load the kernels
    resident = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    for _ in range(times):
        call()
    return (_status("VmHWM") - resident) / 1024


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])


def memory_preset(preset: str, size: int, tries: int) -> dict[str, float]:
    """Ratio of peak memory for one preset, each in a process of its own."""
    found = {}
    for what in ("plain", "six", "intent"):
        command = [sys.executable, __file__, "--peak", preset, what, str(size)]
        done = [
            subprocess.run(command, capture_output=True, text=True, check=True)
            for _ in range(tries)
        ]
        found[what] = statistics.median(float(d.stdout) for d in done)
    return {
        "side of the image for memory": size,
        "MB of one forward": found["plain"],
        "memory of InTEnt in parts of 1 / one forward": found["intent"] / found["plain"],
        "memory of six forwards in a row / one forward": found["six"] / found["plain"],
    }


def main() -> None:
    """Measure, print, and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--presets", nargs="+", default=["compact", "paper"])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        print(peak(given.peak[0], given.peak[1], int(given.peak[2])))
        return
    rows = {}
    for preset in given.presets:
        small = preset == "compact"
        rounds = given.rounds if small else max(3, given.rounds // 5)
        memory = memory_preset(preset, 512, 7) if small else memory_preset(preset, 256, 3)
        rows[preset] = {**time_preset(preset, rounds), **memory}
        print(preset, json.dumps(rows[preset], indent=2), flush=True)
    machine = {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "image": [SIZE, SIZE],
    }
    store(rows, machine)


def store(rows: dict[str, dict[str, float]], machine: dict[str, object]) -> None:
    """Write the results beside this file; presets that were not measured now stay."""
    if (HERE / "speed.json").exists():
        rows = {**json.loads((HERE / "speed.json").read_text())["rows"], **rows}
    (HERE / "speed.json").write_text(
        json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n"
    )
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    lines = [
        "# Speed",
        "",
        f"Written by `python benchmarks/speed.py`: {machine['cores']} cores, torch "
        f"{machine['torch']}, one {SIZE}x{SIZE} image, 6 members unless said otherwise.",
        "",
        "| | " + " | ".join(rows) + " |",
        "|---|" + "---:|" * len(rows),
    ]
    for name in names:
        cells = [f"{row[name]:.3g}" if name in row else "" for row in rows.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    (HERE / "speed.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
