"""A whole benchmark of phantoms: on this machine, then on Ray, and both must agree.

    make bench-smoke

Every step is a command as a person types it, with the words of the command line.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from sitta.cli import main

PLAN = Path(__file__).with_name("smoke.toml")
STEPS = """
data phantom data --sites alder,birch --images 6 --size 32x32
bench plan plan.toml
bench run plan.toml --out local --workers 2
bench run plan.toml --out ray --ray local
bench table local --format csv --out tables-local
bench table ray --format csv --out tables-ray
bench status ray
bench figure local --out figures
bench report local --out report.html
"""


def smoke(place: Path) -> None:
    """Run all steps in a folder, and compare the tables of both runs."""
    shutil.copyfile(PLAN, place / "plan.toml")
    with contextlib.chdir(place):
        for step in STEPS.strip().splitlines():
            print(f"$ sitta {step}", flush=True)
            sitta(step)
        local, ray = (_texts(Path(name)) for name in ("tables-local", "tables-ray"))
    if not local or local != ray:
        sys.exit("bench-smoke: the tables of the two runs differ, or there are none")
    print("bench-smoke: the tables of both runs are equal")


def _texts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def sitta(step: str) -> None:
    """One command; what fails ends all."""
    sys.argv = ["sitta", *step.split()]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"  # for the workers
    with tempfile.TemporaryDirectory() as folder:
        smoke(Path(folder))
