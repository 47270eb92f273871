"""Folders: does a long run keep its memory, does batching pay, and what do more workers bring?

    python benchmarks/folder.py memory [--images 1000] [--side 64]
    python benchmarks/folder.py batch [--images 200] [--side 128] [--sizes 1 2 4 8]
    python benchmarks/folder.py workers [--images 200] [--side 128] [--numbers 1 2 4]

Each part is stored in folder.json under its name; folder.md, beside it, is written from all parts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from sitta._util.ray import joined
from sitta.core.accel import allocator
from sitta.data import phantom
from sitta.inference import Request, predict

HERE = Path(__file__).parent


def resident() -> float:
    """Megabytes of this process that are in memory."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("nan")


@contextmanager
def phantoms(images: int, side: int) -> Iterator[tuple[Path, Path]]:
    """A folder of images, and one to write to."""
    with tempfile.TemporaryDirectory() as folder:
        phantom.write(Path(folder), "rowan", images, (side, side))
        yield Path(folder) / "phantom" / "rowan" / "images", Path(folder) / "out"


def plan(side: int, **more: Any) -> Request:
    """InTEnt on the model that ships."""
    return Request("phantom-alder", preprocess={"size": (side, side)}, **more)


def memory(images: int, side: int) -> dict[str, Any]:
    """The resident set over a long run."""
    seen: dict[int, float] = {}

    def watch(done: int, total: int) -> None:
        if done and done % max(1, total // 10) == 0:
            seen[done] = round(resident(), 1)

    with phantoms(images, side) as (folder, out):
        run = predict(plan(side), [folder], out, watch=watch)
        report = (out / "report.html").stat().st_size / 1e6
    found = {"images": images, "side": side, "resident_mb": seen}
    found |= {"after_the_report_mb": round(resident(), 1), "report_mb": round(report, 1)}
    return found | {"seconds": run.seconds, "failed": run.counts["failed"]}


def batch(images: int, side: int, repeats: int, sizes: list[int]) -> dict[str, Any]:
    """Seconds for files one by one and in one pass, in turns; and what is left on the disk."""
    seconds: dict[int, list[float]] = {size: [] for size in sizes}
    busy: dict[int, list[float]] = {size: [] for size in sizes}  # of all threads, whoever waits
    with phantoms(images, side) as (folder, out):
        predict(plan(side), [next(folder.iterdir())], out)  # whatever is done once only
        for turn in range(repeats):
            for size in sizes:
                where = out.with_name(f"out-{size}-{turn}")
                start = time.process_time()
                run = predict(plan(side, batch=size), [folder], where)
                busy[size].append(time.process_time() - start)
                seconds[size].append(run.seconds)
        records = [p.stat().st_size for p in where.glob(".sitta/*.json")]
        kept = {
            "image": statistics.mean(p.stat().st_size for p in folder.iterdir()),
            "mask": statistics.mean(p.stat().st_size for p in (where / "masks").iterdir()),
            "record": statistics.mean(records),
            "summary": (where / "summary.csv").stat().st_size / images,
        }
    found = {"images": images, "side": side, "threads": torch.get_num_threads()}
    found |= {"seconds": {size: statistics.median(s) for size, s in seconds.items()}}
    found |= {"cpu_seconds": {size: statistics.median(s) for size, s in busy.items()}}
    found |= {"all_seconds": seconds, "all_cpu_seconds": busy, "repeats": repeats}
    return found | {"bytes_a_file": {name: round(size) for name, size in kept.items()}}


def workers(images: int, side: int, numbers: list[int]) -> dict[str, Any]:
    """Seconds on a local Ray cluster that runs already, once every worker is up."""
    found: dict[int, dict[str, float]] = {}
    with phantoms(images, side) as (folder, out):
        for number in numbers:
            ticks: list[float] = []
            where, start = out.with_name(f"out-{number}"), time.perf_counter()
            with joined("local", number):
                up = time.perf_counter() - start
                predict(
                    plan(side),
                    [folder],
                    where,
                    cluster="local",
                    workers=number,
                    watch=lambda done, total, ticks=ticks: ticks.append(time.perf_counter()),
                )
            half = len(ticks) // 4  # the first ones wait for the workers to load the model
            steady = (len(ticks) - 1 - half) / (ticks[-1] - ticks[half])
            whole = ticks[-1] - ticks[0]
            found[number] = {"ray_up": up, "files": whole, "steady_a_second": steady}
            found[number] = {name: round(value, 2) for name, value in found[number].items()}
    return {"images": images, "side": side, "cores": os.cpu_count(), "workers": found}


def page(found: dict[str, Any]) -> list[str]:
    """The parts that were measured, for people."""
    lines = [
        "# Folders",
        "",
        f"Written by `python benchmarks/folder.py`, torch {torch.__version__}.",
    ]
    if m := found.get("memory"):
        lines += [
            "",
            "## Memory over a long run",
            "",
            f"{m['images']} phantoms of {m['side']}x{m['side']}, `sitta predict phantom-alder`. "
            "Megabytes of the process that are in memory after so many images:",
            "",
            "| images | MB |",
            "|---:|---:|",
            *(f"| {done} | {mb:.0f} |" for done, mb in m["resident_mb"].items()),
            f"| report written ({m['report_mb']:.1f} MB) | {m['after_the_report_mb']:.0f} |",
        ]
    if m := found.get("batch"):
        alone = m["seconds"]["1"]
        lines += [
            "",
            "## Files in one pass",
            "",
            f"{m['images']} phantoms of {m['side']}x{m['side']}, `sitta predict phantom-alder "
            f"--batch N`, all of it (reading, masks, records, report), {m['threads']} thread"
            f"{'s'[: m['threads'] > 1]}, median of {m['repeats']} in turns:",
            "",
            "| files in one pass | seconds | images a second | to one by one | CPU seconds |",
            "|---:|---:|---:|---:|---:|",
            *(
                f"| {size} | {s:.1f} | {m['images'] / s:.1f} | {alone / s:.2f} "
                f"| {m['cpu_seconds'][size]:.1f} |"
                for size, s in m["seconds"].items()
            ),
            "",
            "Bytes on the disk for each: "
            + ", ".join(f"{name} {size}" for name, size in m["bytes_a_file"].items())
            + ".",
        ]
    if m := found.get("workers"):
        lines += [
            "",
            "## Workers of a local Ray cluster",
            "",
            f"{m['images']} phantoms of {m['side']}x{m['side']} on {m['cores']} cores, "
            "`sitta predict phantom-alder --ray local --workers N`, one thread a worker. Seconds "
            "from the first task to the last result, and the rate of the last three quarters:",
            "",
            "| workers | Ray is up after | seconds | images a second |",
            "|---:|---:|---:|---:|",
            *(
                f"| {n} | {w['ray_up']:.1f} | {w['files']:.1f} | {w['steady_a_second']:.1f} |"
                for n, w in m["workers"].items()
            ),
        ]
    return lines


def main() -> None:
    """Measure a part, print and store."""
    allocator.keep_between_passes()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("memory", "batch", "workers"))
    parser.add_argument("--images", type=int)
    parser.add_argument("--side", type=int)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--numbers", type=int, nargs="+", default=[1, 2, 4])
    given = parser.parse_args()
    if given.part == "memory":
        new = memory(given.images or 1000, given.side or 64)
    elif given.part == "batch":
        new = batch(given.images or 200, given.side or 128, given.repeats, given.sizes)
    else:
        new = workers(given.images or 200, given.side or 128, given.numbers)
    path = HERE / "folder.json"
    kept = json.loads(path.read_text())
    kept[given.part] = _merged(kept.get(given.part), json.loads(json.dumps(new)))
    path.write_text(json.dumps(kept, indent=2) + "\n")
    (HERE / "folder.md").write_text("\n".join(page(kept)) + "\n")
    print("\n".join(page(kept)))


def _merged(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Numbers of workers that were measured before, on the same images, stay."""
    if not old or "workers" not in new or old["images"] != new["images"]:
        return new
    both = {**old["workers"], **new["workers"]}
    return {**new, "workers": dict(sorted(both.items(), key=lambda pair: int(pair[0])))}


if __name__ == "__main__":
    main()
