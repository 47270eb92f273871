"""TIFF: any depth, floats, several pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tifffile
from PIL import Image as Pillow
from PIL import ImageSequence

from sitta.data.picture import Array, Geometry, Image, check_size
from sitta.errors import InvalidImage

CHANNELS, STACKS = "SC", "ZTIQR"  # letters that tifffile gives to axes


def read(path: Path, limit: int) -> Image:
    """One page as an image, several as a volume (pages, H, W)."""
    with tifffile.TiffFile(path) as file:
        series = file.series
        if len(series) != 1:
            sizes = ", ".join(" x ".join(map(str, s.shape)) for s in series[:4])
            raise InvalidImage(
                f"{path} holds {len(series)} pictures of different sizes or types ({sizes}).",
                allowed="one page, or pages of one size and type",
            )
        shape, axes, page = series[0].shape, series[0].axes, file.pages.first
        check_size(path, shape, limit)
        try:
            values = series[0].asarray()
        except (ValueError, KeyError) as error:
            if "imagecodecs" not in str(error):
                raise
            values, axes = _by_pillow(path, str(error))
        palette = getattr(page, "colormap", None)
        light = page.photometric == tifffile.PHOTOMETRIC.MINISWHITE
    values = _arranged(path, values, axes)  # (C, *S)
    indices = values[0] if palette is not None or values.dtype == bool else None
    values = values.astype(np.uint8) if values.dtype == bool else values
    if light:  # 0 is white
        top = 1 if indices is not None else np.iinfo(values.dtype).max
        values = top - values if values.dtype.kind in "ui" else -values
    if palette is not None:
        values = palette[:, values[0]]
    return Image(values, Geometry(values.shape[1:]), "TIFF", path, indices=indices)


def _arranged(path: Path, values: Array, axes: str) -> Array:
    """(C, *S) from axes such as YX, YXS, ZYX, QYX, ZCYX."""
    if values.dtype.kind not in "buif" or "Y" not in axes or "X" not in axes:
        raise InvalidImage(
            f"{path} holds {values.dtype} values on the axes {axes}, which are no image.",
            allowed="whole or real numbers on rows and columns",
        )
    channels = [i for i, a in enumerate(axes) if a in CHANNELS]
    stacks = [i for i, a in enumerate(axes) if a not in CHANNELS + "YX"]
    values = values.transpose(*channels, *stacks, axes.index("Y"), axes.index("X"))
    many = int(np.prod([values.shape[i] for i in range(len(channels))], dtype=int))
    depth = values.shape[len(channels) : -2]
    sides = [int(np.prod(depth, dtype=int))] if np.prod(depth, dtype=int) > 1 else []
    values = values.reshape(many, *sides, *values.shape[-2:])
    if many in (2, 4) and "S" in axes:
        values = values[: many - 1]  # the alpha channel says nothing of the patient
    return np.ascontiguousarray(values)


def _by_pillow(path: Path, why: str) -> tuple[Array, str]:
    """Pages whose compression tifffile leaves to another package (LZW, JPEG, fax)."""
    try:
        with Pillow.open(path, formats=("TIFF",)) as file:
            pages = [np.asarray(page) for page in ImageSequence.Iterator(file)]
    except OSError as error:
        raise InvalidImage(
            f"{path} is compressed in a way that cannot be read here ({why}).",
            fix="pip install imagecodecs",
        ) from error
    axes = "YXS" if pages[0].ndim == 3 else "YX"
    return (pages[0], axes) if len(pages) == 1 else (np.stack(pages), f"Q{axes}")


def write(path: Path, values: Array) -> None:
    """An image (H, W) or a stack (D, H, W), compressed without loss."""
    tifffile.imwrite(path, values, compression="zlib", photometric="minisblack")
