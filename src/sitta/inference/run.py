"""A prediction run: every input, resumed where it was stopped, with a summary and a report."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sitta._util.files import remove_stale
from sitta._version import __version__
from sitta.errors import DiskFull
from sitta.inference.inputs import InputFile, find_inputs
from sitta.inference.outputs import RECORDS, written_bytes
from sitta.inference.overwriting import require_no_input_replaced, require_same_inputs
from sitta.inference.request import Request
from sitta.inference.title import titled
from sitta.inference.worker import Attempt, Record, Worker, attempts

Find = Callable[[Sequence[str | Path], Path], Sequence[InputFile]]
REPORTED = 1000  # files in the report at most, those in most doubt first: about 12 kB each


@dataclass
class Run:
    """The result of a run; records without their pictures."""

    records: list[Record] = field(default_factory=list)  # one per file, in the order of the files
    failures: list[dict[str, str]] = field(default_factory=list)  # name and error of each
    skipped: int = 0  # how many were done before
    seconds: float = 0.0  # how long it took
    warnings: list[str] = field(default_factory=list)  # what may be wrong with the way of feeding

    @property
    def counts(self) -> dict[str, int]:
        """Files that were done now, before, and not at all."""
        done = len(self.records) - self.skipped
        return {"done": done, "skipped": self.skipped, "failed": len(self.failures)}

    def doubtful(self, most: int) -> list[Record]:
        """The records in most doubt, worst first."""
        return sorted(self.records, key=lambda r: (-r["doubt"], r["name"]))[:most]

    def add(self, attempt: Attempt) -> None:
        """Count a file."""
        file, record, error = attempt
        if record is None:
            self.failures.append({"name": file.name, "error": error})
            return
        self.skipped += bool(record.pop("before"))
        self.records.append(record)


def predict(
    request: Request,
    inputs: Sequence[str | Path],  # files, folders and patterns
    out: str | Path,
    *,
    overwrite: bool = False,  # predict again what is done
    watch: Callable[[int, int], None] = lambda done, total: None,  # is told how many are done
    threads: int | None = None,  # all cores if None; on a cluster, each process has one
    cluster: str | None = None,  # address of a Ray cluster, or ``local`` to start one here
    workers: int | None = None,  # processes on the cluster; one for each of its cores if None
    find: Find = find_inputs,  # the inputs that are named, each with the name of its output
    worker_of: Callable[..., Worker] = Worker,  # what predicts them; see ``Worker``
) -> Run:
    """Predict every input and write masks, ``summary.csv``, ``run.json`` and ``report.html``."""
    start, started = time.perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")
    folder = Path(out)
    files = find(inputs, folder)
    require_no_input_replaced(files, folder)
    if not overwrite:
        require_same_inputs(files, folder)
    worker = worker_of(request, folder, overwrite, threads)  # first: a wrong model ends it here
    run = Run()
    (folder / RECORDS).mkdir(parents=True, exist_ok=True)  # by which the folder is known later
    remove_stale(folder)
    watch(0, len(files))
    if cluster is None:
        results = attempts(worker, files)
    else:
        from sitta.inference.cluster import spread

        results = spread(worker, files, cluster, workers)
    try:
        for number, attempt in enumerate(results, start=1):
            run.add(attempt)
            watch(number, len(files))
    except DiskFull as error:
        error.fix = _room_wanted(run, folder, len(files))
        raise
    run.warnings = worker.warnings or []
    run.records.sort(key=lambda r: str(r["name"]))
    run.failures.sort(key=lambda f: f["name"])
    run.seconds = round(time.perf_counter() - start, 3)
    _conclude(run, worker, started)
    return run


def _room_wanted(run: Run, folder: Path, files: int) -> str:
    """How to go on after the disk was full, with an estimate of what is still to be written."""
    done = len(run.records)
    left = files - done - len(run.failures)
    room = sum(written_bytes(folder, record) for record in run.records) * left // max(done, 1)
    about = f"make room (about {room:,} bytes for the files left)" if room else "make room"
    return f"{about}; {done} of {files} files are done, and the same command does the others"


def _title(run: Run, classes: tuple[str, ...], model: str, method: str) -> str:
    """Such as: Lungs in 30 films, chest-mcu, Adapt."""
    most = f": the {REPORTED} in most doubt" if len(run.records) > REPORTED else ""
    name = model if ":" in model else Path(model).name
    slices = [record["slices"] for record in run.records]
    return titled(classes, slices, [name], [method]) + most


def _conclude(run: Run, worker: Worker, started: str) -> None:
    """``summary.csv``, ``run.json`` and ``report.html``."""
    request, loaded, outputs = worker.request, worker.loaded, worker.outputs
    about: dict[str, Any] = {
        "title": _title(run, loaded.classes, loaded.name, str(request.method)),
        "model": request.model,
        "model_hash": loaded.digest,
        "method": request.method,
        "settings": {**loaded.settings, **request.settings},
        "preprocess": loaded.preprocess.as_dict(),
        "profile": loaded.profile.reading,
        "licence": loaded.profile.licence,
        "citation": loaded.profile.citation,
        "warnings": run.warnings,
        "saved": list(request.save),
        "seed": request.settings.get("seed"),
        "started": started,
        "seconds": run.seconds,
        "counts": run.counts,
        "failures": run.failures,
        "versions": {"sitta": __version__, **loaded.runtime, "python": platform.python_version()},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "device": request.device,
    }
    outputs.summary(run.records)
    outputs.sources(run.records)
    outputs.report(about, run.doubtful(REPORTED))
