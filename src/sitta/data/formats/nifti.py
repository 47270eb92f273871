"""NIfTI, by nibabel: any orientation and order of axes, scaled values, 2D to 4D."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

from sitta.data.picture import Array, Geometry, Image, check_complete, check_size
from sitta.errors import InvalidImage

UPRIGHT = np.diag([-1.0, -1.0, 1.0, 1.0])  # rows run to the back, columns to the left, as on a film
MOST_BEFORE = 2**26  # bytes of header and extensions before the pixels
MILLIMETRES = {"meter": 1000.0, "micron": 0.001}
SURFACES = range(3000, 3100)  # intents of CIFTI, whose axes are not those of an image


def read(path: Path, limit: int) -> Image:
    """An image or a volume; a fourth axis, or a fifth with a single time, holds the channels."""
    file = _load(path, limit)
    shape, sides = _axes(path, file)
    values = _values(path, file).reshape(*shape, -1)
    values = values.reshape(*sides, -1)  # channels last, also if there is one
    geometry = Geometry(sides, _affine(path, file, len(sides)), column_major=True)
    return Image(np.moveaxis(values, -1, 0), geometry, "NIfTI", path, header=file.header)


def _load(path: Path, limit: int) -> Any:
    """A file of which no more is unpacked than its header announces."""
    with open(path, "rb") as plain:
        zipped = plain.read(2) == b"\x1f\x8b"
    with gzip.open(path) if zipped else open(path, "rb") as file:
        start = file.read(nib.Nifti2Header.sizeof_hdr)
        kind = nib.Nifti2Image if start[4:8] == b"n+2\0" else nib.Nifti1Image
        header = kind.header_class(start[: kind.header_class.sizeof_hdr])
        shape, before = header.get_data_shape(), int(header["vox_offset"])
        check_size(path, shape or (0,), limit)
        if before > MOST_BEFORE:
            raise InvalidImage(
                f"{path} is damaged: its header puts {before:,} bytes before the pixels."
            )
        size = before + int(np.prod(shape, dtype=object)) * header.get_data_dtype().itemsize
        content = start + file.read(max(size - len(start), 0))
        check_complete(path, size, len(content))
        file.read(1)  # at its end, a zipped file is checked against its sum
    return kind.from_bytes(content)


def _axes(path: Path, file: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """All axes that count, and those of them that are sides."""
    shape = tuple(int(n) for n in file.shape)
    while len(shape) > 2 and shape[-1] == 1:
        shape = shape[:-1]
    sides = shape[:3]
    if len(shape) == 5 and shape[3] == 1:
        shape = (*sides, shape[4])
    if int(file.header["intent_code"]) in SURFACES:
        raise InvalidImage(f"{path} is CIFTI, points on a surface, and no image.")
    if not 2 <= len(shape) <= 4:
        raise InvalidImage(
            f"{path} has {len(shape)} axes ({' x '.join(map(str, shape))}).",
            allowed="2 or 3 axes, and one more for channels",
        )
    return shape, sides


def _affine(path: Path, file: Any, sides: int) -> Array:
    """From voxels to millimetres; a single slice may lack a direction across."""
    affine = np.array(file.affine, dtype=np.float64)
    affine[:3] *= MILLIMETRES.get(file.header.get_xyzt_units()[0], 1.0)
    if sides == 2 and not affine[:3, 2].any():
        across = np.cross(affine[:3, 0], affine[:3, 1])
        affine[:3, 2] = across / (np.linalg.norm(across) or 1)
    lengths = np.linalg.norm(affine[:3, :3], axis=0)
    volume = abs(np.linalg.det(affine[:3, :3])) if np.isfinite(affine).all() else 0.0
    if not volume > 1e-6 * lengths.prod():
        raise InvalidImage(f"{path} does not say where its pixels lie: its affine is degenerate.")
    return affine


def _values(path: Path, file: Any) -> Array:
    """Scaled values; whole numbers stay whole where the header does not scale."""
    stored: np.dtype[Any] = file.get_data_dtype()
    if stored.names:  # RGB and RGBA are three or four bytes a voxel
        raw = np.asarray(file.dataobj)
        return np.stack([raw[name] for name in stored.names[:3]], axis=-1)
    if stored.kind == "c":
        raise InvalidImage(f"{path} holds complex numbers.", fix="save their magnitude")
    return np.asarray(file.dataobj)


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
    file.header.set_intent("none")  # what the image's numbers mean, not the mask's
    file.header["cal_min"] = file.header["cal_max"] = 0  # likewise its window
    content = file.to_bytes()
    path.write_bytes(
        gzip.compress(content, mtime=0) if path.name.lower().endswith(".gz") else content
    )


def _columns_first(values: Array, geometry: Geometry) -> tuple[Array, Array]:
    """Values (x, y, z) and their affine, from values in another format's order."""
    if not geometry.column_major:
        values, geometry = values.T, geometry.reversed()
    if geometry.affine is not None:
        return values, geometry.affine
    known = geometry.spacing or (1.0,) * len(geometry.shape)
    return values, UPRIGHT @ np.diag([*known, *[1.0] * (4 - len(known))])
