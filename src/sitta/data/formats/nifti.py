"""NIfTI, by nibabel: any orientation and order of axes, scaled values, 2D to 4D."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

from sitta.data.picture import Array, Geometry, Image, check_size
from sitta.errors import InvalidImage

UPRIGHT = np.diag([-1.0, -1.0, 1.0, 1.0])  # rows run to the back, columns to the left, as on a film


def read(path: Path, limit: int) -> Image:
    """An image or a volume; a fourth axis, or a fifth with a single time, holds the channels."""
    file: Any = nib.load(path)
    shape = tuple(int(n) for n in file.shape)
    check_size(path, shape or (0,), limit)
    while len(shape) > 2 and shape[-1] == 1:
        shape = shape[:-1]
    sides = shape[:3]
    if len(shape) == 5 and shape[3] == 1:
        shape = (*sides, shape[4])
    if not 2 <= len(shape) <= 4:
        raise InvalidImage(
            f"{path} has {len(shape)} axes ({' x '.join(map(str, shape))}).",
            allowed="2 or 3 axes, and one more for channels",
        )
    values = _values(path, file).reshape(*shape, -1)
    values = values.reshape(*sides, -1)  # channels last, also if there is one
    pixels = np.ascontiguousarray(np.moveaxis(values, -1, 0))
    affine = np.asarray(file.affine, dtype=np.float64)
    if not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) < 1e-12:
        raise InvalidImage(f"{path} does not say where its pixels lie: its affine is degenerate.")
    geometry = Geometry(sides, affine, column_major=True)
    return Image(pixels, geometry, "NIfTI", path, header=file.header)


def _values(path: Path, file: Any) -> Array:
    """Scaled values; whole numbers stay whole where the header does not scale."""
    if file.get_data_dtype().names:  # RGB and RGBA are three or four bytes a voxel
        raw = np.asarray(file.dataobj)
        return np.stack([raw[name] for name in raw.dtype.names[:3]], axis=-1)
    if file.get_data_dtype().kind == "c":
        raise InvalidImage(f"{path} holds complex numbers.", fix="save their magnitude")
    return np.asanyarray(file.dataobj)


def write(path: Path, values: Array, like: Image) -> None:
    """Values (*S) where the pixels of ``like`` lie; its header is kept if it is a NIfTI's."""
    if like.kind == "NIfTI":
        header = like.header.copy()
        kind = nib.Nifti2Image if isinstance(header, nib.Nifti2Header) else nib.Nifti1Image
        sides = header.get_data_shape()[:3]  # with sides of one pixel, which reading drops
        file = kind(values.reshape(sides), None, header)  # None: both of its affines stay
    else:
        file = nib.Nifti1Image(*_columns_first(values, like.geometry))
        file.header.set_xyzt_units("mm", "sec")
    file.header.set_data_dtype(values.dtype)
    file.header.set_slope_inter(1, 0)
    file.header["cal_min"] = file.header["cal_max"] = 0  # windows of the image, not of a mask
    nib.save(file, path)


def _columns_first(values: Array, geometry: Geometry) -> tuple[Array, Array]:
    """Values (x, y, z) and their affine, from values in another format's order."""
    if not geometry.column_major:
        values, geometry = values.T, geometry.reversed()
    if geometry.affine is not None:
        return values, geometry.affine
    known = geometry.spacing or (1.0,) * len(geometry.shape)
    return values, UPRIGHT @ np.diag([*known, *[1.0] * (4 - len(known))])
