"""One DICOM file, of one frame or several, by pydicom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydicom import uid
from pydicom.pixels import apply_color_lut, apply_modality_lut

from sitta.data.formats.base import inverted
from sitta.data.formats.dicom_codecs import decode, standard_name
from sitta.data.formats.dicom_geometry import arrange, frame_groups, frame_places, place_of
from sitta.data.formats.dicom_parse import announced, parse
from sitta.data.formats.dicom_seg import merged
from sitta.data.image import Array, Geometry, Image, check_size
from sitta.errors import InvalidImage

PIXELS = ("PixelData", "FloatPixelData", "DoubleFloatPixelData")


@dataclass(frozen=True)
class Origin:
    """The files that a mask refers to."""

    datasets: Sequence[Any]  # without their pixels, in the order of the slices
    frames: Sequence[int] | None = None  # of a file of several: which frame each slice is


def read(path: Path, limit: int) -> Image:
    """One file: an image, or a volume if it has several frames."""
    dataset = load(path, limit)
    values, indices = take_values(path, dataset)  # (C, H, W) or (C, D, H, W)
    several = values.ndim == 4
    places = frame_places(path, dataset, values.shape[1]) if several else [place_of(path, dataset)]
    if several and dataset.get("SegmentationType") == "BINARY":  # each frame holds one segment
        values, places = merged(path, dataset, values, places)
    order, affine, spacing = arrange(path, places)
    if several:
        values = values[:, 0] if len(places) == 1 else values[:, order]
        indices = None if indices is None else indices[order]
    geometry = Geometry(values.shape[1:], affine, spacing)
    origin = Origin([dataset], order if several else None)
    return Image(values, geometry, "DICOM", path, origin, indices)


def load(path: Path, limit: int, pixels: bool = True) -> Any:
    """A dataset whose header announces an image of an allowed size."""
    dataset = parse(path, limit, pixels)
    if "TransferSyntaxUID" not in dataset.file_meta:
        implicit, little = dataset.original_encoding
        explicit = uid.ExplicitVRLittleEndian if little else uid.ExplicitVRBigEndian
        dataset.file_meta.TransferSyntaxUID = uid.ImplicitVRLittleEndian if implicit else explicit
    _check_image(path, dataset, pixels)
    if has_size(dataset):
        check_size(path, announced(dataset), limit)
    if "MOSAIC" in (dataset.get("ImageType") or ()):
        raise InvalidImage(
            f"{path} is a mosaic: the slices of a volume, side by side in one image.",
            fix="convert it to NIfTI, e.g. by dcm2niix",
        )
    return dataset


def _check_image(path: Path, dataset: Any, pixels: bool) -> None:
    """Refuse a file without pixels; a header alone may be that of a report or a plan."""
    complete = has_size(dataset) and (not pixels or any(name in dataset for name in PIXELS))
    meta = dataset.file_meta
    kind = standard_name(dataset.get("SOPClassUID") or meta.get("MediaStorageSOPClassUID"))
    other = kind != "unknown" and "Image Storage" not in kind
    if complete or (other and not pixels):
        return
    if other:
        raise InvalidImage(f"{path} is a DICOM file without an image (its class: {kind}).")
    raise InvalidImage(
        f"{path} is cut short, or no image: it is a DICOM file without pixels.",
        fix="copy, download or export it again",
    )


def has_size(dataset: Any) -> bool:
    """Whether the header is that of an image."""
    return "Rows" in dataset and "Columns" in dataset


def take_values(path: Path, dataset: Any) -> tuple[Array, Array | None]:
    """Take out the pixels (C, H, W), or (C, D, H, W) of several frames; and palette indices."""
    values = decode(path, dataset)
    several = int(dataset.get("NumberOfFrames") or 1) > 1
    for name in PIXELS:
        dataset.pop(name, None)
    indices = None
    if dataset.get("PhotometricInterpretation") == "PALETTE COLOR":
        indices, values = values, apply_color_lut(values, dataset)[..., :3]
    if values.ndim == (4 if several else 3):
        return np.moveaxis(values, -1, 0), indices
    grey = _grey(path, dataset, values if several else values[None])
    return (grey if several else grey[:, 0]), None


def _grey(path: Path, dataset: Any, values: Array) -> Array:
    """Frames (D, H, W) as (1, D, H, W), rescaled, with white as their highest value."""
    table = dataset.get("ModalityLUTSequence")
    bits = int(table[0].LUTDescriptor[2] if table else dataset.get("BitsStored") or 0)
    values = np.asarray(apply_modality_lut(values, dataset)) if table else values
    if dataset.get("PhotometricInterpretation") == "MONOCHROME1":  # white is the lowest value
        values = inverted(values, bits)
    if table:
        return values[None]
    groups = frame_groups(path, dataset, "PixelValueTransformationSequence", len(values))
    pairs = [
        (float(g.get("RescaleSlope") or 1), float(g.get("RescaleIntercept") or 0)) for g in groups
    ]
    if all(pair == (1, 0) for pair in pairs):
        return values[None]
    scaled = np.empty(values.shape, np.float32 if values.dtype.itemsize <= 2 else np.float64)
    for frame, (slope, intercept) in enumerate(pairs):
        scaled[frame] = values[frame] * slope + intercept
    return scaled[None]
