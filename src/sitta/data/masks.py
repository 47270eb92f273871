"""Masks in and out, in the geometry of their images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sitta.data.picture import Array, Geometry, Image
from sitta.data.reading import read
from sitta.data.sniff import SUFFIXES, suffix
from sitta.errors import InvalidImage, InvalidSetting
from sitta.storage import finished


def read_mask(path: str | Path, like: Image | None = None, classes: int = 2) -> Array:
    """Read a mask as whole numbers ``(*S)``: 0 for background, then the classes.

    Of two classes, any one value besides 0 stands for the second (1, 255, ...). The pixels are
    brought into the order of ``like``, if the files say how both lie.

    Args:
        path: Of any format that ``read`` takes.
        like: The image that it belongs to.
        classes: How many values it may hold.

    Raises:
        InvalidImage: More values than classes, colours, or another size than the image's.
    """
    image = read(path)
    values = image.pixels if image.indices is None else image.indices[None]
    if (values != values[:1]).any():
        raise InvalidImage(f"{path} is no mask: it has colours.", fix="save one number a class")
    labels = _labels(Path(path), values[0], classes)
    return labels if like is None else _aligned(Path(path), labels, image.geometry, like)


def _labels(path: Path, values: Array, classes: int) -> Array:
    found = np.unique(values)
    shown = ", ".join(f"{v:g}" for v in found[:6]) + (", ..." if len(found) > 6 else "")
    if classes == 2:
        if len(found) > 2 or (len(found) == 2 and found[0] != 0):
            raise InvalidImage(
                f"{path} is no mask of two classes: it has {len(found)} values ({shown}).",
                allowed="0 and one other value",
                fix="save it without lossy compression or smoothing, one class at a time",
            )
        return (values != 0).astype(np.uint8)
    if (found != np.round(found)).any() or found[0] < 0 or found[-1] >= classes:
        raise InvalidImage(
            f"{path} is no mask of {classes} classes: its values are {shown}.",
            allowed=f"whole numbers from 0 to {classes - 1}",
        )
    return values.astype(np.uint8 if classes <= 256 else np.uint16)


def _aligned(path: Path, labels: Array, geometry: Geometry, like: Image) -> Array:
    """A mask in the order of its image; refuses one of another size or place."""
    target = like.geometry
    if geometry.affine is not None and target.affine is not None and labels.ndim == 3:
        labels = _reordered(path, labels, geometry.affine, like)
    elif geometry.column_major != target.column_major:
        labels = labels.T
    if labels.shape != target.shape:
        raise InvalidImage(
            f"{path} has another size than its image {like.path.name}.",
            allowed=" x ".join(map(str, target.shape)),
            got=" x ".join(map(str, labels.shape)),
        )
    return labels


def _reordered(path: Path, labels: Array, affine: Array, like: Image) -> Array:
    """Turn and flip a volume so that its voxels lie where the image's do."""
    assert like.geometry.affine is not None  # noqa: S101  (asked before)
    steps = np.linalg.solve(like.geometry.affine[:3, :3], affine[:3, :3])  # mask step, image steps
    turn = np.round(steps)
    if not np.allclose(steps, turn, atol=0.02) or not np.allclose(np.abs(turn).sum(0), 1):
        raise InvalidImage(
            f"{path} has voxels of another size or direction than its image {like.path.name}."
        )
    axes = np.abs(turn).argmax(axis=1)  # image axis i is mask axis axes[i]
    flipped = [i for i in range(3) if turn[i, axes[i]] < 0]
    moved = np.flip(labels.transpose(axes), flipped)
    ends = np.array([labels.shape[a] - 1 if i in flipped else 0 for i, a in enumerate(axes)])
    start = np.zeros(3)
    start[axes] = ends  # the mask index of the image's first voxel
    shift = affine[:3] @ [*start, 1] - like.geometry.affine[:3, 3]
    if moved.shape == like.geometry.shape and np.abs(shift).max() > 0.5 * min(
        like.geometry.spacing or (1,)
    ):
        raise InvalidImage(
            f"{path} lies {np.abs(shift).max():.2f} mm away from its image {like.path.name}."
        )
    return np.ascontiguousarray(moved)


