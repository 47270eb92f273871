"""Volumes in one orientation, whatever the scanner stored, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitta.data.picture import Array, Geometry

# Towards which part of the patient slices, rows and columns run (S head, P back, L left, I feet).
PLANES = {"axial": "SPL", "coronal": "PIL", "sagittal": "LIP"}


@dataclass(frozen=True)
class Orientation:
    """How the sides of a file become slices, rows and columns.

    Attributes:
        shape: The sides in the file, always three; a single image has one slice.
        axes: Which of them is the slices, the rows, the columns.
        flips: Which of the three run the other way, after that.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    flips: tuple[int, ...]

    @classmethod
    def of(cls, geometry: Geometry, plane: str) -> Orientation:
        """From the file's order to slices along a plane of the patient.

        An image that has one slice along one side keeps that side for its slices. Files that do
        not say how they lie keep their order.
        """
        if geometry.affine is None:
            flat = geometry.raster()
            shape = (1, 1, 1, *flat.shape)[-3:]
            return cls(shape, (0, 1, 2), ())
        shape = (*geometry.shape, 1, 1)[:3]
        thin = [i for i, n in enumerate(shape) if n == 1]
        codes = PLANES[_plane_across(geometry.affine, thin[0]) if len(thin) == 1 else plane]
        return cls(shape, *_turn(geometry.affine, codes))

    def apply(self, values: Array) -> Array:
        """``(..., *S)`` as in the file to ``(..., slices, rows, columns)``."""
        lead = values.ndim - 3
        moved = values.transpose(*range(lead), *[lead + a for a in self.axes])
        return np.flip(moved, tuple(lead + f for f in self.flips))

    def undo(self, values: Array) -> Array:
        """``(..., slices, rows, columns)`` back to the order of the file."""
        lead = values.ndim - 3
        back = np.flip(values, tuple(lead + f for f in self.flips))
        return back.transpose(*range(lead), *[lead + int(i) for i in np.argsort(self.axes)])


def _turn(affine: Array, codes: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    from nibabel.orientations import axcodes2ornt, io_orientation, ornt_transform

    turn = ornt_transform(io_orientation(affine), axcodes2ornt(tuple(codes)))
    axes = tuple(int(i) for i in np.argsort(turn[:, 0]))
    return axes, tuple(i for i, a in enumerate(axes) if turn[a, 1] < 0)


def _plane_across(affine: Array, axis: int) -> str:
    """The plane whose slices follow each other along an axis of the file."""
    from nibabel.orientations import aff2axcodes

    code = aff2axcodes(affine)[axis]
    return {"S": "axial", "I": "axial", "A": "coronal", "P": "coronal"}.get(code, "sagittal")
