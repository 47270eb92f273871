"""What to do with every file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sitta.errors import InvalidSetting

LONGEST_TIMEOUT = 1_000_000  # seconds; a timer of the system has no room for much more
MAPS = ("probability", "uncertainty", "members")
TURNS = (0, 90, 180, 270)  # degrees, clockwise
STATISTICS = ("volume", "window")


@dataclass(frozen=True)
class Request:
    """What to do with every file. Plain types, so that it travels to other machines."""

    model: str  # a zoo model, a profile, a checkpoint, ``.onnx``, or ``package.module:factory``
    method: str | None = None  # of ``sitta.methods()``; None is the usual one, or that of a graph
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the method
    weights: str | None = None  # for a factory
    preprocess: Mapping[str, Any] = field(default_factory=dict)  # what differs from the model's own
    output: str | int | None = None  # where the segmentation is, in place of the profile's
    activation: str | None = None  # what the network returns, in place of the profile's
    thresholds: tuple[float, ...] = ()  # of all classes or of each, in place of the profile's
    save: tuple[str, ...] = ()  # maps to write beside the masks
    device: str = "auto"  # ``cpu``, ``cuda``, or ``auto``
    at_once: int = 8  # slices of a volume in one pass
    window: tuple[int, ...] | None = None  # sides of a sliding window, for inputs too large
    statistics: str | None = None  # with a window: of the whole ``volume``, or of each ``window``
    batch: int | None = None  # files of equal size in one pass; None is 1 on a CPU, 8 on a GPU
    pixel_size: tuple[float, ...] | None = None  # mm (slices, rows, columns) of files without
    keep_header: bool = False  # NIfTI masks carry free text and extensions of their image
    invert: bool = False  # grey values of every file before anything else
    rotate: int = 0  # degrees by which every slice is turned clockwise for the model
    min_dice: float | None = None  # an image whose Dice may be lower is flagged
    file_timeout: float = 120.0  # seconds that reading one file may take; 0 is no limit

    @property
    def reading(self) -> dict[str, Any]:
        """What it has in place of the profile's, but for preprocessing and windows."""
        told = {"output": self.output, "activation": self.activation}
        return {**told, "thresholds": self.thresholds or None}

    def __post_init__(self) -> None:
        size = self.pixel_size
        unknown = [name for name in self.save if name not in MAPS]
        if unknown:
            raise InvalidSetting(
                f"There is no map {', '.join(unknown)} to save.", allowed=", ".join(MAPS)
            )
        if self.statistics not in (None, *STATISTICS):
            raise InvalidSetting(
                "statistics is out of range.", allowed=", ".join(STATISTICS), got=self.statistics
            )
        if self.batch is not None and self.batch < 1:
            raise InvalidSetting(
                "batch is out of range.", allowed="a whole number >= 1", got=str(self.batch)
            )
        if self.rotate not in TURNS:
            allowed = ", ".join(map(str, TURNS))
            raise InvalidSetting("rotate is out of range.", allowed=allowed, got=str(self.rotate))
        if self.min_dice is not None and not 0 <= self.min_dice <= 1:
            raise InvalidSetting(
                "min_dice is out of range.", allowed="0 to 1", got=str(self.min_dice)
            )
        if not 0 <= self.file_timeout <= LONGEST_TIMEOUT:
            raise InvalidSetting(
                "file_timeout is out of range.",
                allowed=f"0 (no limit) to {LONGEST_TIMEOUT:,} seconds",
                got=str(self.file_timeout),
            )
        if size is not None and not (len(size) in (2, 3) and all(mm > 0 for mm in size)):
            raise InvalidSetting(
                "pixel_size is out of range.",
                allowed="2 or 3 numbers > 0, such as 0.5x0.5",
                got="x".join(map(str, size)),
            )
