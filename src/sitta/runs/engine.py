"""A prediction run: goes on past what is broken and after what is done, and sums up."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sitta._version import __version__
from sitta.errors import SittaError
from sitta.runs.answer import Answer
from sitta.runs.graph import Graph
from sitta.runs.inputs import Item, find_inputs
from sitta.runs.loading import Loaded, load_model
from sitta.runs.one import Adapt, Done, Opened, conclude, open_file, predict_file, predict_opened
from sitta.runs.outputs import Outputs
from sitta.runs.plan import Plan
from sitta.storage import sweep

ON_GPU = 8  # files in one pass on a GPU, which six members of one small image do not fill
REPORTED = 1000  # files in the report at most: those in most doubt, some 12 kB each


Record = dict[str, Any]
Result = tuple[Item, Record | None, str]  # what was asked, its record, or what went wrong


@dataclass(frozen=True)
class Waiting:
    """A file that waits for others of its size.

    Attributes:
        opened: The file, ready for the model.
        key: What its record is kept under.
    """

    opened: Opened
    key: dict[str, str]


class Worker:
    """Holds a model and predicts one file after the other.

    Args:
        plan: What to do.
        out: Where to write.
        overwrite: Do again what is done.
        threads: How many to use; as usual if None.
    """

    def __init__(
        self, plan: Plan, out: Path, overwrite: bool = False, threads: int | None = None
    ) -> None:
        self.plan, self.overwrite = plan, overwrite
        self.loaded = load_model(plan.model, plan.weights, plan.preprocess, threads)
        self.adapt = _adapter(self.loaded, plan, threads)
        self.outputs = Outputs(out, self.loaded.classes)
        self.settings = fingerprint(plan, self.loaded)
        self.save = frozenset(plan.save)
        self.batch = plan.batch or _usual_batch(self.loaded, plan)

    def __call__(self, item: Item) -> Record:
        """The record of a file, and in it whether it was done before."""
        key, known = self.before(item)
        if known is not None:
            return known
        pre = self.loaded.preprocess
        done = predict_file(item, self.adapt, pre, self.save, self.plan.at_once)
        return self._kept(item, done, key)

    def before(self, item: Item) -> tuple[dict[str, str], Record | None]:
        """What tells whether a file has changed; and its record, if it is done already."""
        key = {"input": item.digest(), "settings": self.settings}
        known = None if self.overwrite else self.outputs.done(item, key)
        return key, None if known is None else {**known, "before": True}

    def open(self, item: Item) -> Record | Waiting:
        """The record of a file that was done before; else the file, ready for the model."""
        key, known = self.before(item)
        return known or Waiting(open_file(item, self.loaded.preprocess), key)

    def alone(self, one: Waiting) -> Record:
        """The record of a file that is open."""
        done = predict_opened(one.opened, self.adapt, self.save, self.plan.at_once)
        return self._kept(one.opened.item, done, one.key)

    def together(self, group: Sequence[Waiting]) -> Iterator[Callable[[], Record]]:
        """One pass over images of equal size, and for each what makes its record."""
        start = time.perf_counter()
        answer = self.adapt(np.concatenate([one.opened.values for one in group]))
        share = (time.perf_counter() - start) / len(group)
        for one, said in zip(group, answer, strict=True):
            yield partial(self._concluded, one, said, share)

    def _concluded(self, one: Waiting, said: Answer, seconds: float) -> Record:
        done = conclude(one.opened, [said], self.save, seconds)
        return self._kept(one.opened.item, done, one.key)

    def _kept(self, item: Item, done: Done, key: dict[str, str]) -> Record:
        return {**self.outputs.write(item, done, key), "before": False}


def _usual_batch(loaded: Loaded, plan: Plan) -> int:
    if isinstance(loaded.model, Graph):
        return 1
    from sitta.devices import pick_device

    return ON_GPU if pick_device(plan.device).type == "cuda" else 1


def _adapter(loaded: Loaded, plan: Plan, threads: int | None) -> Adapt:
    """What answers for images; torch is imported for a network only."""
    if isinstance(loaded.model, Graph):
        loaded.model.require(plan)
        return loaded.model
    from sitta.runs.network import adapter

    return adapter(loaded.model, plan, threads)


def fingerprint(plan: Plan, loaded: Loaded) -> str:
    """Changes with anything that changes a result."""
    told: list[Any] = [loaded.digest, plan.method, sorted(plan.settings.items()), sorted(plan.save)]
    told += [plan.window, plan.statistics]
    told += [loaded.preprocess.as_dict(), __version__]
    return hashlib.sha256(json.dumps(told, default=str).encode()).hexdigest()


@dataclass
class Run:
    """What a run came to; records without their pictures.

    Attributes:
        records: One a file, in the order of the files.
        failures: Name and sentence of each file that failed.
        skipped: How many were done before.
        seconds: How long it took.
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, str]] = field(default_factory=list)
    skipped: int = 0
    seconds: float = 0.0

    @property
    def counts(self) -> dict[str, int]:
        """Files that were done now, before, and not at all."""
        done = len(self.records) - self.skipped
        return {"done": done, "skipped": self.skipped, "failed": len(self.failures)}

    def doubtful(self, most: int) -> list[dict[str, Any]]:
        """The records in most doubt, worst first."""
        return sorted(self.records, key=lambda r: (-r["doubt"], r["name"]))[:most]


