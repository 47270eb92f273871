"""Where DICOM slices lie in the patient, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sitta.data.picture import Array
from sitta.errors import InvalidImage

TO_RAS = np.array([-1.0, -1.0, 1.0])  # DICOM counts to the left and the back, NIfTI the other way
SPACINGS = ("PixelSpacing", "ImagerPixelSpacing", "NominalScannedPixelSpacing")


@dataclass(frozen=True)
class Place:
    """Where one slice lies: millimetres in the patient, as far as the file says.

    Attributes:
        number: Its number in the series.
        position: Of the middle of its first pixel.
        along_rows: Direction in which the row number grows, a unit vector.
        along_columns: Direction in which the column number grows.
        spacing: From row to row and from column to column.
        thickness: Of the slice.
    """

    number: int
    position: Array | None
    along_rows: Array | None
    along_columns: Array | None
    spacing: tuple[float, float] | None
    thickness: float

    @property
    def known(self) -> bool:
        """Whether it can be placed in the patient."""
        return self.position is not None and self.along_rows is not None and bool(self.spacing)

    @property
    def normal(self) -> Array:
        """The direction across the slice."""
        assert self.along_rows is not None and self.along_columns is not None  # noqa: S101, PT018
        return np.cross(self.along_columns, self.along_rows)


Arrangement = tuple[list[int], Array | None, tuple[float, ...] | None]


def place_of(dataset: Any, number: int | None = None) -> Place:
    """The place of a file of one frame, or of one frame by its functional groups."""
    position = _numbers(dataset, "ImagePositionPatient", 3)
    cosines = _numbers(dataset, "ImageOrientationPatient", 6)
    spacing = next((s for k in SPACINGS if (s := _numbers(dataset, k, 2)) is not None), None)
    thickness = _numbers(dataset, "SliceThickness", 1)
    return Place(
        int(dataset.get("InstanceNumber") or 0) if number is None else number,
        position,
        None if cosines is None else cosines[3:],
        None if cosines is None else cosines[:3],
        None if spacing is None or min(spacing) <= 0 else (float(spacing[0]), float(spacing[1])),
        1.0 if thickness is None or thickness[0] <= 0 else float(thickness[0]),
    )


def frame_places(dataset: Any, frames: int) -> list[Place]:
    """The place of each frame of a file."""
    kinds = ("PlanePositionSequence", "PlaneOrientationSequence", "PixelMeasuresSequence")
    groups = [frame_groups(dataset, kind, frames) for kind in kinds]
    return [
        place_of(_Merged(parts), number) for number, parts in enumerate(zip(*groups, strict=True))
    ]


def frame_groups(dataset: Any, name: str, frames: int) -> list[Any]:
    """A functional group of each frame: its own, the shared one, or the file itself."""
    shared = dataset.get("SharedFunctionalGroupsSequence") or [{}]
    own = dataset.get("PerFrameFunctionalGroupsSequence") or [{}] * frames
    found = [(f.get(name) or shared[0].get(name) or [dataset])[0] for f in own]
    return found if len(found) == frames else [dataset] * frames


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
    """
    first = places[0]
    if not all(p.known for p in places):
        order = sorted(range(len(places)), key=lambda i: places[i].number)
        return order, None, first.spacing if len(places) == 1 else None
    across = np.array([first.normal @ p.position for p in places])  # (D,) mm
    order = [int(i) for i in np.argsort(across, kind="stable")]
    start = places[order[0]]
    step = start.normal * start.thickness
    if len(places) > 1:
        step = _even_step(path, [places[i] for i in order])
    assert start.spacing and start.along_rows is not None and start.along_columns is not None  # noqa: S101, PT018
    plane = [start.along_rows * start.spacing[0], start.along_columns * start.spacing[1]]
    columns = [*plane, step] if len(places) == 1 else [step, *plane]
    affine = np.eye(4)
    affine[:3] = (np.stack([*columns, start.position]) * TO_RAS).T
    if abs(np.linalg.det(affine[:3, :3])) < 1e-12:
        raise InvalidImage(
            f"{path} does not say where its pixels lie: its directions are degenerate."
        )
    return order, affine, None


def _even_step(path: Path, places: Sequence[Place]) -> Array:
    """The vector from slice to slice; refuses what is not one even stack."""
    directions = np.stack([np.concatenate([p.along_rows, p.along_columns]) for p in places])  # type: ignore[arg-type]
    if np.abs(directions - directions[0]).max() > 1e-2:
        raise InvalidImage(f"{path} holds slices that are not parallel.")
    positions = np.stack([p.position for p in places])  # type: ignore[misc]
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
    return np.asarray((positions[-1] - positions[0]) / (len(places) - 1))
