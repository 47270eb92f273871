"""The files of a training run: its state, log and curve. Each is written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from sitta._util.files import atomic_write, remove_stale
from sitta.errors import InvalidSetting

STATE = ("settings", "fit")


@dataclass(frozen=True)
class Epoch:
    """Scores of one epoch: losses on training images, Dice on the held-out ones."""

    epoch: int
    loss: float
    bce: float
    dice_loss: float
    validation_dice: float
    rate: float
    seconds: float


@dataclass(frozen=True)
class RunFolder:
    """The files of a run in one folder."""

    folder: Path
    name: str  # of the checkpoint

    @property
    def checkpoint(self) -> Path:
        """The best weights so far, with their card."""
        return self.folder / f"{self.name}.safetensors"

    @property
    def journal(self) -> Path:
        """What the calibration has looked at so far."""
        return self.folder / f"{self.name}.calibration.partial"

    @property
    def state(self) -> Path:
        """The state to continue from."""
        return self.folder / "state.pt"

    def open(self, *, resume: bool, overwrite: bool) -> Any | None:
        """The state to continue from, or None at the start of a run; refuses a folder in use."""
        with atomic_write(self.folder / ".probe") as draft:  # fail now, not after an hour
            draft.write_text("")
        (self.folder / ".probe").unlink()
        remove_stale(self.folder)
        used = self.state.exists() or self.checkpoint.exists()
        if used and not (resume or overwrite):
            raise InvalidSetting(
                f"{self.folder} holds a run already.",
                fix="use --resume to continue it, --overwrite to start again, or another --out",
            )
        if overwrite:
            self.state.unlink(missing_ok=True)
        if not self.state.exists():
            return None
        try:
            state = torch.load(self.state, weights_only=True)
        except Exception as error:
            raise self._damaged(type(error).__name__) from error
        parts = [state.get(name) for name in STATE] if isinstance(state, dict) else [None]
        if not all(isinstance(part, dict) for part in parts):
            raise self._damaged(f"no {' and '.join(STATE)}")
        return state

    def _damaged(self, why: str) -> InvalidSetting:
        return InvalidSetting(
            f"{self.state} is not the state of a run ({why}).", fix="use --overwrite to start again"
        )

    def check(self, state: Any, settings: Mapping[str, Any]) -> None:
        """Refuse to continue a run that had other settings or other data."""
        before = state["settings"]
        changed = [k for k in settings if settings[k] != before.get(k)]
        if changed:
            pairs = [(k, before.get(k), settings[k]) for k in changed]
            raise InvalidSetting(
                f"The run in {self.folder} had other settings: {', '.join(changed)}.",
                allowed="; ".join(f"{k}={_difference(old, new)}" for k, old, new in pairs),
                got="; ".join(f"{k}={_difference(new, old)}" for k, old, new in pairs),
                fix="give the same settings and data, or another --out",
            )

    def save(self, state: Mapping[str, Any]) -> None:
        """Write the state of the run."""
        content = io.BytesIO()  # a writer of torch does not say that a disk is full
        torch.save(dict(state), content)
        with atomic_write(self.state, content.tell()) as draft:
            draft.write_bytes(content.getbuffer())

    def log(self, history: Sequence[Epoch]) -> None:
        """Write the scores of every epoch to ``log.csv`` and plot them in ``curve.png``."""
        with atomic_write(self.folder / "log.csv") as draft, open(draft, "w", newline="") as file:
            table = csv.DictWriter(file, [f.name for f in fields(Epoch)])
            table.writeheader()
            table.writerows(asdict(row) for row in history)
        with atomic_write(self.folder / "curve.png") as draft:
            _curve(history).savefig(draft, dpi=120)

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a small JSON file."""
        with atomic_write(self.folder / name) as draft:
            draft.write_text(json.dumps(content, indent=2) + "\n")


def _difference(mine: Any, other: Any) -> Any:
    """The values of a dict that another one does not have."""
    if isinstance(mine, dict) and isinstance(other, dict):
        return {k: v for k, v in mine.items() if v != other.get(k)}
    return mine


def _curve(history: Sequence[Epoch]) -> Figure:
    """Losses on the left axis, validation Dice on the right one, over epochs."""
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    left = figure.subplots()
    right = left.twinx()
    epochs = [row.epoch for row in history]
    left.plot(epochs, [row.bce for row in history], color="C0", lw=1, label="cross-entropy")
    left.plot(epochs, [row.dice_loss for row in history], color="C2", lw=1, label="Dice loss")
    dice = [row.validation_dice for row in history]
    right.plot(epochs, dice, color="C3", lw=2, label="validation Dice")
    best = max(history, key=lambda row: row.validation_dice)
    x, y = best.epoch, best.validation_dice
    right.plot(x, y, "o", color="C3")
    label = f"{y:.4f} at epoch {x}"
    right.annotate(label, (x, y), (0, -14), textcoords="offset points", ha="right", color="C3")
    left.set(xlabel="epoch", ylabel="training loss", ylim=(0, None))
    right.set(ylabel="validation Dice", ylim=(0, 1))
    lines = [*left.get_lines(), right.get_lines()[0]]
    left.legend(lines, [str(line.get_label()) for line in lines], loc="center right")
    return figure
