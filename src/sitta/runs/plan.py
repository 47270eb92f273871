"""What to do with every file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sitta.errors import InvalidSetting

MAPS = ("probability", "uncertainty", "members")


@dataclass(frozen=True)
class Plan:
    """What to do with every file. Plain types, so that it travels to other machines.

    Attributes:
        model: A shipped model, a checkpoint, an ``.onnx`` file, or ``package.module:factory``.
        method: Of ``sitta.methods()``.
        settings: Of the method.
        weights: For a factory.
        preprocess: Settings of the preprocessing that differ from the model's own.
        save: Maps to write beside the masks.
        device: ``cpu``, ``cuda``, or ``auto``.
        at_once: Slices of a volume in one pass.
        window: Sides of a sliding window, for inputs too large for one pass.
        statistics: With a window: of the whole ``volume``, or of each ``window``.
        batch: Files of equal size in one pass; None is 1 on a CPU, where more does not pay, and 8
            on a GPU.

    Example:
        >>> Plan("phantom-alder", settings={"strategy": "vote"}, save=("probability",)).method
        'intent'
    """

    model: str
    method: str = "intent"
    settings: Mapping[str, Any] = field(default_factory=dict)
    weights: str | None = None
    preprocess: Mapping[str, Any] = field(default_factory=dict)
    save: tuple[str, ...] = ()
    device: str = "auto"
    at_once: int = 8
    window: tuple[int, ...] | None = None
    statistics: str = "volume"
    batch: int | None = None

    def __post_init__(self) -> None:
        if self.batch is not None and self.batch < 1:
            raise InvalidSetting(
                "batch is out of range.", allowed="a whole number >= 1", got=str(self.batch)
            )
        unknown = [name for name in self.save if name not in MAPS]
        if unknown:
            raise InvalidSetting(
                f"There is no map {', '.join(unknown)} to save.", allowed=", ".join(MAPS)
            )
