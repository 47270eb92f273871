"""What InTEnt and everything beside it cost against a plain forward pass of the same network.

    python benchmarks/speed.py [--presets compact paper] [--rows one-pass published] [--rounds 9]

The rows of the table take turns, and each is timed between two plain forward passes: a ratio is to
their mean, and the table has the median over the turns. The floor is what the floating-point
operations of six members take at the rate of a large matrix product, timed in the same turns.

A row that is measured replaces what was stored of it, or adds turns to it (``--add``), so that the
table can be filled in short pieces. Memory (``--memory``) is the rise of the resident set's peak in
a process of its own, median of several; six plain forwards in a row, which keep nothing, show how
much of it is the allocator's (tests/test_memory.py counts live tensors exactly).
Results go to speed.json and speed.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

import sitta
from memory_peak import memory_preset
from sitta.core.accel import allocator
from speed_table import write
from variants import COSTS, MEMBERS, VARIANTS, Call, NotAvailable, network, plain

HERE = Path(__file__).parent
SIZE = 128
PRODUCT = 2048  # side of the matrices whose product shows the machine's peak
PAUSE = 0.05  # seconds: idle threads of onnxruntime spin for a while, and would slow others
Row = dict[str, Any]


def seconds(call: Call) -> float:
    """How long one call takes, after the threads of the one before have gone to sleep."""
    time.sleep(PAUSE)
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(
    preset: str, names: list[str], rounds: int, keep: Callable[[dict[str, Row]], object]
) -> None:
    """For each row the turns: seconds, the plain forward's beside it, and the matrix product's.

    What there is after each single time goes to ``keep``, so that a run cut short leaves something.
    """
    net, image = network(preset), torch.rand(1, SIZE, SIZE)
    rows: dict[str, Row] = {}
    calls: dict[str, Call] = {}
    for name in names:
        try:
            calls[name] = VARIANTS[name][1](net, image)
            rows[name] = {"seconds": [], "plain": [], "product": []}
        except NotAvailable as error:
            rows[name] = {"missing": str(error)}
    forward, product = plain(net, image[None]), _product()
    for _ in range(3):  # warms up; each row warms up in its first turn unless that takes long
        forward(), product()
    for turn in range(rounds):
        for name, call in calls.items():
            if not turn and seconds(forward) * 20 < 5:
                call()
            before, took, after = seconds(forward), seconds(call), seconds(forward)
            rows[name]["seconds"].append(took)
            rows[name]["plain"].append((before + after) / 2)
            rows[name]["product"].append(seconds(product))
            keep({n: row for n, row in rows.items() if row.get("seconds", True)})
    keep({n: row for n, row in rows.items() if row.get("seconds", True)})


def _product() -> Call:
    a, b = torch.rand(PRODUCT, PRODUCT), torch.rand(PRODUCT, PRODUCT)
    return lambda: torch.mm(a, b)


def operations(preset: str) -> int:
    """Floating-point operations of one plain forward pass."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(preset)(torch.rand(1, 1, SIZE, SIZE))
    return counter.get_total_flops()


def facts(preset: str) -> dict[str, Any]:
    """What does not depend on the clock, and the time to build an adapter."""
    net = network(preset)
    builds = [seconds(lambda: sitta.InTEnt(net)) for _ in range(6)][1:]
    costs = {name: sitta.method(name, net).cost for name in COSTS}
    return {
        "operations": operations(preset),
        "members": MEMBERS,
        "product": 2 * PRODUCT**3,
        "seconds to build the adapter": statistics.median(builds),
        "costs": {name: [cost.forward, cost.backward] for name, cost in costs.items()},
    }


def main() -> None:
    """Measure, print, and store."""
    allocator.keep_between_passes()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--presets", nargs="+", default=["compact", "paper"])
    parser.add_argument("--rows", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--add", action="store_true", help="add turns to those stored")
    parser.add_argument("--memory", action="store_true", help="measure memory, and no time")
    given = parser.parse_args()
    stored = json.loads((HERE / "speed.json").read_text()) if _is_stored() else {"rows": {}}
    stored["machine"] = machine()
    for preset in given.presets:
        kept = stored["rows"].setdefault(preset, {})
        if given.memory:
            size, tries = (512, 7) if preset == "compact" else (256, 3)
            kept["memory"] = memory_preset(preset, size, tries)
            store(stored)
            continue
        kept["facts"], before = facts(preset), kept.get("times", {})

        def keep(found: dict[str, Row], kept: Row = kept, before: Row = before) -> None:
            kept["times"] = merge(before, found, add=given.add)
            store(stored)

        measure(preset, given.rows, given.rounds, keep)
    print((HERE / "speed.md").read_text())


def machine() -> dict[str, Any]:
    """What was measured on."""
    return {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "image": [SIZE, SIZE],
    }


def store(stored: dict[str, Any]) -> None:
    """Write the results beside this file."""
    (HERE / "speed.json").write_text(json.dumps(stored, indent=1) + "\n")
    write(stored, HERE / "speed.md")


def merge(kept: dict[str, Row], found: dict[str, Row], *, add: bool) -> dict[str, Row]:
    """The rows of both; of one that is in both, the new turns, or all turns."""
    rows = {**kept, **found}
    for name in set(kept) & set(found) if add else ():
        if "missing" not in kept[name] and "missing" not in found[name]:
            rows[name] = {part: kept[name][part] + found[name][part] for part in found[name]}
    return {name: rows[name] for name in VARIANTS if name in rows}


def _is_stored() -> bool:
    return (HERE / "speed.json").exists()


if __name__ == "__main__":
    main()
