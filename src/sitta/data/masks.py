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

MOST_CLASSES = 2**16 - 1


def read_mask(path: str | Path, like: Image | None = None, classes: int = 2) -> Array:
    """Read a mask as whole numbers ``(*S)``: 0 for background, then the classes.

    Of two classes, any one value besides 0 stands for the second (1, 255, ...). The pixels are
    brought into the order of ``like``, if the files say how both lie.

    Args:
        path: Of any format that ``read`` takes.
        like: The image that it belongs to.
        classes: How many values it may hold.

    Raises:
        InvalidImage: More values than classes, colours, or another size or place than the image's.
    """
    if classes < 2:
        raise InvalidSetting("A mask has two classes or more.", got=str(classes))
    image = read(path)
    values = image.pixels if image.indices is None else image.indices[None]
    if (values != values[:1]).any():
        raise InvalidImage(
            f"{path} is no mask: it has {len(values)} channels that differ, such as colours.",
            fix="save one number a class",
        )
    labels = _labels(image.path, values[0], classes)
    return labels if like is None else _aligned(labels, image, like)


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
        return np.asarray(values != 0, dtype=np.uint8)
    if (found != np.round(found)).any() or found[0] < 0 or found[-1] >= classes:
        raise InvalidImage(
            f"{path} is no mask of {classes} classes: its values are {shown}.",
            allowed=f"whole numbers from 0 to {classes - 1}",
        )
    return values.astype(np.uint8 if classes <= 256 else np.uint16)


def _aligned(labels: Array, mask: Image, like: Image) -> Array:
    """A mask in the order of its image; refuses one of another size or place."""
    here, there = mask.geometry, like.geometry
    placed = here.affine is not None and there.affine is not None
    if placed:
        labels, affine = _reordered(labels, mask, like)
    elif here.column_major != there.column_major:
        labels = labels.T
    if [n for n in labels.shape if n > 1] != [n for n in there.shape if n > 1]:
        raise InvalidImage(
            f"{mask.path} has another size than its image {like.path.name}.",
            allowed=" x ".join(map(str, there.shape)),
            got=" x ".join(map(str, labels.shape)),
        )
    if placed:
        _check_place(affine, mask, like)
    return np.ascontiguousarray(labels.reshape(there.shape))


def _reordered(labels: Array, mask: Image, like: Image) -> tuple[Array, Array]:
    """Turn and flip a mask so that its voxels follow each other as the image's do.

    Returns:
        The mask with three sides, and the affine that it has then.
    """
    shape, affine = (*labels.shape, 1)[:3], np.array(mask.geometry.affine)
    turn = np.round(np.linalg.solve(_steps(like.geometry), _steps(mask.geometry)))
    if not (np.abs(turn).sum(0) == 1).all() or not (np.abs(turn).sum(1) == 1).all():
        raise InvalidImage(
            f"{mask.path} runs in other directions than its image {like.path.name}.",
            fix="resample it to the image first",
        )
    axes = np.abs(turn).argmax(axis=1)  # side i of the image is side axes[i] of the mask
    flips = tuple(i for i in range(3) if turn[i, axes[i]] < 0)
    for side in (axes[i] for i in flips):
        affine[:3, 3] += affine[:3, side] * (shape[side] - 1)
        affine[:3, side] *= -1
    moved = np.flip(labels.reshape(shape).transpose(axes), flips)
    return moved, affine[:, [*axes, 3]]


def _steps(geometry: Geometry) -> Array:
    """Directions of the three sides, as unit vectors."""
    steps = np.asarray(geometry.affine)[:3, :3]
    return np.asarray(steps / np.linalg.norm(steps, axis=0))


def _check_place(affine: Array, mask: Image, like: Image) -> None:
    """Refuse a mask of which a corner lies more than half a voxel off; turned as the image."""
    shape = np.array((*like.geometry.shape, 1)[:3])
    corners = np.array(list(np.ndindex(2, 2, 2))) * (shape - 1)
    away = corners @ (affine - like.geometry.affine)[:3, :3].T
    away = away + (affine - like.geometry.affine)[:3, 3]
    furthest = float(np.linalg.norm(away, axis=1).max())
    if furthest > 0.5 * min(like.geometry.spacing or (1.0,)):
        raise InvalidImage(
            f"{mask.path} lies up to {furthest:.2f} mm away from its image {like.path.name}.",
            fix="resample it to the image first",
        )


def write_mask(
    mask: Any, path: str | Path, like: Image, labels: Sequence[str] = ("foreground",)
) -> None:
    """Write a mask in the geometry of its image, by the ending of the name.

    PNG and TIFF hold 0 and 255 for two classes (one label), else the numbers; NIfTI holds the
    numbers; ``.dcm`` is a DICOM SEG. A volume fits in TIFF, NIfTI and DICOM SEG.

    Args:
        mask: Whole numbers ``(*S)``, as large as the image.
        path: ``.png``, ``.tif``, ``.nii``, ``.nii.gz`` or ``.dcm``.
        like: The image, as read.
        labels: Names of the classes from 1 on, which a DICOM SEG holds.

    Raises:
        InvalidImage: Another size than the image's, or no whole numbers.
        InvalidSetting: A name whose ending is no format that can hold this mask, or too few labels.
        MissingExtra: A DICOM SEG without the packages for it.
    """
    values = np.asarray(mask)
    kind = _target(path, like, values)
    if values.dtype.kind not in "bui":
        raise InvalidImage("A mask is made of whole numbers.", got=str(values.dtype))
    low, high = int(values.min()), int(values.max())
    if low < 0 or high > MOST_CLASSES:
        raise InvalidImage(
            "A mask is made of numbers of classes.",
            allowed=f"0 to {MOST_CLASSES}",
            got=f"{low} to {high}",
        )
    values = values.astype(np.uint8 if high < 256 else np.uint16)
    if kind in ("PNG", "TIFF") and len(labels) == 1 and high <= 1:
        values = values * np.uint8(255)
    _write(Path(path), kind, values, like, labels)


def write_map(values: Any, path: str | Path, like: Image) -> None:
    """Write a map of numbers from 0 to 1, such as a probability, in the geometry of its image.

    TIFF and NIfTI hold them as float32; PNG holds them as 16 bits, 65535 for 1.

    Args:
        values: ``(*S)``, as large as the image.
        path: ``.png``, ``.tif``, ``.nii`` or ``.nii.gz``.
        like: The image, as read.

    Raises:
        InvalidImage: Another size than the image's, or numbers that are not finite.
        InvalidSetting: A name whose ending is no format that can hold this map.
    """
    found = np.asarray(values, dtype=np.float32)
    kind = _target(path, like, found)
    if not np.isfinite(found).all():
        raise InvalidImage("The map holds numbers that are not finite.")
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
        "PNG": lambda p: raster.write(p, np.ascontiguousarray(on_screen), like),
        "TIFF": lambda p: tiff.write(p, np.ascontiguousarray(on_screen), like),
        "NIfTI": lambda p: nifti.write(p, values, like),
        "DICOM": lambda p: segmentation.write(p, values, like, list(labels)),
    }
    with finished(path) as draft:
        writers[kind](draft)
