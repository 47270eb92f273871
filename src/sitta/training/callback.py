"""The progress of a run, for people or programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sitta.training.run_folder import Epoch


class Callback:
    """Receives the progress of a run and ignores it; subclasses show it."""

    def say(self, text: str) -> None:
        """A message for people."""

    def files(self, done: Iterable[Any], count: int) -> Iterable[Any]:
        """Files as they are decoded."""
        return done

    def begin(self, epochs: int, steps: int, done: int) -> None:
        """Epochs of so many steps start, or continue after ``done`` epochs."""

    def step(self, loss: float) -> None:
        """A step is done."""

    def epoch(self, row: Epoch, better: bool) -> None:
        """An epoch is done, and its validation Dice is the best so far, or not."""

    def calibrating(self, done: int, total: int) -> None:
        """So many images of all are done, after the last epoch."""

    def end(self) -> None:
        """The last epoch is done."""
