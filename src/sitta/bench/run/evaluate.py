"""Fill cells: one model, one target, every image, all that shares a pass in one pass."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cache, partial
from operator import itemgetter
from typing import Any

import pandas as pd
from torch import Tensor, nn

from sitta.adaptation import Method
from sitta.adaptation.shared_pass import run_shared, shares
from sitta.adaptation.sliding_window import windowed
from sitta.bench.plan.cells import Cell, Job, by_pass
from sitta.bench.plan.images import images
from sitta.bench.plan.request import MethodRequest
from sitta.bench.plan.schema import Plan
from sitta.bench.run.measure import Metrics, measure
from sitta.bench.stats.rows import BY_CLASS, COLUMNS, TRUST, text_of
from sitta.bench.variant import ORACLE, Variant
from sitta.core.members import grid
from sitta.data.samples import Samples
from sitta.inference.contact import first_contact
from sitta.inference.loading import load_model
from sitta.models import load
from sitta.models.profile import Profile
from sitta.prediction.prediction import Prediction

PIXELS = 128 * 128  # of the images in one pass: on a core, more at once only crowd the caches
AT_ONCE = 16  # members in one pass

Rows = list[dict[str, Any]]
Write = Callable[[Cell, pd.DataFrame], None]
Run = Callable[[Sequence[Method]], list[Rows]]
InDraw = frozenset[tuple[str, int]]


def evaluate(plan: Plan, job: Job, checkpoint: str, cells: Sequence[Cell], write: Write) -> None:
    """Predict and measure cells of a job; ``write`` is given each cell once it is complete."""
    if job.model.given:
        loaded = load_model(plan.given_model(job.model).profile)
        model: Any = loaded.model
        samples, in_draw = images(plan, job, loaded.preprocess, len(loaded.classes) + 1)
        for warning in first_contact(loaded, samples.images[:1].numpy(), loaded.profile.window):
            _tell(f"warning: {job.model.source}: {warning}")
        classes = loaded.classes
    else:
        model = load(checkpoint)
        samples, in_draw = images(plan, job)
        classes = plan.task(job.model.task).classes
    run = partial(_run, plan, samples, in_draw, classes)
    for group in by_pass(plan, cells):
        for cell, rows in _of_group(plan, group, model, run):
            write(cell, _table(plan, cell, rows))


@cache
def _tell(text: str) -> None:
    """Say it to whoever started the benchmark, once in each worker."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def _of_group(
    plan: Plan, cells: Sequence[Cell], model: nn.Module, run: Run
) -> Iterator[tuple[Cell, Rows]]:
    """Rows of cells that share their members; the oracle picks from those of the grid."""
    lambdas = [MethodRequest("source", {"lam": lam}) for lam in grid(plan.step)]
    choice = {request.variant(plan.step): request for request in lambdas}
    keys = {cell.request.variant(plan.step): cell for cell in cells}
    requests = {key: cell.request for key, cell in keys.items() if key.method != ORACLE}
    if len(requests) < len(keys):
        requests = {**choice, **requests}
    every = run([request.build(model) for request in requests.values()])
    by_variant: dict[Variant, Rows] = dict(zip(requests, every, strict=True))
    for key, cell in keys.items():
        if key.method == ORACLE:  # has the best lambda of every image; of equals, the first
            images = zip(*(by_variant[fixed] for fixed in choice), strict=True)
            yield cell, [max(rows, key=itemgetter("dice")) for rows in images]
        else:
            yield cell, by_variant[key]


def _run(
    plan: Plan,
    samples: Samples,
    in_draw: InDraw,
    classes: Sequence[str],
    methods: Sequence[Method],
) -> list[Rows]:
    """Rows of each method, from one pass if there are several; a few images at a time."""
    rows: list[Rows] = [[] for _ in methods]
    size = max(1, PIXELS // samples.masks[0].numel())
    for start in range(0, len(samples), size):
        part = samples[range(start, min(start + size, len(samples)))]
        begun = time.perf_counter()
        profile = getattr(methods[0].model, "profile", None)
        predictions = _predictions(methods, part.images, profile)
        seconds = (time.perf_counter() - begun) / len(part)
        for each, prediction in zip(rows, predictions, strict=True):
            metrics = measure(prediction, part.masks, plan.tolerance, profile, classes)
            each += _rows(part, in_draw, prediction, metrics, seconds)
    return rows


def _predictions(
    methods: Sequence[Method], images: Tensor, profile: Profile | None
) -> list[Prediction]:
    """Of each method: from one pass if there are several, or by the windows of the profile."""
    if profile is not None and profile.window is not None:
        how: Any = {"statistics": profile.statistics, "overlap": profile.overlap}
        return [windowed(one, profile.window, **how)(images) for one in methods]
    if shares(methods[0]):
        return run_shared(methods, images, members_at_once=AT_ONCE)
    return [methods[0](images)]


def _rows(
    part: Samples,
    in_draw: InDraw,
    prediction: Prediction,
    metrics: Sequence[Metrics],
    seconds: float,
) -> Iterator[dict[str, Any]]:
    images = zip(part.names, part.slices, metrics, trust(prediction), strict=True)
    for name, number, measured, trusted in images:
        where = {"image": name, "slice": number, "drawn": (name, number) in in_draw}
        yield {**where, **measured, **trusted, "seconds": seconds}


def trust(prediction: Prediction) -> list[dict[str, Any]]:
    """Trust scores and notes of every image."""
    record = prediction.record
    scores = {name: values for name, values in record.scores.items() if name in TRUST}
    return [
        {name: float(values[n]) for name, values in scores.items()} | {"notes": " ".join(notes)}
        for n, notes in enumerate(record.notes)
    ]


def _table(plan: Plan, cell: Cell, rows: Rows) -> pd.DataFrame:
    variant = cell.request.variant(plan.step)
    where = {**asdict(cell.model), "target": cell.target, **variant.columns}
    table = pd.DataFrame([{**where, **row} for row in rows], columns=list(COLUMNS))
    return table.assign(**{BY_CLASS: text_of(table)})
