"""An image in memory: its pixels, and where they lie in the patient or on the film."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitta.errors import InvalidImage

Array = NDArray[Any]
MOST_VALUES = 2**29  # a CT of 512 x 512 x 2000; more than that is taken for a mistake or an attack


@dataclass(frozen=True, eq=False)
class Geometry:
    """How the pixels of a file are laid out, in the order in which the file holds them.

    The affine ``(4, 4)`` maps an index along the sides ``S`` to millimetres towards the right, the
    front and the top of the patient (RAS); for an image, the column of a third side comes last.
    """

    shape: tuple[int, ...]  # sides S, two for an image, three for a volume
    affine: Array | None = None  # None if unknown
    spacing: tuple[float, ...] | None = None  # mm from pixel to pixel along S; None if unknown
    column_major: bool = False  # sides run x, y, z (NIfTI) instead of z, y, x (all others)

    def __post_init__(self) -> None:
        if self.affine is not None:
            sides = np.linalg.norm(self.affine[:3, :3], axis=0)
            object.__setattr__(self, "spacing", tuple(map(float, sides[: len(self.shape)])))

    def raster(self) -> Geometry:
        """The same pixels as slices of rows (z, y, x)."""
        return self.reversed() if self.column_major else self

    def reversed(self) -> Geometry:
        """The same pixels with their sides in reverse order."""
        n = len(self.shape)
        order = [*reversed(range(n)), *range(n, 4)]
        affine = None if self.affine is None else self.affine[:, order]
        spacing = None if self.spacing is None else self.spacing[::-1]
        return Geometry(self.shape[::-1], affine, spacing, not self.column_major)


@dataclass(frozen=True, eq=False)
class Image:
    """An image or volume that was read from a file or a series."""

    pixels: Array  # (C, *S), in the file's own order of sides, of its own type or as rescaled
    geometry: Geometry
    kind: str  # the name of its format, such as PNG, NIfTI or DICOM
    path: Path  # of the file or series
    header: Any = field(default=None, repr=False)  # for writing a mask in the same geometry
    indices: Array | None = field(default=None, repr=False)  # S, into a palette: a mask's labels


class OtherRange(InvalidImage):
    """An image of plainly other values than those that a scale stands for."""


class TooLarge(InvalidImage):
    """An image of more values than are allowed, or than can be decoded."""


def check_size(path: Path, shape: Sequence[int], limit: int = MOST_VALUES) -> None:
    """Refuse what is empty or absurdly large, by its header, before any pixel is decoded."""
    sides = " x ".join(str(n) for n in shape)
    if any(n <= 0 for n in shape):
        raise InvalidImage(f"{path} has no pixels: its header says {sides}.")
    if math.prod(map(int, shape)) > limit:
        raise TooLarge(
            f"{path} is too large: its header announces {sides} values.",
            allowed=f"at most {limit:,} values",
            fix="check that the file is what it seems; cut a real one into pieces, or raise limit=",
        )


def check_complete(path: Path, announced: int, size: int) -> None:
    """Refuse a file that ends before the bytes that its header announces."""
    if size < announced:
        raise InvalidImage(
            f"{path} is cut short: its header announces {announced:,} bytes, "
            f"and there are {size:,}.",
            fix="copy, download or export it again",
        )
