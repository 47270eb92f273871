"""A folder of results: what is done, who is at work, what failed. Whole at any moment."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pandas as pd

from sitta.benchmark import rows
from sitta.benchmark.cells import Cell, Model, Work
from sitta.benchmark.plan import Plan
from sitta.errors import InvalidSetting
from sitta.storage import finished, sweep


@dataclass(frozen=True)
class Results:
    """Where a benchmark keeps what it has.

    ``models/`` holds the trained models in half precision, as they are evaluated and published;
    ``training/`` the runs that led to them; ``cells/`` a file for each cell.

    Attributes:
        folder: The folder.
    """

    folder: Path

    def open(self, plan: Plan, works: Sequence[Work]) -> None:
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
        sweep(self.folder)
        with finished(kept) as draft:
            draft.write_text(json.dumps(fixed, indent=2) + "\n")
        with finished(self.folder / "plan.toml") as draft:
            draft.write_text(plan.text)
        with finished(self.folder / "work.json") as draft:
            draft.write_text(json.dumps([_listed(work) for work in works]) + "\n")

    def status(self) -> pd.DataFrame:
        """What is done of what the last run was to do: a row for each task, repeat and kind.

        That is all of the plan, or the repeats and tasks that it was given.
        """
        kept = self.folder / "work.json"
        if not kept.is_file():
            raise InvalidSetting(f"{self.folder} holds no benchmark.", allowed="the --out of a run")
        counted = [self._count(work) for work in json.loads(kept.read_text())]
        by = ["task", "repeat", "kind"]
        return pd.DataFrame(counted).groupby(by, sort=False, as_index=False).sum()

    def _count(self, work: dict[str, Any]) -> dict[str, Any]:
        files = [self.folder / name for name in work["files"]]
        held = _is_held(self.folder / "locks" / f"{work['work']}.lock")
        known = {name: work[name] for name in ("task", "repeat", "kind")}
        done = sum(file.exists() for file in files)
        failed = (self.folder / "failed" / f"{work['work']}.txt").exists()
        return {**known, "done": done, "of": len(files), "running": held, "failed": failed}

    def checkpoint(self, model: Model) -> Path:
        """A trained model."""
        return self.folder / "models" / f"{model}.safetensors"

    def training(self, model: Model) -> Path:
        """The run that trains it."""
        return self.folder / "training" / str(model)

    def cell(self, cell: Cell) -> Path:
        """The rows of a cell."""
        return self.folder / "cells" / f"{cell}.csv"

    def write(self, cell: Cell, found: pd.DataFrame) -> None:
        """Keep a cell; one that is there already stays."""
        path = self.cell(cell)
        if not path.exists():
            rows.write(found, path)

    def missing(self, work: Work) -> list[Cell]:
        """Cells that are still to be filled."""
        return [cell for cell in work.cells if not self.cell(cell).exists()]

    def done(self, work: Work) -> bool:
        """Whether nothing is left of it."""
        if work.kind == "train":
            return self.checkpoint(work.model).exists()
        return not self.missing(work)

    def ready(self, work: Work) -> bool:
        """Whether it can begin."""
        return work.kind == "train" or self.checkpoint(work.model).exists()

    @contextmanager
    def claim(self, work: Work) -> Iterator[bool]:
        """Whether the work is ours now. The system frees it when the process ends, however."""
        path = self.folder / "locks" / f"{work}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a") as file:
            yield _lock(file)

    def fail(self, work: Work, text: str) -> None:
        """Note that it could not be done, and why."""
        with finished(self.folder / "failed" / f"{work}.txt") as draft:
            draft.write_text(text)

    def failures(self) -> dict[str, str]:
        """What could not be done, and why."""
        files = sorted((self.folder / "failed").glob("[!.]*.txt"))
        return {file.stem: file.read_text() for file in files}

    def forgive(self) -> None:
        """Forget failures, to try once more."""
        for file in (self.folder / "failed").glob("[!.]*.txt"):
            file.unlink(missing_ok=True)


def unfinished(path: Path) -> str:
    """What the last run has yet to do, in one sentence; nothing if all is done or nobody can tell.

    Args:
        path: Folder of a run, or a table of rows, which does not say.
    """
    if not (path / "work.json").is_file():
        return ""
    status = Results(path).status()
    counts = status[status["kind"] != "train"].groupby(["task", "kind"], sort=False)
    sums = counts[["done", "of"]].sum()
    left = sums[sums["done"] < sums["of"]]
    parts = [f"{task} {kind} {row.done} of {row.of}" for (task, kind), row in left.iterrows()]
    return f"The run is not finished: {', '.join(parts)} cells are there." if parts else ""


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_held(path: Path) -> bool:
    """Whether a process of this machine is at a piece of work."""
    if not path.exists():
        return False
    with open(path, "a") as file:
        return not _lock(file)


def _listed(work: Work) -> dict[str, Any]:
    """A piece of work for ``work.json``, with the files that it leaves."""
    files = [f"cells/{cell}.csv" for cell in work.cells] or [f"models/{work.model}.safetensors"]
    known = {"task": work.model.task, "repeat": work.model.repeat, "kind": work.kind}
    return {"work": str(work), **known, "files": files}
