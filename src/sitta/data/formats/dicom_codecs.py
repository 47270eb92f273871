"""Decode the pixels of a DICOM file, after comparing compressed streams with the header."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from pydicom.encaps import generate_frames
from pydicom.pixels import get_decoder, pixel_array
from pydicom.uid import UID, UID_dictionary

from sitta.data.image import Array
from sitta.errors import InvalidImage

JPEG_2000 = b"\xff\x4f\xff\x51"  # start of the stream, and of the segment with its size
JP2 = b"\0\0\0\x0cjP  "  # start of a container around such a stream
JPEG_SIZES = {*range(0xC0, 0xD0), 0xF7} - {0xC4, 0xC8, 0xCC}  # markers; F7 is JPEG-LS
DECODERS = {  # by what a name of a transfer syntax starts with
    "JPEG-LS": "pyjpegls",
    "JPEG 2000": "pylibjpeg pylibjpeg-openjpeg",
    "High-Throughput": "pylibjpeg pylibjpeg-openjpeg",
    "JPEG": "pylibjpeg pylibjpeg-libjpeg",
}


def standard_name(uid: Any) -> str:
    """The name of an identifier in the standard; 'unknown' for any other text in its place."""
    return UID(uid).name if isinstance(uid, str) and uid in UID_dictionary else "unknown"


def decode(path: Path, dataset: Any) -> Array:
    """The stored values, by the decoder for this transfer syntax, if one is installed."""
    syntax = dataset.file_meta.TransferSyntaxUID
    name = standard_name(syntax)
    try:
        decoder = get_decoder(syntax)
    except NotImplementedError:
        raise InvalidImage(
            f"{path} is compressed ({name}) in a way that cannot be read.",
            fix="export it uncompressed",
        ) from None
    if not decoder.is_available:
        raise InvalidImage(
            f"{path} is compressed ({name}), and no decoder for that is installed.",
            fix=_remedy(name),
        )
    if syntax.is_encapsulated:
        _check_sizes(path, dataset)
    try:
        return np.asarray(pixel_array(dataset))
    except RuntimeError:  # of every installed decoder
        if decoder.available_plugins != ("pillow",):
            raise
        raise InvalidImage(
            f"{path} is damaged, or compressed ({name}) in a way that needs another decoder.",
            fix=_remedy(name),
        ) from None


def _remedy(name: str) -> str:
    packages = next((p for start, p in DECODERS.items() if name.startswith(start)), "pylibjpeg")
    return f"pip install {packages}"


def _check_sizes(path: Path, dataset: Any) -> None:
    """Refuse a stream of another size than the header's: a decoder would believe the stream."""
    announced = int(dataset.Rows), int(dataset.Columns)
    frames = int(dataset.get("NumberOfFrames") or 1)
    table = None
    if "ExtendedOffsetTable" in dataset and "ExtendedOffsetTableLengths" in dataset:
        table = dataset.ExtendedOffsetTable, dataset.ExtendedOffsetTableLengths  # as pydicom does
    streams = generate_frames(dataset.PixelData, number_of_frames=frames, extended_offsets=table)
    for stream in streams:
        if stream.startswith(JP2) and not code_in_boxes(stream):
            raise InvalidImage(
                f"{path} is damaged: the boxes around its compressed picture lead nowhere.",
                fix="copy, download or export it again",
            )
        size = stream_size(stream)
        if size is not None and size != announced:
            raise InvalidImage(
                f"{path} is damaged: its header announces {announced[0]} x {announced[1]} pixels, "
                f"and its compressed picture {size[0]} x {size[1]}."
            )


def code_in_boxes(stream: bytes) -> int | None:
    """Where the JPEG 2000 stream in a JP2 container starts; None if its boxes do not lead there.

    pydicom walks the same boxes, and stays at one of length 0 for ever.
    """
    position = 12  # after the first box
    while position + 8 <= len(stream):
        length, kind = (
            int.from_bytes(stream[position : position + 4]),
            stream[position + 4 : position + 8],
        )
        if kind == b"jp2c":
            start = position + 8
            return start if stream.startswith(JPEG_2000, start) else None
        if length < 8:  # 0 is the last box, 1 has its length elsewhere: no decoder gets further
            return None
        position += length
    return None


def stream_size(stream: bytes) -> tuple[int, int] | None:
    """Rows and columns that a JPEG, JPEG-LS or JPEG 2000 stream announces; None for others."""
    boxed = stream.startswith(JP2)
    start = code_in_boxes(stream) or -1 if boxed else stream.find(JPEG_2000, 0, 256)
    if start >= 0:
        numbers = stream[start + 8 : start + 24]
        right, bottom, left, top = (int.from_bytes(numbers[i : i + 4]) for i in range(0, 16, 4))
        return bottom - top, right - left
    position = 2 if stream[:2] == b"\xff\xd8" else len(stream)
    while position + 9 <= len(stream):
        marker, length = stream[position + 1], int.from_bytes(stream[position + 2 : position + 4])
        if marker in JPEG_SIZES:
            rows, columns = stream[position + 5 : position + 7], stream[position + 7 : position + 9]
            return int.from_bytes(rows), int.from_bytes(columns)
        position += 1 if marker == 0xFF else 2 + max(length, 2)  # markers may be padded
    return None