def write_mask(
    mask: Any, path: str | Path, like: Image, labels: Sequence[str] = ("foreground",)
) -> None:
    """Write a mask in the geometry of its image, by the ending of the name.

    PNG and TIFF hold 0 and 255 for two classes, else the numbers; NIfTI holds the numbers;
    ``.dcm`` is a DICOM SEG. A volume fits in TIFF, NIfTI and DICOM SEG.

    Args:
        mask: Whole numbers ``(*S)``, as large as the image.
        path: ``.png``, ``.tif``, ``.nii``, ``.nii.gz`` or ``.dcm``.
        like: The image, as read.
        labels: Names of the classes from 1 on, for DICOM SEG.
    """
    values = np.asarray(mask)
    if values.dtype.kind not in "bui" or (values.size and values.min() < 0):
        raise InvalidImage("A mask is made of whole numbers >= 0.", got=str(values.dtype))
    values = values.astype(np.uint8 if values.size == 0 or values.max() < 256 else np.uint16)
    kind = _target(path, like, values)
    if kind in ("PNG", "TIFF") and len(labels) == 1 and values.max() <= 1:
        values = values * np.uint8(255)
    _write(Path(path), kind, values, like, labels)


def write_map(values: Any, path: str | Path, like: Image) -> None:
    """Write a map of numbers from 0 to 1, such as a probability, in the geometry of its image.

    TIFF and NIfTI hold them as float32; PNG holds them as 16 bits, 65535 for 1.

    Args:
        values: ``(*S)``, as large as the image.
        path: ``.png``, ``.tif``, ``.nii`` or ``.nii.gz``.
        like: The image, as read.
    """
    found = np.asarray(values, dtype=np.float32)
    kind = _target(path, like, found)
    if kind == "DICOM":
        raise InvalidSetting("A DICOM SEG holds masks only.", allowed=".png, .tif, .nii, .nii.gz")
    if kind == "PNG":
        found = np.round(np.clip(found, 0, 1) * 65535).astype(np.uint16)
    _write(Path(path), kind, found, like, ())


def _target(path: str | Path, like: Image, values: Array) -> str:
    """The format to write, if it can hold these values."""
    kind = SUFFIXES.get(suffix(Path(path)))
    if kind not in ("PNG", "TIFF", "NIfTI", "DICOM"):
        raise InvalidSetting(
            f"{path} does not end as a format that holds masks.",
            allowed=".png, .tif, .tiff, .nii, .nii.gz, .dcm (DICOM SEG)",
        )
    if values.shape != like.geometry.shape:
        raise InvalidImage(
            "The mask has another size than its image.",
            allowed=" x ".join(map(str, like.geometry.shape)),
            got=" x ".join(map(str, values.shape)),
        )
    if kind == "PNG" and values.ndim != 2:
        raise InvalidSetting(f"{path}: PNG holds no volume.", allowed=".tif, .nii, .nii.gz, .dcm")
    return kind


def _write(path: Path, kind: str, values: Array, like: Image, labels: Sequence[str]) -> None:
    """To a temporary name first, so that there is never half a file."""
    from sitta.data.formats import nifti, raster, segmentation, tiff

    on_screen = values.T if like.geometry.column_major else values
    writers: dict[str, Callable[[Path], None]] = {
        "PNG": lambda p: raster.write(p, np.ascontiguousarray(on_screen)),
        "TIFF": lambda p: tiff.write(p, np.ascontiguousarray(on_screen)),
        "NIfTI": lambda p: nifti.write(p, values, like),
        "DICOM": lambda p: segmentation.write(p, values, like, list(labels)),
    }
    with finished(path) as draft:
        writers[kind](draft)
