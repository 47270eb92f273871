"""Who is told how a run goes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sitta.training.journal import Epoch


class Watch:
    """Is told of everything and says nothing; subclasses show it to people."""

    def say(self, text: str) -> None:
        """Something worth knowing, in words."""

    def files(self, done: Iterable[Any], count: int) -> Iterable[Any]:
        """Files as they are decoded."""
        return done

    def begin(self, epochs: int, steps: int, done: int) -> None:
        """Epochs of so many steps start, or go on after some."""

    def step(self, loss: float) -> None:
        """A step is done."""

    def epoch(self, row: Epoch, better: bool) -> None:
        """An epoch is done, and its validation Dice is the best so far, or not."""

    def end(self) -> None:
        """The last epoch is done."""
