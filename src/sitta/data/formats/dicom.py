"""DICOM, by pydicom: one file, several frames, or a folder that is a series."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from pydicom.errors import InvalidDicomError
from pydicom.filereader import read_file_meta_info
from pydicom.pixels import apply_color_lut, apply_modality_lut, pixel_array
from pydicom.uid import DeflatedExplicitVRLittleEndian

from sitta.data.formats.positions import arrange, frame_groups, frame_places, place_of
from sitta.data.picture import Array, Geometry, Image, check_size
from sitta.errors import InvalidImage

DECODERS = "pip install pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg pyjpegls"
SUFFIXES = (".dcm", ".dicom", ".ima", "")  # names that promise a DICOM file
BEFORE_META = 128 + 4 + 12  # preamble, DICM, the element that holds the length of the meta group


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
    dataset = _load(path, limit)
    values = _values(path, dataset)  # (C, H, W) or (C, D, H, W)
    several = values.ndim == 4
    places = frame_places(dataset, values.shape[1]) if several else [place_of(dataset)]
    order, affine, spacing = arrange(path, places)
    pixels = values[:, order] if several else values
    geometry = Geometry(pixels.shape[1:], affine, spacing)
    return Image(pixels, geometry, "DICOM", path, Origin([dataset], order if several else None))


def read_series(folder: Path, limit: int) -> Image:
    """All DICOM files of a folder as one volume, sorted by position."""
    names = sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    heads = [(p, _head(p)) for p in names if p.name.upper() != "DICOMDIR"]
    slices = [(p, head) for p, head in heads if head is not None and "Rows" in head]
    _check_series(folder, [head for _, head in slices])
    first = slices[0][1]
    check_size(folder, (len(slices), int(first.Rows), int(first.Columns)), limit)
    order, affine, spacing = arrange(folder, [place_of(head) for _, head in slices])
    datasets = [_load(slices[i][0], limit) for i in order]
    planes = [_values(slices[i][0], d) for i, d in zip(order, datasets, strict=True)]
    if any(p.shape != planes[0].shape or p.ndim != 3 for p in planes):
        raise InvalidImage(f"{folder} mixes files of one frame with files of several.")
    pixels = planes[0] if len(planes) == 1 else np.stack(planes, axis=1)  # (C, D, H, W)
    geometry = Geometry(pixels.shape[1:], affine, spacing)
    return Image(pixels, geometry, "DICOM", folder, Origin(datasets))


def _check_series(folder: Path, heads: Sequence[Any]) -> None:
    if not heads:
        raise InvalidImage(f"{folder} holds no DICOM image.")
    series = {str(h.get("SeriesInstanceUID", "")): h for h in heads}
    if len(series) > 1:
        names = "; ".join(
            f"{h.get('SeriesNumber', '?')}: {h.get('SeriesDescription', 'no description')}"
            for h in list(series.values())[:5]
        )
        raise InvalidImage(
            f"{folder} holds {len(series)} series ({names}).",
            fix="put each series in a folder of its own",
        )
    sizes = sorted({(int(h.Rows), int(h.Columns)) for h in heads})
    if len(sizes) > 1:
        raise InvalidImage(f"{folder} holds slices of different sizes: {sizes[0]}, {sizes[1]}.")


def _head(path: Path) -> Any | None:
    """The header of a slice; None for a note or a thumbnail beside the slices."""
    try:
        return pydicom.dcmread(path, stop_before_pixels=True)
    except InvalidDicomError:
        if path.suffix.lower() in SUFFIXES:
            raise InvalidImage(f"{path} is no DICOM file, though its series needs it.") from None
        return None


def _load(path: Path, limit: int) -> Any:
    """A dataset whose header announces an image of a size that can be."""
    _check_inflated(path, limit)
    try:
        dataset = pydicom.dcmread(path)
    except InvalidDicomError:  # files of old have no preamble
        dataset = pydicom.dcmread(path, force=True)
    if "Rows" not in dataset or "Columns" not in dataset or "PixelData" not in dataset:
        kind = getattr(dataset.get("SOPClassUID"), "name", "unknown")
        raise InvalidImage(f"{path} is a DICOM file without an image (its class: {kind}).")
    frames = int(dataset.get("NumberOfFrames") or 1)
    samples = int(dataset.get("SamplesPerPixel") or 1)
    check_size(path, (frames, int(dataset.Rows), int(dataset.Columns), samples), limit)
    return dataset


def _check_inflated(path: Path, limit: int) -> None:
    """Refuse a deflated file that would fill the memory, without inflating it all."""
    with open(path, "rb") as file:
        if file.read(132)[128:] != b"DICM":
            return
        meta = read_file_meta_info(path)
        if meta.get("TransferSyntaxUID") != DeflatedExplicitVRLittleEndian:
            return
        file.seek(BEFORE_META + int(meta.FileMetaInformationGroupLength))
        inflater, total = zlib.decompressobj(-zlib.MAX_WBITS), 0
        waiting = file.read(1 << 16)
        while waiting and total <= 8 * limit:
            total += len(inflater.decompress(waiting, 1 << 24))
            waiting = inflater.unconsumed_tail or file.read(1 << 16)
    check_size(path, (total // 8,), limit)


def _values(path: Path, dataset: Any) -> Array:
    """Pixels (C, H, W), or (C, D, H, W) of several frames; the dataset gives up its own."""
    try:
        values = pixel_array(dataset)
    except (RuntimeError, NotImplementedError) as error:
        syntax = dataset.file_meta.TransferSyntaxUID.name
        raise InvalidImage(
            f"{path} is compressed ({syntax}), and no decoder for that is installed.", fix=DECODERS
        ) from error
    several = int(dataset.get("NumberOfFrames") or 1) > 1
    del dataset.PixelData
    if dataset.get("PhotometricInterpretation") == "PALETTE COLOR":
        values = apply_color_lut(values, dataset)
    if values.ndim == (4 if several else 3):
        return np.ascontiguousarray(np.moveaxis(values, -1, 0))
    return _rescaled(dataset, _upright(dataset, values), several)[None]


def _upright(dataset: Any, values: Array) -> Array:
    """MONOCHROME1 is stored with white as its lowest value."""
    if dataset.get("PhotometricInterpretation") != "MONOCHROME1":
        return values
    bits, signed = int(dataset.BitsStored), bool(dataset.get("PixelRepresentation", 0))
    both_ends = -1 if signed else 2**bits - 1  # lowest + highest value
    return both_ends - values.astype(np.int64 if bits > 16 else np.int32)


def _rescaled(dataset: Any, values: Array, several: bool) -> Array:
    """Slope and intercept, of the file or of each frame, or the table in their place."""
    if "ModalityLUTSequence" in dataset:
        return np.asarray(apply_modality_lut(values, dataset))
    groups = frame_groups(
        dataset, "PixelValueTransformationSequence", len(values) if several else 1
    )
    slopes = [
        (float(g.get("RescaleSlope") or 1), float(g.get("RescaleIntercept") or 0)) for g in groups
    ]
    if all(pair == (1, 0) for pair in slopes):
        return values
    slope, intercept = np.array(slopes).T.reshape(2, -1, *[1] * 2)  # (frames, 1, 1) each
    scaled = values * slope + intercept
    return np.asarray(scaled if several else scaled.reshape(values.shape)).astype(np.float32)
