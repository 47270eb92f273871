"""Where DICOM slices lie in the patient, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sitta.data.picture import Array
from sitta.errors import InvalidImage

TO_RAS = np.array([-1.0, -1.0, 1.0])  # DICOM counts to the left and the back, NIfTI the other way
SPACINGS = ("PixelSpacing", "ImagerPixelSpacing", "NominalScannedPixelSpacing")
ASKEW = 1e-2  # of a unit vector: more than rounding in the header explains


@dataclass(frozen=True)
class Place:
    """Where one slice lies: millimetres in the patient, as far as the file says.

    Attributes:
        number: Its number in the series.
        position: Of the middle of its first pixel.
        plane: ``(2, 3)``, unit vectors along which the row and the column number grow.
        spacing: From row to row and from column to column.
        thickness: Of the slice.
    """

    number: int
    position: Array | None
    plane: Array | None
    spacing: tuple[float, float] | None
    thickness: float


@dataclass(frozen=True)
class Placed:
    """The same, of a slice that says it all."""

    position: Array
    plane: Array
    spacing: tuple[float, float]
    thickness: float

    @property
    def normal(self) -> Array:
        """The direction across the slice."""
        return np.cross(self.plane[1], self.plane[0])


Arrangement = tuple[list[int], Array | None, tuple[float, ...] | None]


def place_of(path: Path, dataset: Any) -> Place:
    """The place of a file of one frame."""
    number = int(dataset.get("InstanceNumber") or 0)
    return _place(_described(path, dataset, 1)[0], number)


def _place(header: _Merged, number: int) -> Place:
    cosines = _numbers(header, "ImageOrientationPatient", 6)
    spacing = next((s for k in SPACINGS if (s := _numbers(header, k, 2)) is not None), None)
    thickness = _numbers(header, "SliceThickness", 1)
    return Place(
        number,
        _numbers(header, "ImagePositionPatient", 3),
        None if cosines is None else _plane(cosines),
        None if spacing is None or min(spacing) <= 0 else (float(spacing[0]), float(spacing[1])),
        1.0 if thickness is None or thickness[0] <= 0 else float(thickness[0]),
    )


def _plane(cosines: Array) -> Array | None:
    """Unit vectors along rows and columns; None if they are no two directions at right angles."""
    plane = cosines.reshape(2, 3)[::-1]  # the header has that of the column number first
    lengths = np.linalg.norm(plane, axis=1, keepdims=True)
    if np.abs(lengths - 1).max() > ASKEW or abs(plane[0] @ plane[1]) > ASKEW:
        return None
    return np.asarray(plane / lengths)


def frame_places(path: Path, dataset: Any, frames: int) -> list[Place]:
    """The place of each frame of a file; unknown positions if all frames share one."""
    described = _described(path, dataset, frames)
    places = [_place(header, number) for number, header in enumerate(described)]
    if any(header.parts[0] is not described[0].parts[0] for header in described):
        return places
    offsets = _numbers(dataset, "GridFrameOffsetVector", frames)  # of a dose
    first = places[0]
    if offsets is None or first.position is None or first.plane is None:
        return [replace(place, position=None) for place in places]
    steps = (offsets - offsets[0])[:, None] * np.cross(first.plane[1], first.plane[0])
    positions = first.position + steps
    return [replace(p, position=where) for p, where in zip(places, positions, strict=True)]


def _described(path: Path, dataset: Any, frames: int) -> list[_Merged]:
    """The functional groups that place each frame, that of its position first."""
    kinds = ("PlanePositionSequence", "PlaneOrientationSequence", "PixelMeasuresSequence")
    groups = [frame_groups(path, dataset, kind, frames) for kind in kinds]
    return [_Merged(parts) for parts in zip(*groups, strict=True)]


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


@dataclass(frozen=True)
class _Merged:
    parts: Sequence[Any]

    def get(self, name: str) -> Any:
        return next((v for p in self.parts if (v := p.get(name)) is not None), None)


def _numbers(dataset: Any, name: str, count: int) -> Array | None:
    value = dataset.get(name)
    if value is None or value == "":
        return None
    numbers = np.atleast_1d(np.asarray(value, dtype=np.float64))
    return numbers if numbers.shape == (count,) and np.isfinite(numbers).all() else None


def arrange(path: Path, places: Sequence[Place]) -> Arrangement:
    """The order of the slices, and affine and spacing of (slices, rows, columns).

    The affine is None where the files do not place themselves; then slices go by number.

    Raises:
        InvalidImage: They are not one even stack, or only some of them place themselves.
    """
    known = [
        Placed(p.position, p.plane, p.spacing, p.thickness)
        for p in places
        if p.position is not None and p.plane is not None and p.spacing is not None
    ]
    if not known:
        order = sorted(range(len(places)), key=lambda i: places[i].number)
        return order, None, places[0].spacing if len(places) == 1 else None
    if len(known) < len(places):
        raise InvalidImage(
            f"{path} is no volume: {len(places) - len(known)} of its {len(places)} slices do not "
            "say where they lie."
        )
    across = np.array([known[0].normal @ p.position for p in known])  # (D,) mm
    order = [int(i) for i in np.argsort(across, kind="stable")]
    return order, _affine(path, [known[i] for i in order]), None


def _affine(path: Path, places: Sequence[Placed]) -> Array:
    """From (slices, rows, columns), or (rows, columns, across) of a single one, to RAS."""
    start = places[0]
    plane = start.plane * np.array(start.spacing)[:, None]
    columns = (
        [*plane, start.normal * start.thickness]
        if len(places) == 1
        else [_even_step(path, places), *plane]
    )
    affine = np.eye(4)
    affine[:3] = (np.stack([*columns, start.position]) * TO_RAS).T
    return affine


def _even_step(path: Path, places: Sequence[Placed]) -> Array:
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
