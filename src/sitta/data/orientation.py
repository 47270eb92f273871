"""Volumes in one orientation, whatever the scanner stored, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitta.data.image import Array, Geometry

# Towards which part of the patient slices, rows and columns run (S head, P back, L left, I feet).
PLANES = {"axial": "SPL", "coronal": "PIL", "sagittal": "LIP"}
ACROSS = {"S": "axial", "I": "axial", "A": "coronal", "P": "coronal"}


@dataclass(frozen=True)
class Orientation:
    """How the sides of a file become slices, rows and columns."""

    shape: tuple[int, ...]  # sides in the file, always three; a single image has one slice
    axes: tuple[int, ...]  # which of them is the slices, the rows, the columns
    flips: tuple[int, ...]  # which of the three run the other way, after that

    @classmethod
    def of(cls, geometry: Geometry, plane: str) -> Orientation:
        """From the file's order to slices along a plane of the patient.

        An image that has one slice along one side keeps that side for its slices. Files without
        an affine keep their order.
        """
        if geometry.affine is None and not geometry.column_major:
            return cls((1, *geometry.shape)[-3:], (0, 1, 2), ())
        shape = (*geometry.shape, 1)[:3]
        if geometry.affine is None:
            return cls(shape, (2, 1, 0), ())
        from nibabel.orientations import aff2axcodes, axcodes2ornt, io_orientation, ornt_transform

        thin = [side for side, n in enumerate(shape) if n == 1]
        if len(thin) == 1:
            plane = ACROSS.get(aff2axcodes(geometry.affine)[thin[0]], "sagittal")
        turn = ornt_transform(io_orientation(geometry.affine), axcodes2ornt(tuple(PLANES[plane])))
        axes = tuple(int(i) for i in np.argsort(turn[:, 0]))
        return cls(shape, axes, tuple(i for i, a in enumerate(axes) if turn[a, 1] < 0))

    def turned(self, degrees: int) -> Orientation:
        """With rows and columns turned clockwise by 0, 90, 180 or 270 degrees."""
        axes, flips = self.axes, set(self.flips)
        for _ in range(degrees // 90 % 4):
            axes = (axes[0], axes[2], axes[1])
            flips = {{1: 2, 2: 1}.get(f, f) for f in flips} ^ {2}
        return Orientation(self.shape, axes, tuple(sorted(flips)))

    @property
    def sides(self) -> tuple[int, ...]:
        """Numbers of slices, rows and columns."""
        return tuple(self.shape[a] for a in self.axes)

    def spacing(self, geometry: Geometry) -> tuple[float, ...] | None:
        """Millimetres along slices, rows and columns of a file; None if it does not say."""
        if geometry.affine is None:
            stored = geometry.raster().spacing
            return stored and (1.0, *stored)[-3:]
        sides = np.linalg.norm(geometry.affine[:3, :3], axis=0)
        return tuple(float(sides[a]) for a in self.axes)

    def apply(self, values: Array) -> Array:
        """``(C, *S)`` as in the file to ``(C, slices, rows, columns)``; a view if possible."""
        moved = values.reshape(-1, *self.shape).transpose(0, *(1 + a for a in self.axes))
        return np.flip(moved, tuple(1 + f for f in self.flips))

    def undo(self, values: Array) -> Array:
        """``(C, slices, rows, columns)`` back to the order of the file."""
        back = np.flip(values, tuple(1 + f for f in self.flips))
        return back.transpose(0, *(1 + int(i) for i in np.argsort(self.axes)))
