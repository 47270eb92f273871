"""What a compressed picture inside a DICOM file says of itself, before it is decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from pydicom.encaps import generate_frames
from pydicom.pixels import get_decoder, pixel_array
from pydicom.uid import UID, UID_dictionary

from sitta.data.picture import Array
from sitta.errors import InvalidImage

JPEG_2000 = b"\xff\x4f\xff\x51"  # start of the stream, and of the segment with its size
JPEG_SIZES = {*range(0xC0, 0xD0), 0xF7} - {0xC4, 0xC8, 0xCC}  # markers; F7 is JPEG-LS
DECODERS = {  # by what a name of a transfer syntax starts with
    "JPEG-LS": "pyjpegls",
    "JPEG 2000": "pylibjpeg pylibjpeg-openjpeg",
    "High-Throughput": "pylibjpeg pylibjpeg-openjpeg",
    "JPEG": "pylibjpeg pylibjpeg-libjpeg",
}


def known_name(uid: Any) -> str:
    """The name of an identifier in the standard; never what a file writes in its place."""
    return UID(uid).name if isinstance(uid, str) and uid in UID_dictionary else "unknown"


def decode(path: Path, dataset: Any) -> Array:
    """The stored values, by the decoder for this transfer syntax, if it is there."""
    syntax = dataset.file_meta.TransferSyntaxUID
    name = known_name(syntax)
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
    except RuntimeError:  # of every decoder that is there
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
    for stream in generate_frames(dataset.PixelData, number_of_frames=frames):
        size = stream_size(stream)
        if size is not None and size != announced:
            raise InvalidImage(
                f"{path} is damaged: its header announces {announced[0]} x {announced[1]} pixels, "
                f"and its compressed picture {size[0]} x {size[1]}."
            )


def stream_size(stream: bytes) -> tuple[int, int] | None:
    """Rows and columns that a JPEG, JPEG-LS or JPEG 2000 stream announces; None for others."""
    start = stream.find(JPEG_2000, 0, 256)  # a container may come first
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
