"""A folder of results: what is done, who is at work, what failed. Whole at any moment."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
        counted = [{**self._count(work), **self._signs(work["work"])} for work in self._asked()]
        by = ["task", "repeat", "kind"]
        return pd.DataFrame(counted).groupby(by, sort=False, as_index=False).sum()

    def counts(self) -> pd.DataFrame:
        """How much of each piece of work is done, a row each; asks nobody whether he is at it."""
        return pd.DataFrame([self._count(work) for work in self._asked()])

    def _asked(self) -> list[dict[str, Any]]:
        """What the last run was to do."""
        kept = self.folder / "work.json"
        if not kept.is_file():
            raise InvalidSetting(f"{self.folder} holds no benchmark.", allowed="the --out of a run")
        asked: list[dict[str, Any]] = json.loads(kept.read_text())
        return asked

    def _count(self, work: dict[str, Any]) -> dict[str, Any]:
        known = {name: work[name] for name in ("task", "repeat", "kind")}
        done = sum((self.folder / name).exists() for name in work["files"])
        return {**known, "done": done, "of": len(work["files"])}

    def _signs(self, work: str) -> dict[str, bool]:
        held = _is_held(self.folder / "locks" / f"{work}.lock")
        return {"running": held, "failed": self._failure(work).exists()}

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
            yield _lock(file, fcntl.LOCK_EX)

    def fail(self, work: Work, text: str) -> None:
        """Note that it could not be done, and why."""
        with finished(self._failure(work)) as draft:
            draft.write_text(text)

    def failed(self, work: Work) -> bool:
        """Whether that was noted."""
        return self._failure(work).exists()

    def failures(self) -> dict[str, str]:
        """What could not be done, and why."""
        found = {}
        for file in sorted((self.folder / "failed").glob("[!.]*.txt")):
            with suppress(FileNotFoundError):  # another run has just forgiven it
                found[file.stem] = file.read_text()
        return found

    def forgive(self) -> None:
        """Forget failures, to try once more."""
        for file in (self.folder / "failed").glob("[!.]*.txt"):
            file.unlink(missing_ok=True)

    def _failure(self, work: Work | str) -> Path:
        return self.folder / "failed" / f"{work}.txt"


def unfinished(path: Path) -> str:
    """What the last run has yet to do, in one sentence; nothing if all is done or nobody can tell.

    Args:
        path: Folder of a run, or a table of rows, which does not say.
    """
    if not (path / "work.json").is_file():
        return ""
    counts = Results(path).counts()
    cells = counts[counts["kind"] != "train"].groupby(["task", "kind"], sort=False)
    sums = cells[["done", "of"]].sum()
    left = sums[sums["done"] < sums["of"]]
    parts = [f"{task} {kind} {row.done} of {row.of}" for (task, kind), row in left.iterrows()]
    return f"The run is not finished: {', '.join(parts)} cells are there." if parts else ""


def _lock(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_held(path: Path) -> bool:
    """Whether a process of this machine is at a piece of work; no, if that cannot be told."""
    try:
        with open(path) as file:  # who only looks may not be allowed to write here
            return not _lock(file, fcntl.LOCK_SH)
    except OSError:
        return False


def _listed(work: Work) -> dict[str, Any]:
    """A piece of work for ``work.json``, with the files that it leaves."""
    files = [f"cells/{cell}.csv" for cell in work.cells] or [f"models/{work.model}.safetensors"]
    known = {"task": work.model.task, "repeat": work.model.repeat, "kind": work.kind}
    return {"work": str(work), **known, "files": files}
