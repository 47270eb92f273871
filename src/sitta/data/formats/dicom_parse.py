"""The one place where pydicom parses files: nothing unpacks to more than its header announces.

pydicom inflates a deflated file whole before it looks at a single element, so that a file of 3 MB
may take gigabytes. A test forbids ``dcmread`` elsewhere.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydicom import dcmread, uid
from pydicom.filereader import read_dataset, read_file_meta_info

from sitta.data.image import check_size
from sitta.errors import InvalidImage

BEFORE_META = 128 + 4 + 12  # preamble, DICM, the element that holds the length of the meta group
MOST_BESIDE = 2**26  # bytes of a header, beside the pixels
DEFLATED = uid.DeflatedExplicitVRLittleEndian
META_GROUP = b"\x02\0"
PIXEL_TAGS = (0x7FE00008, 0x7FE00009, 0x7FE00010)  # floats, doubles, whole numbers


def parse(path: Path, limit: int, pixels: bool = True) -> Any:
    """The dataset of a file; if deflated, of no more values than ``limit``."""
    meta = _meta(path)
    if meta is None or meta.get("TransferSyntaxUID") != DEFLATED:
        return dcmread(path, force=meta is None, stop_before_pixels=not pixels)
    dataset = _elements(_inflated(path, meta, limit), pixels)
    dataset.file_meta = meta
    dataset.file_meta.TransferSyntaxUID = uid.ExplicitVRLittleEndian  # which it is, once inflated
    return dataset


def parse_tags(path: Path, tags: Sequence[str]) -> Any:
    """A header with these elements at least, if it has them."""
    meta = _meta(path)
    if meta is None or meta.get("TransferSyntaxUID") != DEFLATED:
        asked = list(tags)
        return dcmread(path, force=meta is None, specific_tags=asked, stop_before_pixels=True)
    head = zlib.decompressobj(-zlib.MAX_WBITS).decompress(_packed(path, meta), MOST_BESIDE)
    return _elements(head, pixels=False)


def announced(dataset: Any) -> tuple[int, int, int, int]:
    """Frames, rows, columns and samples that a header announces."""
    frames, samples = dataset.get("NumberOfFrames"), dataset.get("SamplesPerPixel")
    return int(frames or 1), int(dataset.Rows), int(dataset.Columns), int(samples or 1)


def _meta(path: Path) -> Any | None:
    """The meta group; None for an old file, which has no preamble."""
    with open(path, "rb") as file:
        head = file.read(132)
    if head[128:] == b"DICM":
        return read_file_meta_info(path)
    if head[:2] == META_GROUP and DEFLATED.encode() in path.read_bytes():  # pydicom would inflate
        raise InvalidImage(
            f"{path} is damaged: it is a deflated DICOM file without a preamble.",
            fix="copy, download or export it again",
        )
    return None


def _elements(content: bytes, pixels: bool) -> Any:
    """The dataset of inflated bytes. ``dcmread`` would inflate a second file inside them."""
    end = None if pixels else _at_pixels
    return read_dataset(io.BytesIO(content), False, True, stop_when=end)


def _at_pixels(tag: int, vr: str | None, length: int) -> bool:
    return tag in PIXEL_TAGS


def _packed(path: Path, meta: Any) -> bytes:
    return path.read_bytes()[BEFORE_META + int(meta.FileMetaInformationGroupLength) :]


def _inflated(path: Path, meta: Any, limit: int) -> bytes:
    """The content of a deflated file: its header first, then no more than that announces."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    content = inflater.decompress(_packed(path, meta), MOST_BESIDE)
    if not inflater.eof:
        head = _elements(content, pixels=False)
        shape = announced(head)
        check_size(path, shape, limit)
        size = int(np.prod(shape, dtype=object)) * int(head.BitsAllocated) // 8
        content += inflater.decompress(inflater.unconsumed_tail, size + 1)
        if not inflater.eof:
            raise InvalidImage(
                f"{path} is damaged: it unpacks to more than its header announces, or is cut short."
            )
    return content
