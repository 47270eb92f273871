"""A picture in memory: its pixels, and where they lie in the patient or on the film."""

from __future__ import annotations

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

    Attributes:
        shape: Sides ``S``, two for an image, three for a volume.
        affine: ``(4, 4)``, from an index along ``S`` to millimetres, to the right, front and top of
            the patient (RAS). The column of a third side comes last for an image. None if unknown.
        spacing: Millimetres from pixel to pixel along ``S``; None if unknown.
        column_major: Whether the first side runs along the columns (x, y, z: NIfTI) or along
            the slices or rows (z, y, x: everything else).
    """

    shape: tuple[int, ...]
    affine: Array | None = None
    spacing: tuple[float, ...] | None = None
    column_major: bool = False

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
    """What was read from a file or a series.

    Attributes:
        pixels: ``(C, *S)``, in the file's own order of sides, of its own type or as rescaled.
        geometry: How they lie.
        kind: The format: PNG, JPEG, GIF, BMP, TIFF, NIfTI, DICOM.
        path: Where it was read from.
        header: What this format needs to write a mask in the same geometry.
        indices: The numbers behind the colours of a palette ``S``, which are what a mask means.
    """

    pixels: Array
    geometry: Geometry
    kind: str
    path: Path
    header: Any = field(default=None, repr=False)
    indices: Array | None = field(default=None, repr=False)


class TooLarge(InvalidImage):
    """An image of more values than are allowed, or than can be decoded."""


def check_size(path: Path, shape: Sequence[int], limit: int = MOST_VALUES) -> None:
    """Refuse what is empty or absurdly large, by its header, before any pixel is decoded."""
    sides = " x ".join(str(n) for n in shape)
    if any(n <= 0 for n in shape):
        raise InvalidImage(f"{path} has no pixels: its header says {sides}.")
    total = 1
    for n in shape:
        total *= int(n)
    if total > limit:
        raise TooLarge(
            f"{path} is too large: its header announces {sides} values.",
            allowed=f"at most {limit:,} values",
            fix="check that the file is what it seems; cut a real one into pieces, or raise limit=",
        )


def check_complete(path: Path, announced: int, there: int) -> None:
    """Refuse a file that ends before the bytes that its header announces."""
    if there < announced:
        raise InvalidImage(
            f"{path} is cut short: its header announces {announced:,} bytes, "
            f"and there are {there:,}.",
            fix="copy, download or export it again",
        )
