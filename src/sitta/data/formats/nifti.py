"""NIfTI, by nibabel: any orientation and order of axes, scaled values, 2D to 4D."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sitta.data.formats.base import Format
from sitta.data.image import Array, Geometry, Image, check_complete, check_size
from sitta.errors import InvalidImage

UPRIGHT = np.diag([-1.0, -1.0, 1.0, 1.0])  # rows run to the back, columns to the left, as on a film
MOST_BEFORE = 2**26  # bytes of header and extensions before the pixels
MILLIMETRES = {"meter": 1000.0, "micron": 0.001}
FREE_TEXT = ("descrip", "aux_file", "intent_name", "db_name", "data_type")
SURFACES = range(3000, 3100)  # intents of CIFTI, whose axes are not those of an image


class Nifti(Format):
    """By nibabel. The header is checked first: nibabel unpacks whatever a file announces."""

    name = "NIfTI"
    suffixes = (".nii", ".nii.gz")
    gzipped = True
    decoders = ("nibabel",)
    masks = maps = volumes = True
    mask_suffix = ""

    def matches(self, head: bytes) -> bool:
        """By four bytes at the end of the header, or after its length in version 2."""
        return head[344:348] == b"n+1\0" or head[4:8] == b"n+2\0"

    def refuse_relative(self, path: Path, head: bytes) -> None:
        """Refuse a header or pixels that lie in two files."""
        if head[344:348] == b"ni1\0" or head[4:8] == b"ni2\0":
            raise InvalidImage(
                f"{path} is one half of a NIfTI pair (.hdr and .img).",
                fix="save it as one .nii file",
            )

    def read(self, path: Path, limit: int) -> Image:
        """Read an image or a volume; a fourth axis, or a fifth of one time, holds the channels."""
        file = _load(path, limit)
        sides = _sides(path, file)
        values, stored = np.asarray(file.dataobj), file.get_data_dtype()
        if stored.kind == "c":
            raise InvalidImage(f"{path} holds complex numbers.", fix="save their magnitude")
        if stored.names:  # RGB and RGBA are three or four bytes a voxel
            values = np.stack([values[name] for name in stored.names[:3]], axis=-1)
        values = values.reshape(*sides, -1)  # channels last, also if there is one
        geometry = Geometry(sides, _affine(path, file, len(sides)), column_major=True)
        return Image(np.moveaxis(values, -1, 0), geometry, "NIfTI", path, header=file.header)

    def write(self, path: Path, values: Array, like: Image, labels: Sequence[str]) -> None:
        """Write values (*S) where the pixels of ``like`` lie; a NIfTI image's header is kept."""
        import nibabel as nib

        if like.kind == "NIfTI":
            header = like.header.copy()
            kind = nib.Nifti2Image if isinstance(header, nib.Nifti2Header) else nib.Nifti1Image
            sides = header.get_data_shape()[:3]  # with sides of one pixel, which reading drops
            file = kind(values.reshape(sides), None, header)  # None: both of its affines stay
        else:
            columns_first = like.geometry.column_major
            geometry = like.geometry if columns_first else like.geometry.reversed()
            affine, spacing = geometry.affine, geometry.spacing or (1.0,) * values.ndim
            if affine is None:
                affine = UPRIGHT @ np.diag([*spacing, *[1.0] * (4 - len(spacing))])
            file = nib.Nifti1Image(values if columns_first else values.T, affine)
            file.header.set_xyzt_units("mm", "sec")
        file.header.set_data_dtype(values.dtype)
        file.header.set_intent("none")  # what the image's numbers mean, not the mask's
        file.header["cal_min"] = file.header["cal_max"] = 0  # likewise its window
        zipped = path.name.lower().endswith(".gz")
        path.write_bytes(gzip.compress(file.to_bytes(), mtime=0) if zipped else file.to_bytes())

    def shareable_header(self, image: Image) -> Any:
        """The header without extensions and free text."""
        header = image.header.copy()
        header.extensions.clear()
        for name in set(FREE_TEXT).intersection(header.keys()):
            header[name] = b""
        return header


def _load(path: Path, limit: int) -> Any:
    """Load a file, and unpack no more than its header announces."""
    import nibabel as nib

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


def _sides(path: Path, file: Any) -> tuple[int, ...]:
    """The sides of an image or a volume, without axes of one at the end and without channels."""
    shape = tuple(int(n) for n in file.shape)
    while len(shape) > 2 and shape[-1] == 1:
        shape = shape[:-1]
    if len(shape) == 5 and shape[3] == 1:
        shape = (*shape[:3], shape[4])
    if int(file.header["intent_code"]) in SURFACES:
        raise InvalidImage(f"{path} is CIFTI, points on a surface, and no image.")
    if not 2 <= len(shape) <= 4:
        raise InvalidImage(
            f"{path} has {len(shape)} axes ({' x '.join(map(str, shape))}).",
            allowed="2 or 3 axes, and one more for channels",
        )
    return shape[:3]


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
