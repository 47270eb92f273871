"""Threads: what passive waiting brings on an idle machine and beside other programs.

    python benchmarks/threads.py [--images 24] [--side 128] [--repeats 3]
    python benchmarks/threads.py --quick     # two small images, one thread; prints only

Each measurement is a process of its own: OpenMP reads its settings once, when torch is imported.
Beside other programs means one endless loop per core. Run it on a machine that does nothing else.
Results go to threads.json and threads.md, beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sitta._util.threads import PASSIVE, wait_passively

HERE = Path(__file__).parent
MODEL = "phantom-alder"
CORES = os.cpu_count() or 1
LOADS = {"idle": 0, "busy": CORES}  # endless loops beside it
BACKENDS, WAITS = ("torch", "onnx"), ("spinning", "passive")


def measure(model: str, waits: str, threads: int, folder: Path) -> float:
    """Seconds that a folder takes, reading and writing included, once all is loaded."""
    if waits == "passive":
        wait_passively()
    from sitta.core.accel import allocator
    from sitta.inference import Request, predict
    from sitta.inference.backends import ort

    if waits == "spinning":
        ort.PASSIVE.clear()
    allocator.keep_between_passes()
    with tempfile.TemporaryDirectory() as out:
        predict(Request(model), [next(folder.iterdir())], Path(out) / "first", threads=threads)
        return predict(Request(model), [folder], Path(out) / "all", threads=threads).seconds


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Other programs that would like all of the machine."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def apart(model: str, waits: str, threads: int, folder: Path) -> float:
    """``measure`` in a process of its own, without settings of OpenMP from outside."""
    names = {*PASSIVE, "OMP_NUM_THREADS"}
    env = {name: value for name, value in os.environ.items() if name not in names}
    words = [sys.executable, __file__, "--measure", model, waits, str(threads), str(folder)]
    done = subprocess.run(words, env=env, check=True, capture_output=True, text=True)
    return float(done.stdout)


def all_rows(images: int, side: int, repeats: int, counts: Sequence[int]) -> list[dict[str, Any]]:
    """Median seconds of every combination, measured in turns."""
    from sitta import load
    from sitta.data import phantom
    from sitta.export import export_onnx

    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        phantom.write(Path(place), "rowan", images, (side, side))
        folder = Path(place) / "phantom" / "rowan" / "images"
        graph = Path(place) / "graph.onnx"
        export_onnx(load(MODEL), graph)
        models = {"torch": MODEL, "onnx": str(graph)}
        kinds = [(b, w, t) for b in BACKENDS for w in WAITS for t in counts]
        for load_name, loops in LOADS.items():
            seconds: dict[Any, list[float]] = {kind: [] for kind in kinds}
            with busy_loops(loops):
                for _ in range(repeats):
                    for backend, waits, threads in kinds:
                        taken = apart(models[backend], waits, threads, folder)
                        seconds[backend, waits, threads].append(taken)
            for (backend, waits, threads), taken in seconds.items():
                row = {"machine": load_name, "backend": backend, "waits": waits}
                row |= {"threads": threads, "seconds": statistics.median(taken)}
                rows.append(row | {"all_seconds": taken})
    return rows


def page(result: dict[str, Any]) -> str:
    """The table, for people."""
    each = {
        (r["machine"], r["backend"], r["threads"], r["waits"]): r["seconds"] for r in result["rows"]
    }
    lines = [
        "# Threads",
        "",
        f"Written by `python benchmarks/threads.py` on {result['cores']} cores, "
        f"torch {result['torch']}, onnxruntime {result['onnxruntime']}.",
        "",
        f"`sitta predict {MODEL}` on {result['images']} phantoms of {result['side']}x"
        f"{result['side']}, seconds for all files, median of {result['repeats']}. Busy: "
        f"{result['cores']} endless loops run beside it. Passive waiting is the default of the "
        "commands; spinning is the default of OpenMP and onnxruntime.",
        "",
        "| machine | backend | threads | spinning | passive | speed-up by passive |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for machine, backend, threads in dict.fromkeys(key[:3] for key in each):
        spinning, passive = (each[machine, backend, threads, waits] for waits in WAITS)
        lines.append(
            f"| {machine} | {backend} | {threads} | {spinning:.1f} | {passive:.1f} "
            f"| {spinning / passive:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=24)
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="Small; stores nothing.")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        model, waits, threads, folder = given.measure
        print(measure(model, waits, int(threads), Path(folder)))
        return
    from importlib.metadata import version

    images, side, repeats = (2, 32, 1) if given.quick else (given.images, given.side, given.repeats)
    counts = [1] if given.quick else sorted({1, CORES})
    result: dict[str, Any] = {"images": images, "side": side, "repeats": repeats, "cores": CORES}
    result |= {name: version(name) for name in ("torch", "onnxruntime")}
    result |= {"machine": platform.machine(), "rows": all_rows(images, side, repeats, counts)}
    print(page(result))
    if not given.quick:
        (HERE / "threads.json").write_text(json.dumps(result, indent=2) + "\n")
        (HERE / "threads.md").write_text(page(result))


if __name__ == "__main__":
    main()
