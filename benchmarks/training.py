"""What an epoch costs against the bare forward and backward passes of its batches.

    python benchmarks/training.py [--rounds 5] [--compile]

The size is that of chest/mcu: 110 images of 128x128 to train on, 28 held out, the preset compact,
ten a step. The images are phantoms: what they show does not change the cost. Variants take turns,
and a ratio is the median over the turns of the ratio within a turn. An epoch holds everything that
``sitta train`` does: shuffling, batches, loss, backward, Adam, schedule, validation by Dice.
Results go to training.json and training.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from sitta.data import phantom
from sitta.data.domains import Domain
from sitta.data.preprocess import TASKS
from sitta.data.samples import Samples
from sitta.models import UNet
from sitta.training import Callback, Job, Recipe
from sitta.training.loop import Fit
from sitta.training.run import CheckpointWriter
from sitta.training.run_folder import RunFolder
from speed import ratio, seconds

HERE = Path(__file__).parent
TRAIN, HELD_OUT, BATCH = 110, 28, 10


def samples(count: int, seed: int) -> Samples:
    """Phantoms in memory."""
    images, masks = phantom.batch("alder", count, seed=seed)
    names = tuple(str(i) for i in range(count))
    return Samples(images, masks, names, names, (0,) * count)


def bare(batches: list[Tensor], layout: torch.memory_format, **more: bool) -> Callable[[], None]:
    """Forward and backward of every batch, and nothing else."""
    torch.manual_seed(0)
    net = UNet.preset("compact").to(memory_format=layout)
    run = torch.compile(net) if more.get("compiled") else net
    rows = [b.contiguous(memory_format=layout) for b in batches]

    def call() -> None:
        for row in rows:
            for p in net.parameters():
                p.grad = None
            with torch.autocast("cpu", torch.bfloat16, enabled=more.get("half", False)):
                out = run(row)
            out.float().mean().backward()

    return call


def epoch(fit: Fit, keeper: CheckpointWriter | None = None) -> Callable[[], None]:
    """One epoch as ``sitta train`` runs it, with or without writing where it is."""

    def call() -> None:
        fit.epoch(Callback())
        if keeper:
            keeper.keep(fit)

    return call


def measure(rounds: int, compiled: bool) -> dict[str, float]:
    """Ratios to the bare passes of the same batches in the same layout."""
    train, held_out = samples(TRAIN, 1), samples(HELD_OUT, 2)
    batches = list(train.images.split(BATCH))
    recipe = Recipe.named("fast", batch=BATCH, epochs=1000, steps=None)
    job = Job(Domain("chest", "mcu", Path("phantoms")), recipe, TASKS["chest"])
    with tempfile.TemporaryDirectory() as folder:
        keeper = CheckpointWriter(RunFolder(Path(folder), job.name), job, {}, {})
        fit = Fit(job.network(), recipe, train, held_out, torch.device("cpu"))
        saved = Fit(job.network(), recipe, train, held_out, torch.device("cpu"))
        variants: dict[str, Callable[[], object]] = {
            "bare": bare(batches, torch.channels_last),
            "epoch": epoch(fit),
            "epoch, state saved after it": epoch(saved, keeper),
            "bare, channels first": bare(batches, torch.contiguous_format),
        }
        if compiled:
            variants["bare, torch.compile"] = bare(batches, torch.channels_last, compiled=True)
            few = bare(batches[:1], torch.channels_last, half=True)
            variants["bare, bfloat16, one batch"] = few
        times = seconds(variants, rounds)
    found = {"seconds of the bare passes": statistics.median(times["bare"])}
    for name in list(times)[1:]:
        scale = len(batches) if "one batch" in name else 1
        found[f"{name} / bare"] = ratio([scale * t for t in times[name]], times["bare"])
    return found


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compile", action="store_true", help="torch.compile and bfloat16 too")
    given = parser.parse_args()
    found = {k: round(v, 3) for k, v in measure(given.rounds, given.compile).items()}
    machine = f"{torch.get_num_threads()} cores, torch {torch.__version__}, {platform.system()}"
    (HERE / "training.json").write_text(json.dumps({"machine": machine, **found}, indent=2) + "\n")
    lines = [f"| {k.replace(', one batch', '')} | {v:.3g} |" for k, v in found.items()]
    text = [
        "# The cost of an epoch",
        "",
        f"Written by `python benchmarks/training.py`: {machine}; {TRAIN} images of "
        f"128x128 to train on, {HELD_OUT} held out, compact preset, batches of {BATCH}. *Bare*: "
        "forward and backward of the same batches, channels last, and nothing else.",
        "",
        "| | |",
        "|---|---:|",
        *lines,
    ]
    (HERE / "training.md").write_text("\n".join(text) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
