"""Where DICOM slices lie in the patient, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sitta.data.image import Array
from sitta.errors import InvalidImage

TO_RAS = np.array([-1.0, -1.0, 1.0])  # DICOM counts to the left and the back, NIfTI the other way
SPACINGS = ("PixelSpacing", "ImagerPixelSpacing", "NominalScannedPixelSpacing")
PLACING = ("PlanePositionSequence", "PlaneOrientationSequence", "PixelMeasuresSequence")
ASKEW = 1e-2  # of a unit vector: more than rounding in the header explains


@dataclass(frozen=True)
class Place:
    """Where one slice lies: millimetres in the patient; NaN where the file does not say."""

    number: int  # in the series
    position: Array  # (3,), the middle of the first pixel
    plane: Array  # (2, 3), unit vectors along which the row and the column number grow
    spacing: Array  # (2,), from row to row and from column to column
    thickness: float  # of the slice

    @property
    def complete(self) -> bool:
        """Whether the file says all of it."""
        return all(np.isfinite(x).all() for x in (self.position, self.plane, self.spacing))

    @property
    def normal(self) -> Array:
        """The direction across the slice."""
        return np.cross(self.plane[1], self.plane[0])


def place_of(path: Path, dataset: Any) -> Place:
    """The place of a file of one frame."""
    return _place(_described(path, dataset, 1)[0], int(dataset.get("InstanceNumber") or 0))


def _place(groups: Sequence[Any], number: int) -> Place:
    spacings = (_numbers(groups, name, 2) for name in SPACINGS)
    spacing = next((s for s in spacings if np.isfinite(s).all()), np.zeros(2))
    thickness = float(_numbers(groups, "SliceThickness", 1)[0])
    return Place(
        number,
        _numbers(groups, "ImagePositionPatient", 3),
        _plane(_numbers(groups, "ImageOrientationPatient", 6)),
        spacing if min(spacing) > 0 else spacing * np.nan,
        thickness if thickness > 0 else 1.0,
    )


def _plane(cosines: Array) -> Array:
    """Unit vectors along rows and columns; NaN if they are no two directions at right angles."""
    plane = cosines.reshape(2, 3)[::-1]  # the header has that of the column number first
    lengths = np.linalg.norm(plane, axis=1, keepdims=True)
    straight = np.abs(lengths - 1).max() <= ASKEW and abs(plane[0] @ plane[1]) <= ASKEW
    return np.asarray(plane / lengths if straight else plane * np.nan)


def frame_places(path: Path, dataset: Any, frames: int) -> list[Place]:
    """The place of each frame of a file; unknown positions if all frames share one."""
    described = _described(path, dataset, frames)
    places = [_place(groups, number) for number, groups in enumerate(described)]
    if any(groups[0] is not described[0][0] for groups in described):
        return places
    offsets = _numbers([dataset], "GridFrameOffsetVector", frames)  # of a dose; else all NaN
    positions = places[0].position + (offsets - offsets[0])[:, None] * places[0].normal
    return [replace(p, position=where) for p, where in zip(places, positions, strict=True)]


def _described(path: Path, dataset: Any, frames: int) -> list[tuple[Any, ...]]:
    """The functional groups that place each frame, that of its position first."""
    groups = (frame_groups(path, dataset, name, frames) for name in PLACING)
    return list(zip(*groups, strict=True))


def frame_groups(path: Path, dataset: Any, name: str, frames: int) -> list[Any]:
    """A functional group of each frame: its own, the shared one, or the file itself."""
    shared = dataset.get("SharedFunctionalGroupsSequence") or [{}]
    own = dataset.get("PerFrameFunctionalGroupsSequence") or [{}] * frames
    own = own[:1] if frames == 1 else own
    if len(own) != frames:
        raise InvalidImage(
            f"{path} is damaged: it has {frames} frames, and describes {len(own)} of them."
        )
    return [(f.get(name) or shared[0].get(name) or [dataset])[0] for f in own]


def _numbers(groups: Sequence[Any], name: str, count: int) -> Array:
    """Finite numbers of the first group that has them, ``(count,)``; all NaN if there are none."""
    value = next((v for group in groups if (v := group.get(name)) is not None), "")
    if value != "":
        numbers = np.atleast_1d(np.asarray(value, dtype=np.float64))
        if numbers.shape == (count,) and np.isfinite(numbers).all():
            return numbers
    return np.full(count, np.nan)


def arrange(
    path: Path, places: Sequence[Place]
) -> tuple[list[int], Array | None, tuple[float, ...] | None]:
    """The order of the slices, and affine and spacing of (slices, rows, columns).

    Without places, the affine is None and slices go by number. Refuses an uneven stack.
    """
    complete = [place for place in places if place.complete]
    if not complete:
        order = sorted(range(len(places)), key=lambda i: places[i].number)
        rows, columns = map(float, places[0].spacing)
        return order, None, (rows, columns) if len(places) == 1 and rows > 0 else None
    if len(complete) < len(places):
        raise InvalidImage(
            f"{path} is no volume: {len(places) - len(complete)} of its {len(places)} slices do "
            "not say where they lie."
        )
    across = np.array([places[0].normal @ place.position for place in places])  # (D,) mm
    order = [int(i) for i in np.argsort(across, kind="stable")]
    return order, _affine(path, [places[i] for i in order]), None


def _affine(path: Path, places: Sequence[Place]) -> Array:
    """From (slices, rows, columns), or (rows, columns, across) of a single one, to RAS."""
    start = places[0]
    plane = start.plane * start.spacing[:, None]
    columns = [*plane, start.normal * start.thickness]
    if len(places) > 1:
        columns = [_even_step(path, places), *plane]
    affine = np.eye(4)
    affine[:3] = (np.stack([*columns, start.position]) * TO_RAS).T
    return affine


def _even_step(path: Path, places: Sequence[Place]) -> Array:
    """The vector from slice to slice; refuses what is not one even stack."""
    planes = np.stack([p.plane for p in places])
    if np.abs(planes - planes[0]).max() > ASKEW:
        raise InvalidImage(f"{path} holds slices that are not parallel.")
    if not np.allclose([p.spacing for p in places], places[0].spacing, rtol=ASKEW):
        raise InvalidImage(f"{path} holds slices with pixels of different sizes.")
    positions = np.stack([p.position for p in places])
    gaps = np.diff(positions @ places[0].normal)
    middle = float(np.median(gaps))
    if gaps.min() < 1e-3:
        raise InvalidImage(
            f"{path} holds several slices at one position (phases, echoes or repeats?).",
            fix="keep one of them a position",
        )
    if np.abs(gaps - middle).max() > 0.1 * middle:
        raise InvalidImage(
            f"{path} is not evenly spaced: {gaps.min():.2f} to {gaps.max():.2f} mm between slices.",
            fix="find the missing slices, or resample the series first",
        )
    step = (positions[-1] - positions[0]) / (len(places) - 1)
    line = positions[0] + np.arange(len(places))[:, None] * step
    if np.linalg.norm(positions - line, axis=1).max() > 0.5 * min(middle, *places[0].spacing):
        raise InvalidImage(f"{path} holds slices that do not lie in one straight stack.")
    return np.asarray(step)
