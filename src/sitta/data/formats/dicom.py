"""DICOM, by pydicom: one file, of one frame or of several."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from pydicom.filereader import read_file_meta_info
from pydicom.pixels import apply_color_lut, apply_modality_lut
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
)

from sitta.data.formats.encapsulated import decode, known_name
from sitta.data.formats.positions import arrange, frame_groups, frame_places, place_of
from sitta.data.formats.segments import is_segmentation, merged
from sitta.data.picture import Array, Geometry, Image, check_size
from sitta.errors import InvalidImage

BEFORE_META = 128 + 4 + 12  # preamble, DICM, the element that holds the length of the meta group
MOST_BESIDE = 2**26  # bytes of a header, beside the pixels
PIXELS = ("PixelData", "FloatPixelData", "DoubleFloatPixelData")


@dataclass(frozen=True)
class Origin:
    """What a mask needs to refer to the images it was drawn on.

    Attributes:
        datasets: The files without their pixels, in the order of the slices.
        frames: For a file of several frames: which frame each slice is.
    """

    datasets: Sequence[Any]
    frames: Sequence[int] | None = None


def read(path: Path, limit: int) -> Image:
    """One file: an image, or a volume if it has several frames."""
    dataset = load(path, limit)
    values, indices = take_values(path, dataset)  # (C, H, W) or (C, D, H, W)
    several = values.ndim == 4
    places = frame_places(path, dataset, values.shape[1]) if several else [place_of(path, dataset)]
    if several and is_segmentation(dataset):
        values, places = merged(path, dataset, values, places)
    order, affine, spacing = arrange(path, places)
    if several:
        one = len(places) == 1
        values = values[:, 0] if one else values[:, order]
        indices = None if indices is None else indices[order]
    geometry = Geometry(values.shape[1:], affine, spacing)
    origin = Origin([dataset], order if several else None)
    return Image(values, geometry, "DICOM", path, origin, indices)


def load(path: Path, limit: int, pixels: bool = True) -> Any:
    """A dataset whose header announces an image of a size that can be."""
    with open(path, "rb") as file:
        bare = file.read(132)[128:] != b"DICM"  # files of old have no preamble
    meta = None if bare else read_file_meta_info(path)
    if meta is not None and meta.get("TransferSyntaxUID") == DeflatedExplicitVRLittleEndian:
        dataset = _inflated(path, meta, limit, pixels)
    else:
        dataset = pydicom.dcmread(path, force=bare, stop_before_pixels=not pixels)
    if "TransferSyntaxUID" not in dataset.file_meta:
        implicit, little = dataset.original_encoding
        explicit = ExplicitVRLittleEndian if little else ExplicitVRBigEndian
        dataset.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian if implicit else explicit
    _check_image(path, dataset, pixels)
    if has_size(dataset):
        check_size(path, _announced(dataset), limit)
    if "MOSAIC" in (dataset.get("ImageType") or ()):
        raise InvalidImage(
            f"{path} is a mosaic: the slices of a volume, side by side in one image.",
            fix="convert it to NIfTI, e.g. by dcm2niix",
        )
    return dataset


def _check_image(path: Path, dataset: Any, pixels: bool) -> None:
    """Refuse what has no pixels; a header alone may be that of a report or a plan."""
    there = has_size(dataset) and (not pixels or any(name in dataset for name in PIXELS))
    kind = known_name(
        dataset.get("SOPClassUID") or dataset.file_meta.get("MediaStorageSOPClassUID")
    )
    other = kind != "unknown" and "Image Storage" not in kind
    if there or (other and not pixels):
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


def _announced(dataset: Any) -> tuple[int, int, int, int]:
    frames, samples = dataset.get("NumberOfFrames"), dataset.get("SamplesPerPixel")
    return int(frames or 1), int(dataset.Rows), int(dataset.Columns), int(samples or 1)


def _inflated(path: Path, meta: Any, limit: int, pixels: bool) -> Any:
    """A deflated file; its header is unpacked first, and then no more than that announces."""
    start = BEFORE_META + int(meta.FileMetaInformationGroupLength)
    packed = path.read_bytes()[start:]
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    content = inflater.decompress(packed, MOST_BESIDE)
    if not inflater.eof:
        head = pydicom.dcmread(io.BytesIO(content), force=True, stop_before_pixels=True)
        shape = _announced(head)
        check_size(path, shape, limit)
        size = int(np.prod(shape, dtype=object)) * int(head.BitsAllocated) // 8
        content += inflater.decompress(inflater.unconsumed_tail, size + 1)
        if not inflater.eof:
            raise InvalidImage(
                f"{path} is damaged: it unpacks to more than its header announces, or is cut short."
            )
    dataset = pydicom.dcmread(io.BytesIO(content), force=True, stop_before_pixels=not pixels)
    dataset.file_meta = meta
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian  # which it is, once inflated
    return dataset


def take_values(path: Path, dataset: Any) -> tuple[Array, Array | None]:
    """Pixels (C, H, W), or (C, D, H, W) of several frames, and the numbers behind a palette.

    The dataset gives up its own.
    """
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
    if table:
        bits = int(table[0].LUTDescriptor[2])
        return _upright(dataset, np.asarray(apply_modality_lut(values, dataset)), bits)[None]
    values = _upright(dataset, values, int(dataset.get("BitsStored") or 0))
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


def _upright(dataset: Any, values: Array, bits: int) -> Array:
    """MONOCHROME1 is stored with white as its lowest value."""
    if dataset.get("PhotometricInterpretation") != "MONOCHROME1":
        return values
    if values.dtype.kind == "u":
        return np.asarray(values.dtype.type(2**bits - 1) - values)
    return ~values if values.dtype.kind == "i" else -values
