"""A prediction run: goes on past what is broken and after what is done, and sums up."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sitta._version import __version__
from sitta.errors import SittaError
from sitta.runs.graph import Graph
from sitta.runs.inputs import Item, find_inputs
from sitta.runs.loading import Loaded, load_model
from sitta.runs.one import Adapt, predict_file
from sitta.runs.outputs import Outputs
from sitta.runs.plan import Plan
from sitta.storage import sweep

REPORTED = 1000  # files in the report at most: those in most doubt, some 12 kB each


Result = tuple[Item, dict[str, Any] | None, str]  # what was asked, its record, or what went wrong


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

    def __call__(self, item: Item) -> tuple[dict[str, Any], bool]:
        """The record of a file, and whether it was done before."""
        key = {"input": item.digest(), "settings": self.settings}
        known = None if self.overwrite else self.outputs.done(item, key)
        if known is not None:
            return known, True
        save = frozenset(self.plan.save)
        done = predict_file(item, self.adapt, self.loaded.preprocess, save, self.plan.at_once)
        return self.outputs.write(item, done, key), False


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
) -> Run:
    """Predict every input and write masks, ``summary.csv``, ``run.json`` and ``report.html``.

    Args:
        plan: What to do.
        inputs: Files, folders and patterns.
        out: Folder for everything.
        overwrite: Do again what is done.
        watch: Is told how many files are done, and of how many.
        cluster: Address of a Ray cluster, or ``local`` to start one here.
    """
    start, started = time.perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")
    folder = Path(out)
    items = find_inputs(inputs, folder)
    worker = Worker(plan, folder, overwrite)  # before anything else: a wrong model ends it here
    run = Run()
    sweep(folder)
    watch(0, len(items))
    for number, (item, record, error) in enumerate(_results(worker, items, cluster), start=1):
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


def _results(worker: Worker, items: Sequence[Item], cluster: str | None) -> Iterator[Result]:
    if cluster is None:
        return (attempt(worker, item) for item in items)
    from sitta.runs.cluster import spread

    return spread(worker, items, cluster)


def attempt(worker: Worker, item: Item) -> Result:
    """One file; whatever goes wrong becomes a sentence."""
    try:
        record, before = worker(item)
    except SittaError as error:
        return item, None, str(error)
    except OSError as error:
        return item, None, f"{error.strerror or error}: {error.filename or item.path}"
    except Exception as error:
        return item, None, f"{item.path}: {type(error).__name__}: {' '.join(str(error).split())}"
    return item, {**record, "before": before}, ""


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
