"""Masks in and out, in the geometry of their images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sitta._util.files import atomic_write
from sitta.data.detect import named_format
from sitta.data.formats import FORMATS, Format
from sitta.data.image import Array, Image
from sitta.data.reading import read
from sitta.errors import InvalidImage, InvalidSetting

MOST_CLASSES = 2**16 - 1
HEADER = 1024  # bytes that a file of any format may have beside its values


def read_mask(path: str | Path, like: Image | None = None, classes: int = 2) -> Array:
    """Read a mask as whole numbers ``(*S)``: 0 for background, then the classes.

    With two classes, any one value besides 0 is the foreground (1, 255, ...). The pixels are
    brought into the order of ``like`` if both files have a geometry.

    Args:
        path: A file of any format that ``read`` takes.
        like: The image that the mask belongs to.
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
    present = np.unique(values)
    shown = ", ".join(f"{v:g}" for v in present[:6]) + (", ..." if len(present) > 6 else "")
    if classes == 2:
        if len(present) > 2 or (len(present) == 2 and present[0] != 0):
            raise InvalidImage(
                f"{path} is no mask of two classes: it has {len(present)} values ({shown}).",
                allowed="0 and one other value",
                fix="save it without lossy compression or smoothing, one class at a time",
            )
        return np.asarray(values != 0, dtype=np.uint8)
    if (present != np.round(present)).any() or present[0] < 0 or present[-1] >= classes:
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
    """A mask with its three sides turned and flipped into the image's order, and its new affine."""
    shape, affine = (*labels.shape, 1)[:3], np.array(mask.geometry.affine)
    steps = [np.asarray(image.geometry.affine)[:3, :3] for image in (like, mask)]
    turn = np.round(np.linalg.solve(*(s / np.linalg.norm(s, axis=0) for s in steps)))
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


def _check_place(affine: Array, mask: Image, like: Image) -> None:
    """Refuse a mask with a corner more than half a voxel away from its image's."""
    shape = np.array((*like.geometry.shape, 1)[:3])
    corners = np.array(list(np.ndindex(2, 2, 2))) * (shape - 1)
    off = affine - like.geometry.affine
    furthest = float(np.linalg.norm(corners @ off[:3, :3].T + off[:3, 3], axis=1).max())
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
        path: Its ending decides the format.
        like: The image, as read.
        labels: Names of the classes from 1 on, which a DICOM SEG holds.

    Raises:
        InvalidImage: Another size than the image's, or no whole numbers.
        InvalidSetting: A name whose ending is no format that can hold this mask, or too few labels.
        MissingExtra: A DICOM SEG without the packages for it.
    """
    values = np.asarray(mask)
    target = _target(path, like, values)
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
    if len(labels) == 1 and high <= 1:
        values = values * np.uint8(target.foreground)
    with atomic_write(Path(path), values.nbytes + HEADER) as draft:
        target.write(draft, values, like, labels)


def shareable(image: Image) -> Image:
    """The image without what its header says of the patient; masks written like it have none."""
    return replace(image, header=FORMATS[image.kind].shareable_header(image))


def write_map(values: Any, path: str | Path, like: Image) -> None:
    """Write a map of numbers from 0 to 1, such as a probability, in the geometry of its image.

    TIFF and NIfTI hold them as float32; PNG holds them as 16 bits, 65535 for 1.

    Args:
        values: ``(*S)``, as large as the image.
        path: Its ending decides the format.
        like: The image, as read.

    Raises:
        InvalidImage: Another size than the image's, or numbers that are not finite.
        InvalidSetting: A name whose ending is no format that can hold this map.
    """
    numbers = np.asarray(values, dtype=np.float32)
    target = _target(path, like, numbers)
    if not np.isfinite(numbers).all():
        raise InvalidImage("The map holds numbers that are not finite.")
    if not target.maps:
        raise InvalidSetting(
            f"{path} cannot be a map: {target.name} holds masks only.",
            allowed=_endings(each for each in FORMATS.values() if each.maps),
        )
    with atomic_write(Path(path), numbers.nbytes + HEADER) as draft:
        target.write(draft, numbers, like, ())


def _target(path: str | Path, like: Image, values: Array) -> Format:
    """The format to write, if it can hold these values."""
    writable = [each for each in FORMATS.values() if each.masks]
    target = next((each for each in writable if each.name == named_format(Path(path))), None)
    if target is None:
        raise InvalidSetting(
            f"{path} does not end as a format that holds masks.", allowed=_endings(writable)
        )
    if values.shape != like.geometry.shape:
        raise InvalidImage(
            "The mask has another size than its image.",
            allowed=" x ".join(map(str, like.geometry.shape)),
            got=" x ".join(map(str, values.shape)),
        )
    if values.ndim != 2 and not target.volumes:
        raise InvalidSetting(
            f"{path}: {target.name} holds no volume.",
            allowed=_endings(each for each in writable if each.volumes),
        )
    return target


def _endings(formats: Iterable[Format]) -> str:
    return ", ".join(ending for each in formats for ending in each.suffixes)
