"""Fill cells: one model, one target, every image, all that shares a pass in one pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import pandas as pd
import torch

from sitta.adaptation.together import together
from sitta.benchmark.cells import ORACLE, Cell, Variant, Work, by_pass, drawn
from sitta.benchmark.measure import Figures, measure
from sitta.benchmark.plan import Plan
from sitta.benchmark.rows import COLUMNS
from sitta.data.domains import Domain
from sitta.data.preprocess import Preprocess
from sitta.members import grid
from sitta.models import load
from sitta.prediction import Prediction
from sitta.training.samples import Samples
from sitta.training.samples import load as decode
from sitta.training.split import split

PIXELS = 128 * 128  # of the images in one pass: on a core, more at once only crowd the caches
AT_ONCE = 16  # members in one pass

Rows = list[dict[str, Any]]
Write = Callable[[Cell, pd.DataFrame], None]


def evaluate(plan: Plan, work: Work, checkpoint: str, cells: Sequence[Cell], write: Write) -> None:
    """Predict, measure and write some cells of a work item.

    Args:
        plan: The plan.
        work: What they are part of.
        checkpoint: Of the model.
        cells: Those that are still to be filled.
        write: Is given each cell's rows once they are complete.
    """
    model = load(checkpoint)
    samples, in_draw = images(plan, work)
    groups, alone = by_pass(plan, cells)
    for group in groups:
        for cell, rows in _together(plan, group, model, samples, in_draw):
            write(cell, _table(plan, cell, rows))
    for cell in alone:
        rows = []
        method = cell.variant.build(model)
        for part in _parts(samples):
            start = time.perf_counter()
            prediction = method(part.images)
            seconds = (time.perf_counter() - start) / len(part)
            rows += _rows(plan, part, in_draw, prediction, seconds)
        write(cell, _table(plan, cell, rows))


def images(plan: Plan, work: Work) -> tuple[Samples, frozenset[tuple[str, int]]]:
    """The images that a work item runs on, and which of the target's are in the draw."""
    task = plan.task(work.model.task)
    job = plan.job(task.name, work.model.source, work.model.repeat, work.model.training)
    samples = decoded(task.domain(work.target), task.preprocess, len(job.classes) + 1)
    rows = drawn(plan, task.name, work.target, len(samples))
    in_draw = frozenset((samples.names[i], samples.slices[i]) for i in rows)
    if work.target == work.model.source:  # only what the model was not trained on
        parts = split(samples, job.recipe.validation, job.recipe.seed)
        return samples[parts.held_out], in_draw
    return samples[sorted(rows)] if work.drawn else samples, in_draw


@lru_cache(maxsize=8)
def decoded(domain: Domain, preprocess: Preprocess, classes: int) -> Samples:
    """A target in memory, shared by all models that are tried on it."""
    return decode(domain, preprocess, classes)


def _parts(samples: Samples) -> Iterator[Samples]:
    size = max(1, PIXELS // samples.masks[0].numel())
    for start in range(0, len(samples), size):
        yield samples[range(start, min(start + size, len(samples)))]


def _together(
    plan: Plan, cells: Sequence[Cell], model: Any, samples: Samples, in_draw: Any
) -> Iterator[tuple[Cell, Rows]]:
    """Rows of cells that share their members; the oracle picks from those of the grid."""
    choice = [Variant("source", {"lam": lam}) for lam in grid(plan.step)]
    asked = {str(c.variant): c.variant for c in cells}
    if asked.pop(ORACLE, None):
        asked |= {str(variant): variant for variant in choice}  # most are asked for already
    methods = [variant.build(model) for variant in asked.values()]
    found: dict[str, Rows] = {name: [] for name in asked}
    for part in _parts(samples):
        start = time.perf_counter()
        predictions = together(methods, part.images, members_at_once=AT_ONCE)
        seconds = (time.perf_counter() - start) / len(part)
        for rows, prediction in zip(found.values(), predictions, strict=True):
            rows += _rows(plan, part, in_draw, prediction, seconds)
    for cell in cells:
        oracle = cell.variant.method == ORACLE
        yield cell, _best([found[str(v)] for v in choice]) if oracle else found[str(cell.variant)]


def _best(choice: Sequence[Rows]) -> Rows:
    """For every image the row of the lambda with the highest Dice; of equals, the first."""
    return [max(rows, key=lambda row: row["dice"]) for rows in zip(*choice, strict=True)]


def _rows(
    plan: Plan, part: Samples, in_draw: Any, prediction: Prediction, seconds: float
) -> Iterator[dict[str, Any]]:
    measured = measure(prediction, part.masks, plan.tolerance)
    trusted = trust(prediction)
    for n, figures in enumerate(measured):
        name, number = part.names[n], part.slices[n]
        where = {"image": name, "slice": number, "drawn": (name, number) in in_draw}
        yield {**where, **figures, **trusted[n], "seconds": seconds}


def trust(prediction: Prediction) -> list[dict[str, Any]]:
    """Figures that need no truth, of every image: means over pixels where they are maps."""
    count = len(prediction)
    change = prediction.change
    figures: dict[str, torch.Tensor] = {
        "agreement": prediction.agreement,
        "uncertainty": prediction.uncertainty.flatten(1).mean(dim=1),
        "disagreement": prediction.disagreement.flatten(1).mean(dim=1),
        "distance": prediction.distance,
        "area": prediction.area,
        "change": torch.full((count,), torch.nan) if change is None else change,
    }
    values: Figures
    found = []
    for n in range(count):
        values = {name: float(figure[n]) for name, figure in figures.items()}
        found.append({**values, "notes": " ".join(prediction.notes[n])})
    return found


def _table(plan: Plan, cell: Cell, rows: Rows) -> pd.DataFrame:
    model = cell.model
    where: dict[str, Any] = {"task": model.task, "training": model.training}
    where |= {"source": model.source, "target": cell.target, "repeat": model.repeat}
    where |= cell.variant.columns(plan.step)
    return pd.DataFrame([{**where, **row} for row in rows], columns=list(COLUMNS))