def predict(
    plan: Plan,
    inputs: Sequence[str | Path],
    out: str | Path,
    *,
    overwrite: bool = False,
    watch: Callable[[int, int], None] = lambda done, total: None,
    cluster: str | None = None,
    workers: int | None = None,
) -> Run:
    """Predict every input and write masks, ``summary.csv``, ``run.json`` and ``report.html``.

    Args:
        plan: What to do.
        inputs: Files, folders and patterns.
        out: Folder for everything.
        overwrite: Do again what is done.
        watch: Is told how many files are done, and of how many.
        cluster: Address of a Ray cluster, or ``local`` to start one here.
        workers: Processes on the cluster; one for each of its cores if None.
    """
    start, started = time.perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")
    folder = Path(out)
    items = find_inputs(inputs, folder)
    worker = Worker(plan, folder, overwrite)  # before anything else: a wrong model ends it here
    run = Run()
    sweep(folder)
    watch(0, len(items))
    results = _results(worker, items, cluster, workers)
    for number, (item, record, error) in enumerate(results, start=1):
        if record is None:
            run.failures.append({"name": item.name, "error": error})
        else:
            run.skipped += bool(record.pop("before"))
            record.pop("picture", None)
            run.records.append(record)
        watch(number, len(items))
    run.records.sort(key=lambda r: str(r["name"]))
    run.failures.sort(key=lambda f: f["name"])
    run.seconds = round(time.perf_counter() - start, 3)
    _conclude(run, worker, folder, started)
    return run


def _results(
    worker: Worker, items: Sequence[Item], cluster: str | None, workers: int | None
) -> Iterator[Result]:
    if cluster is None:
        return attempts(worker, items)
    from sitta.runs.cluster import spread

    return spread(worker, items, cluster, workers)


def attempts(worker: Worker, items: Iterable[Item]) -> Iterator[Result]:
    """All files; neighbours of equal size, as many as the worker takes at once, in one pass."""
    group: list[Waiting] = []
    for item in items:
        if worker.batch == 1:
            yield attempt(item, partial(worker, item))
            continue
        found: list[Waiting] = []
        opened = attempt(item, partial(_open, worker, item, found))
        if not found:
            yield opened
            continue
        if group and not found[0].opened.goes_with(group[0].opened):
            yield from _grouped(worker, group)
            group = []
        group += found
        if len(group) == worker.batch:
            yield from _grouped(worker, group)
            group = []
    yield from _grouped(worker, group)


def _open(worker: Worker, item: Item, found: list[Waiting]) -> Record:
    """The record of a file that was done before; one that was not goes to ``found``."""
    opened = worker.open(item)
    if isinstance(opened, Waiting):
        found.append(opened)
        return {}
    return opened


def _grouped(worker: Worker, group: Sequence[Waiting]) -> Iterator[Result]:
    """Images in one pass. If that fails, each by itself, so that only what is broken is lost."""
    makers: list[Callable[[], Record]] = []
    if len(group) > 1:
        with suppress(Exception):
            makers = list(worker.together(group))
    if not makers:
        makers = [partial(worker.alone, one) for one in group]
    for one, make in zip(group, makers, strict=True):
        yield attempt(one.opened.item, make)


def attempt(item: Item, make: Callable[[], Record]) -> Result:
    """One file; whatever goes wrong becomes a sentence."""
    try:
        return item, make(), ""
    except SittaError as error:
        return item, None, str(error)
    except OSError as error:
        return item, None, f"{error.strerror or error}: {error.filename or item.path}"
    except Exception as error:
        return item, None, f"{item.path}: {type(error).__name__}: {' '.join(str(error).split())}"


def _conclude(run: Run, worker: Worker, folder: Path, started: str) -> None:
    """Everything that sums up the run."""
    plan, loaded, outputs = worker.plan, worker.loaded, worker.outputs
    about = {
        "title": _title(plan, len(run.records)),
        "model": plan.model,
        "model_hash": loaded.digest,
        "method": plan.method,
        "settings": {**loaded.settings, **plan.settings},
        "preprocess": loaded.preprocess.as_dict(),
        "saved": list(plan.save),
        "seed": plan.settings.get("seed"),
        "started": started,
        "seconds": run.seconds,
        "counts": run.counts,
        "failures": run.failures,
        "versions": {
            "sitta": __version__,
            **loaded.runtime,
            "python": platform.python_version(),
        },
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "device": plan.device,
    }
    outputs.summary(run.records)
    outputs.manifest(about)
    outputs.report(about, [outputs.full(record) for record in run.doubtful(REPORTED)])


def _title(plan: Plan, files: int) -> str:
    unit = "file" if files == 1 else "files"
    if files <= REPORTED:
        return f"{plan.method} on {files} {unit}"
    return f"{plan.method} on {files} {unit}: the {REPORTED} in most doubt"
