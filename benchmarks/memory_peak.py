"""Peak memory of a call, in a process of its own: the memory part of benchmarks/speed.py."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import torch

import sitta
from variants import network, plain


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
        command = [sys.executable, __file__, preset, what, str(size)]
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


if __name__ == "__main__":
    print(peak(sys.argv[1], sys.argv[2], int(sys.argv[3])))
