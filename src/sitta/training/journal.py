"""What a run leaves on disk: where it is, its log, its curve. Each is whole at any moment."""

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

from sitta.errors import InvalidSetting
from sitta.storage import finished, sweep


@dataclass(frozen=True)
class Epoch:
    """Figures of one epoch: losses on training images, Dice on the held-out ones."""

    epoch: int
    loss: float
    bce: float
    dice_loss: float
    validation_dice: float
    rate: float
    seconds: float


@dataclass(frozen=True)
class Journal:
    """The files of a run in one folder.

    Attributes:
        folder: Where they are.
        name: Of the checkpoint.
    """

    folder: Path
    name: str

    @property
    def checkpoint(self) -> Path:
        """The best weights so far, with all that is needed to use them."""
        return self.folder / f"{self.name}.safetensors"

    @property
    def state(self) -> Path:
        """Where the run is, to go on from there."""
        return self.folder / "state.pt"

    def open(self, *, resume: bool, overwrite: bool) -> Any | None:
        """The state to go on from, or None at the start of a run.

        Raises:
            InvalidSetting: There is a run already, and it is not said what to do with it.
            OSError: The folder cannot be written.
        """
        with finished(self.folder / ".probe") as draft:  # now, and not after an hour
            draft.write_text("")
        (self.folder / ".probe").unlink()
        sweep(self.folder)
        there = self.state.exists() or self.checkpoint.exists()
        if there and not (resume or overwrite):
            raise InvalidSetting(
                f"{self.folder} holds a run already.",
                fix="say --resume to go on with it, --overwrite to begin anew, or another --out",
            )
        if overwrite:
            self.state.unlink(missing_ok=True)
        return self._load() if self.state.exists() else None

    def check(self, state: Any, settings: Mapping[str, Any]) -> None:
        """Refuse to go on with a run that had other settings or other data."""
        before = state["settings"]
        changed = [k for k in settings if settings[k] != before.get(k)]
        if changed:
            raise InvalidSetting(
                f"The run in {self.folder} had other settings: {', '.join(changed)}.",
                allowed="; ".join(
                    f"{k}={_difference(before.get(k), settings[k])}" for k in changed
                ),
                got="; ".join(f"{k}={_difference(settings[k], before.get(k))}" for k in changed),
                fix="give the same settings and data, or another --out",
            )

    def _load(self) -> Any:
        try:
            return torch.load(self.state, weights_only=True)
        except Exception as error:
            raise InvalidSetting(
                f"{self.state} is not the state of a run ({type(error).__name__}).",
                fix="say --overwrite to begin anew",
            ) from error

    def save(self, state: Mapping[str, Any]) -> None:
        """Write where the run is."""
        with finished(self.state) as draft:
            torch.save(dict(state), draft)

    def log(self, history: Sequence[Epoch]) -> None:
        """Write every epoch's figures to ``log.csv`` and draw them in ``curve.png``."""
        text = io.StringIO()
        table = csv.DictWriter(text, [f.name for f in fields(Epoch)])
        table.writeheader()
        table.writerows(asdict(row) for row in history)
        with finished(self.folder / "log.csv") as draft:
            draft.write_text(text.getvalue())
        with finished(self.folder / "curve.png") as draft:
            _curve(history).savefig(draft, dpi=120)

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a small JSON file."""
        with finished(self.folder / name) as draft:
            draft.write_text(json.dumps(content, indent=2) + "\n")


def _difference(mine: Any, other: Any) -> Any:
    """Of two sets of values, those that differ."""
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
    best = max(range(len(dice)), key=dice.__getitem__)
    right.plot(epochs[best], dice[best], "o", color="C3")
    right.annotate(
        f"{dice[best]:.4f} at epoch {epochs[best]}",
        (epochs[best], dice[best]),
        xytext=(0, -14),
        textcoords="offset points",
        ha="right",
        color="C3",
    )
    left.set(xlabel="epoch", ylabel="training loss", ylim=(0, None))
    right.set(ylabel="validation Dice", ylim=(0, 1))
    lines = [*left.get_lines(), right.get_lines()[0]]
    left.legend(lines, [str(line.get_label()) for line in lines], loc="center right")
    return figure
