"""TIFF: any depth, floats, several pages."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sitta.data.formats.base import Format, inverted, rows_first
from sitta.data.formats.raster import turned
from sitta.data.formats.tiff_pages import check_pages
from sitta.data.image import Array, Geometry, Image, check_complete, check_size
from sitta.errors import InvalidImage

CHANNELS = "SC"  # letters that tifffile gives to axes
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, CMYK, YCBCR = 0, 1, 2, 3, 5, 6
INFLATERS: dict[int, Callable[[], Any]] = {
    8: zlib.decompressobj,
    32946: zlib.decompressobj,
    34925: lzma.LZMADecompressor,
}
ORIENTATION, RESOLUTION = 274, (282, 283, 296)  # tags; along columns, along rows, unit


class Tiff(Format):
    """Read by tifffile, or by Pillow where tifffile needs another package."""

    name = "TIFF"
    suffixes = (".tif", ".tiff")
    magic = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # + for BigTIFF
    decoders = ("tifffile", "PIL.Image")
    masks = maps = volumes = True
    foreground = 255
    mask_suffix = ""

    def read(self, path: Path, limit: int) -> Image:
        """Read one page as an image, several as a volume (pages, H, W)."""
        import tifffile

        check_pages(path)
        with tifffile.TiffFile(path, _multifile=False) as file:  # never open what it refers to
            series = _only_series(path, file, limit)
            page: Any = series.keyframe
            header = [page.tags.valueof(number) for number in RESOLUTION]
            values = _pixels(path, file, series)  # (C, *S)
        indices = values[0] if page.photometric == PALETTE or page.bitspersample == 1 else None
        if page.photometric == PALETTE:
            values = np.asarray(page.colormap)[:, values[0]]
        return Image(values, Geometry(values.shape[1:]), "TIFF", path, header, indices)

    def write(self, path: Path, values: Array, like: Image, labels: Sequence[str]) -> None:
        """Write an image (H, W) or a stack (D, H, W), compressed without loss."""
        import tifffile

        across, down, unit = (like.header if like.kind == "TIFF" else None) or (None, None, None)
        options: dict[str, Any] = {"compression": "zlib", "photometric": "minisblack"}
        if across and down and across[1] and down[1]:
            options |= {"resolution": (across, down), "resolutionunit": unit or 2}
        tifffile.imwrite(path, rows_first(values, like), **options)

    def shareable_header(self, image: Image) -> Any:
        """Resolution and its unit."""
        return image.header


def _pixels(path: Path, file: Any, series: Any) -> Array:
    """Upright values ``(C, *S)``, with white as the highest."""
    page = series.keyframe
    white_is_zero = page.photometric == WHITE_IS_ZERO
    if page.photometric not in (WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, CMYK, YCBCR):
        raise InvalidImage(f"{path} stores its colours in a way that cannot be read here.")
    if page.compression in (1, *INFLATERS) and page.photometric not in (CMYK, YCBCR):
        _check_segments(path, file, series)
        values = _arranged(path, series.asarray(), series.axes, _colours(page))
        values = turned(values, page.tags.valueof(ORIENTATION))
    else:  # Pillow turns the page itself, and inverts pages of 8 bits
        values = _arranged(path, *_by_pillow(path, series), _colours(page))
        white_is_zero &= page.bitspersample > 8
    return inverted(values, page.bitspersample) if white_is_zero else values


def _only_series(path: Path, file: Any, limit: int) -> Any:
    series = file.series
    for each in series:
        check_size(path, each.shape, limit)
    if not series:
        raise InvalidImage(f"{path} holds no image.")
    if len(series) > 1:
        sizes = ", ".join(" x ".join(map(str, s.shape)) for s in series[:4])
        raise InvalidImage(
            f"{path} holds {len(series)} images of different sizes or types ({sizes}).",
            allowed="one page, or pages of one size and type",
        )
    return series[0]


def _check_segments(path: Path, file: Any, series: Any) -> None:
    """Refuse strips or tiles that lie outside the file, or hold less or far more than announced."""
    page, end = series.keyframe, file.filehandle.size
    if series.dataoffset is not None:  # all pages in one piece
        check_complete(path, series.dataoffset + series.nbytes, end)
        return
    chunk = int(np.prod(page.chunks, dtype=object)) * page.dtype.itemsize
    bits = page.bitspersample if page.bitspersample % 8 else 8 * page.dtype.itemsize
    needed = len(series.pages) * int(np.prod(page.shape, dtype=object)) * bits // 8
    pages = (p for p in series.pages if p is not None)
    segments = (s for p in pages for s in zip(p.dataoffsets, p.databytecounts, strict=True))
    total = 0
    for offset, count in segments:
        check_complete(path, offset + max(count, 1), end)
        if page.compression == 1:
            total += count
            continue
        file.filehandle.seek(offset)
        inflated = INFLATERS[page.compression]().decompress(file.filehandle.read(count), chunk + 1)
        if len(inflated) > chunk:
            raise InvalidImage(
                f"{path} is damaged: a part of it unpacks to more than its header announces."
            )
        total += len(inflated)
    check_complete(path, needed, total)


def _by_pillow(path: Path, series: Any) -> tuple[Array, str]:
    """What tifffile leaves to another package (LZW, JPEG, fax, CMYK), if Pillow loses nothing."""
    from PIL import Image as Pillow
    from PIL import UnidentifiedImageError

    page, pages = series.keyframe, []
    try:
        with Pillow.open(path, formats=("TIFF",)) as file:
            for number in range(len(series.pages)):
                file.seek(number)
                colours = file.mode in ("CMYK", "YCbCr")
                pages.append(np.asarray(file.convert("RGB") if colours else file))
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
