"""What does a volume take? Six members of InTEnt on the compact3d network, whole and in one call.

    python benchmarks/volume.py [--sides 64 256 256]

Writes volume.json and volume.md: the most memory of the process, and its seconds, of the clock and
of the processor. Seconds of the clock grow with the other programs of the machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import torch

import sitta
from sitta.core.accel import allocator
from sitta.models import UNet

HERE = Path(__file__).parent


def write(told: dict[str, Any]) -> None:
    """The measurement, for programs and for people."""
    (HERE / "volume.json").write_text(json.dumps(told, indent=1) + "\n")
    about = {
        "sides": " x ".join(map(str, told["sides"])),
        "classes": told["classes"],
        "members": told["members"],
        "memory at most, GB": told["gigabytes"],
        "seconds of the processor": told["processor_seconds"],
        "seconds of the clock": told["seconds"],
        "threads": told["threads"],
    }
    rows = [f"| {name} | {value} |" for name, value in about.items()]
    text = (
        "# Memory and time of a volume\n\nWritten by `python benchmarks/volume.py`: one volume, "
        "the network `compact3d`, InTEnt with its default settings on a CPU, in one call, with all "
        f"scores; torch {told['torch']}.\n\n| | |\n|---|---:|\n"
    )
    (HERE / "volume.md").write_text(text + "\n".join(rows) + "\n")


def main() -> None:
    """Adapt to one volume, with all scores, and tell what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", type=int, nargs=3, default=(64, 256, 256))
    parser.add_argument("--classes", type=int, default=3)
    given = parser.parse_args()
    allocator.keep_between_passes()
    torch.manual_seed(0)
    net = UNet.preset("compact3d", out_channels=given.classes).eval()
    image = torch.rand(1, *given.sides)
    start, used = time.perf_counter(), time.process_time()
    prediction = sitta.InTEnt(net)(image)
    prediction.record.rows()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    told = {
        "sides": list(given.sides),
        "classes": given.classes,
        "torch": torch.__version__,
        "members": len(prediction.lambdas),
        "gigabytes": round(most, 2),
        "seconds": round(time.perf_counter() - start, 1),
        "processor_seconds": round(time.process_time() - used, 1),
        "threads": torch.get_num_threads(),
    }
    write(told)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
