"""A folder of results: which jobs are done, running and failed. Consistent at any moment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from sitta._util.files import atomic_write, remove_stale
from sitta._util.locks import is_locked, locked
from sitta.bench.plan.cells import Cell, Job
from sitta.bench.plan.schema import Model, Plan
from sitta.bench.stats import rows
from sitta.errors import InvalidSetting

FAILURES = "[!.]*.txt"  # no drafts


@dataclass(frozen=True)
class Results:
    """Where a benchmark keeps its results.

    ``models/`` holds the trained models in half precision, as they are evaluated and published;
    ``training/`` the runs that led to them; ``cells/`` a file for each cell.
    """

    folder: Path

    def open(self, plan: Plan, jobs: Sequence[Job]) -> None:
        """Make the folder this plan's; refuse one that holds results of another kind of plan."""
        if self.folder.is_file():
            raise InvalidSetting(f"{self.folder} is a file.", allowed="a folder, new or of before")
        kept = self.folder / "settings.json"
        fixed = json.loads(json.dumps(plan.fixed()))
        if kept.is_file():
            before = json.loads(kept.read_text())
            other = sorted(k for k in fixed if k in before and before[k] != fixed[k])
            if other:
                raise InvalidSetting(
                    f"{self.folder} holds results with other settings: {', '.join(other)}.",
                    allowed="; ".join(f"{k} = {before[k]}" for k in other),
                    fix="use the settings of before, or another folder",
                )
            fixed = {**before, **fixed}
        remove_stale(self.folder)
        listed = json.dumps([self._listed(job) for job in jobs])
        texts = {"settings.json": json.dumps(fixed, indent=2) + "\n", "work.json": listed + "\n"}
        for name, text in {**texts, "plan.toml": plan.text}.items():
            with atomic_write(self.folder / name) as draft:
                draft.write_text(text, encoding="utf-8")

    def status(self) -> pd.DataFrame:
        """How much of the last run is done, a row for each task, repeat and kind of job."""
        jobs = self.counts()
        jobs["running"] = [is_locked(self._lock(job)) for job in jobs["work"]]
        jobs["failed"] = [self._failure(job).exists() for job in jobs.pop("work")]
        return jobs.groupby(["task", "repeat", "kind"], sort=False, as_index=False).sum()

    def counts(self) -> pd.DataFrame:
        """How much of each job of the last run is done, without checking locks."""
        kept = self.folder / "work.json"
        if not kept.is_file():
            raise InvalidSetting(f"{self.folder} holds no benchmark.", allowed="the --out of a run")
        jobs = pd.DataFrame(json.loads(kept.read_text()))
        files = jobs.pop("files")
        jobs["done"] = [sum((self.folder / name).exists() for name in names) for names in files]
        jobs["of"] = [len(names) for names in files]
        return jobs

    def checkpoint(self, model: Model) -> Path:
        """A trained model."""
        return self.folder / "models" / f"{model}.safetensors"

    def training(self, model: Model) -> Path:
        """The run that trains it."""
        return self.folder / "training" / str(model)

    def cell(self, cell: Cell) -> Path:
        """The rows of a cell."""
        return self.folder / "cells" / f"{cell}.csv"

    def files(self, job: Job) -> list[Path]:
        """The files that a job writes."""
        return [self.cell(cell) for cell in job.cells] or [self.checkpoint(job.model)]

    def write(self, cell: Cell, table: pd.DataFrame) -> None:
        """Keep a cell; one that is there already stays."""
        path = self.cell(cell)
        if not path.exists():
            rows.write(table, path)

    def missing(self, job: Job) -> list[Cell]:
        """Cells that are still to be filled."""
        return [cell for cell in job.cells if not self.cell(cell).exists()]

    def done(self, job: Job) -> bool:
        """Whether a job is finished."""
        return all(path.exists() for path in self.files(job))

    def ready(self, job: Job) -> bool:
        """Whether it can begin."""
        return job.kind == "train" or job.model.given or self.checkpoint(job.model).exists()

    def claim(self, job: Job) -> AbstractContextManager[bool]:
        """Whether the job is ours for the block."""
        return locked(self._lock(job))

    def fail(self, job: Job, text: str) -> None:
        """Record that it could not be done, and why."""
        with atomic_write(self._failure(job)) as draft:
            draft.write_text(text, encoding="utf-8")

    def failed(self, job: Job) -> bool:
        """Whether that was recorded."""
        return self._failure(job).exists()

    def failures(self) -> dict[str, str]:
        """What could not be done, and why."""
        reasons = {}
        for file in sorted((self.folder / "failed").glob(FAILURES)):
            with suppress(FileNotFoundError):  # another run has just forgiven it
                reasons[file.stem] = file.read_text(encoding="utf-8")
        return reasons

    def forgive(self) -> None:
        """Forget failures, to try once more."""
        for file in (self.folder / "failed").glob(FAILURES):
            file.unlink(missing_ok=True)

    def _listed(self, job: Job) -> dict[str, Any]:
        """A job for ``work.json``."""
        keys = {"task": job.model.task, "repeat": job.model.repeat, "kind": job.kind}
        files = [path.relative_to(self.folder).as_posix() for path in self.files(job)]
        return {"work": str(job), **keys, "files": files}

    def _failure(self, job: Job | str) -> Path:
        return self.folder / "failed" / f"{job}.txt"

    def _lock(self, job: Job | str) -> Path:
        return self.folder / "locks" / f"{job}.lock"


def unfinished(path: Path) -> str:
    """What the last run has yet to do, in one sentence; empty if all is done, or for rows alone."""
    if not (path / "work.json").is_file():
        return ""
    counts = Results(path).counts()
    cells = counts[counts["kind"] != "train"].groupby(["task", "kind"], sort=False)
    sums = cells[["done", "of"]].sum()
    left = sums[sums["done"] < sums["of"]]
    parts = [f"{task} {kind} {row.done} of {row.of}" for (task, kind), row in left.iterrows()]
    return f"The run is not finished: {', '.join(parts)} cells are there." if parts else ""
