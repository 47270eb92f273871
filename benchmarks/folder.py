"""Does a long run keep its memory? Predicts a folder of phantoms and records the resident set.

    python benchmarks/folder.py [--images 1000] [--side 64]

Results go to folder.json and folder.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import torch

from sitta.data import phantom
from sitta.runs import Plan, predict

HERE = Path(__file__).parent


def resident() -> float:
    """Megabytes of this process that are in memory."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def main() -> None:
    """Predict, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--side", type=int, default=64)
    given = parser.parse_args()
    seen: dict[int, float] = {}

    def watch(done: int, total: int) -> None:
        if done and done % max(1, total // 10) == 0:
            seen[done] = round(resident(), 1)

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        phantom.write(root, "rowan", given.images, (given.side, given.side))
        plan = Plan("phantom-alder", preprocess={"size": (given.side, given.side)})
        images = root / "phantom" / "rowan" / "images"
        run = predict(plan, [images], root / "out", watch=watch)
        report = (root / "out" / "report.html").stat().st_size / 1e6
    found = {"images": given.images, "side": given.side, "resident_mb": seen}
    found |= {"after_the_report_mb": round(resident(), 1), "report_mb": round(report, 1)}
    found |= {"seconds": run.seconds, "failed": run.counts["failed"]}
    (HERE / "folder.json").write_text(json.dumps(found, indent=2) + "\n")
    lines = [
        "# Memory over a long run",
        "",
        f"Written by `python benchmarks/folder.py`: {given.images} phantoms of {given.side}x"
        f"{given.side}, `sitta predict phantom-alder`, torch {torch.__version__}. Megabytes of the "
        "process that are in memory after so many images:",
        "",
        "| images | MB |",
        "|---:|---:|",
        *(f"| {done} | {mb:.0f} |" for done, mb in seen.items()),
        f"| report written ({report:.1f} MB) | {found['after_the_report_mb']:.0f} |",
    ]
    (HERE / "folder.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
