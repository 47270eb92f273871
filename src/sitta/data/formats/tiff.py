"""TIFF: any depth, floats, several pages."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from PIL import Image as Pillow
from PIL import UnidentifiedImageError

from sitta.data.formats.ifds import check_pages
from sitta.data.formats.raster import turned
from sitta.data.picture import Array, Geometry, Image, check_complete, check_size
from sitta.errors import InvalidImage

CHANNELS = "SC"  # letters that tifffile gives to axes
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, CMYK, YCBCR = 0, 1, 2, 3, 5, 6
INFLATERS: dict[int, Callable[[], Any]] = {
    8: zlib.decompressobj,
    32946: zlib.decompressobj,
    34925: lzma.LZMADecompressor,
}
ORIENTATION, RESOLUTION = 274, (282, 283, 296)  # tags; along columns, along rows, unit


def read(path: Path, limit: int) -> Image:
    """One page as an image, several as a volume (pages, H, W)."""
    check_pages(path)
    with tifffile.TiffFile(path, _multifile=False) as file:  # never open what it refers to
        series = _only_series(path, file, limit)
        page: Any = series.keyframe
        if page.photometric not in (WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, CMYK, YCBCR):
            raise InvalidImage(f"{path} stores its colours in a way that cannot be read here.")
        if page.compression in (1, *INFLATERS) and page.photometric not in (CMYK, YCBCR):
            _check_segments(path, file, series)
            values = _arranged(path, series.asarray(), series.axes, _colours(page))
            values = turned(values, _tag(page, ORIENTATION))
            inverted = page.photometric == WHITE_IS_ZERO
        else:  # which turns the page itself, and inverts what has 8 bits
            values = _arranged(path, *_by_pillow(path, series), _colours(page))
            inverted = page.photometric == WHITE_IS_ZERO and page.bitspersample > 8
        header = [_tag(page, number) for number in RESOLUTION]
    values = _inverted(values, page.bitspersample) if inverted else values  # (C, *S)
    indices = values[0] if page.photometric == PALETTE or page.bitspersample == 1 else None
    if page.photometric == PALETTE:
        values = np.asarray(page.colormap)[:, values[0]]
    return Image(values, Geometry(values.shape[1:]), "TIFF", path, header, indices)


def _only_series(path: Path, file: Any, limit: int) -> Any:
    series = file.series
    for one in series:
        check_size(path, one.shape, limit)
    if not series:
        raise InvalidImage(f"{path} holds no picture.")
    if len(series) > 1:
        sizes = ", ".join(" x ".join(map(str, s.shape)) for s in series[:4])
        raise InvalidImage(
            f"{path} holds {len(series)} pictures of different sizes or types ({sizes}).",
            allowed="one page, or pages of one size and type",
        )
    return series[0]


def _tag(page: Any, number: int) -> Any:
    tag = page.tags.get(number)
    return None if tag is None else tag.value


def _segments(series: Any) -> Iterator[tuple[int, int]]:
    """Where the strips or tiles of all pages start, and how long they are."""
    for page in series.pages:
        if page is not None:
            yield from zip(page.dataoffsets, page.databytecounts, strict=True)


def _check_segments(path: Path, file: Any, series: Any) -> None:
    """Refuse strips that lie outside the file, or hold less or far more than they should."""
    page, end = series.keyframe, file.filehandle.size
    if series.dataoffset is not None:  # all pages in one piece
        check_complete(path, series.dataoffset + series.nbytes, end)
        return
    chunk = int(np.prod(page.chunks, dtype=object)) * page.dtype.itemsize
    bits = page.bitspersample if page.bitspersample % 8 else 8 * page.dtype.itemsize
    needed = len(series.pages) * int(np.prod(page.shape, dtype=object)) * bits // 8
    found = 0
    for offset, count in _segments(series):
        check_complete(path, offset + max(count, 1), end)
        if page.compression == 1:
            found += count
            continue
        file.filehandle.seek(offset)
        inflated = INFLATERS[page.compression]().decompress(file.filehandle.read(count), chunk + 1)
        if len(inflated) > chunk:
            raise InvalidImage(
                f"{path} is damaged: a part of it unpacks to more than its header announces."
            )
        found += len(inflated)
    check_complete(path, needed, found)


def _by_pillow(path: Path, series: Any) -> tuple[Array, str]:
    """What tifffile leaves to another package (LZW, JPEG, fax, CMYK), if Pillow loses nothing."""
    page = series.keyframe
    try:
        with Pillow.open(path, formats=("TIFF",)) as file:
            pages = [_page(file, number) for number in range(len(series.pages))]
        fits = pages[0].dtype.itemsize >= page.dtype.itemsize
    except UnidentifiedImageError:
        fits = False
    if not fits:
        raise InvalidImage(
            f"{path} is compressed in a way that cannot be read here without loss.",
            fix="save it without compression, or with deflate",
        )
    values = np.stack(pages).astype(page.dtype, copy=False)
    lead = series.shape[: series.ndim - page.ndim]
    axes = series.axes[: len(lead)] + ("YXS" if pages[0].ndim == 3 else "YX")
    return values.reshape(*lead, *pages[0].shape), axes


def _page(file: Pillow.Image, number: int) -> Array:
    file.seek(number)
    return np.asarray(file.convert("RGB") if file.mode in ("CMYK", "YCbCr") else file)


def _colours(page: Any) -> int:
    """How many samples a pixel has that are no alpha channel, which says nothing of the patient."""
    if page.photometric in (RGB, CMYK, YCBCR):
        return 3
    return int(page.samplesperpixel) - sum(int(kind) in (1, 2) for kind in page.extrasamples)


def _arranged(path: Path, values: Array, axes: str, colours: int) -> Array:
    """(C, *S) from axes such as YX, YXS, ZYX, QYX, ZCYX."""
    if values.dtype.kind not in "buif" or "Y" not in axes or "X" not in axes:
        raise InvalidImage(
            f"{path} holds {values.dtype} values on the axes {axes}, which are no image.",
            allowed="whole or real numbers on rows and columns",
        )
    if "S" in axes:
        values = values.take(range(min(colours, values.shape[axes.index("S")])), axes.index("S"))
    channels = [i for i, a in enumerate(axes) if a in CHANNELS]
    stacks = [i for i, a in enumerate(axes) if a not in CHANNELS + "YX"]
    values = values.transpose(*channels, *stacks, axes.index("Y"), axes.index("X"))
    many = int(np.prod(values.shape[: len(channels)], dtype=int))
    depth = int(np.prod(values.shape[len(channels) : -2], dtype=int))
    values = values.reshape(many, *([depth] if depth > 1 else []), *values.shape[-2:])
    return values.astype(np.uint8) if values.dtype == bool else values


def _inverted(values: Array, bits: int) -> Array:
    """Light for dark, where 0 is white."""
    if values.dtype.kind == "u":
        return np.asarray(values.dtype.type(2**bits - 1) - values)
    return np.asarray(~values if values.dtype.kind == "i" else -values)


def write(path: Path, values: Array, like: Image) -> None:
    """An image (H, W) or a stack (D, H, W), compressed without loss, at the image's resolution."""
    across, down, unit = like.header if like.kind == "TIFF" else (None, None, None)
    known: dict[str, Any] = {}
    if across and down and across[1] and down[1]:
        known = {"resolution": (across, down), "resolutionunit": unit or 2}
    tifffile.imwrite(path, values, compression="zlib", photometric="minisblack", **known)
