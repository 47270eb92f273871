"""PNG, JPEG, GIF and BMP, by Pillow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pillow
from PIL.ExifTags import Base

from sitta.data.picture import Array, Geometry, Image, check_size

FORMATS = ("PNG", "JPEG", "GIF", "BMP")
TURNS = {  # orientation of EXIF and TIFF: whether to swap rows and columns, then what to flip
    2: (False, (-1,)),
    3: (False, (-2, -1)),
    4: (False, (-2,)),
    5: (True, ()),
    6: (True, (-1,)),
    7: (True, (-2, -1)),
    8: (True, (-2,)),
}


def read(path: Path, limit: int) -> Image:
    """One picture, upright, without its alpha channel."""
    with Pillow.open(path, formats=FORMATS) as file:
        check_size(path, (*file.size[::-1], len(file.getbands())), limit)
        kind = "JPEG" if file.format == "MPO" else str(file.format)  # a JPEG with more behind
        deep = _is_deep(file)  # asked before Pillow looks for EXIF, for which it may decode
        orientation, dots = file.getexif().get(Base.Orientation), file.info.get("dpi")
        indices = np.asarray(file).astype(np.uint8) if file.mode in ("P", "1") else None
        pixels = _deep(path) if deep else _plain(file)
    pixels = turned(pixels, orientation)
    indices = None if indices is None else turned(indices, orientation)
    return Image(pixels, Geometry(pixels.shape[1:]), kind, path, header=dots, indices=indices)


def turned(values: Array, orientation: Any) -> Array:
    """Rows and columns, the last two axes, as an orientation of EXIF asks to see them."""
    swap, flips = TURNS.get(orientation, (False, ()))
    return np.flip(values.swapaxes(-2, -1) if swap else values, flips)


def _plain(file: Pillow.Image) -> Array:
    """(C, H, W) at the depth at which Pillow keeps this picture."""
    grey = file.mode == "1" or (file.mode == "P" and _is_grey(file.getpalette("RGB") or []))
    if grey:
        file = file.convert("L")
    elif file.mode in ("P", "PA", "CMYK", "YCbCr", "LAB", "HSV"):
        file = file.convert("RGB")
    values = np.atleast_3d(np.asarray(file))  # (H, W, bands)
    if file.mode in ("LA", "La", "RGBA", "RGBa", "RGBX"):
        values = values[..., : 1 if file.mode[0] == "L" else 3]
    return np.moveaxis(values, 2, 0)


def _is_grey(palette: list[int]) -> bool:
    return palette[::3] == palette[1::3] == palette[2::3]


def _is_deep(file: Pillow.Image) -> bool:
    tiles = getattr(file, "tile", [])
    return bool(tiles) and tiles[0][3] in ("RGB;16B", "RGBA;16B", "LA;16B")


def _deep(path: Path) -> Array:
    """Colour or alpha at 16 bits, of which Pillow alone would keep the upper 8.

    It can unpack either byte of a sample, so the file is decoded once for each.
    """
    with Pillow.open(path, formats=("PNG",)) as file:
        mode = str(file.tile[0][3]).split(";")[0]
        if mode == "LA":  # four bytes a pixel: unpacked as they are
            return _word(*np.moveaxis(_decoded(file, "RGBA"), 2, 0)[:2])[None]
        high = np.asarray(file)
    with Pillow.open(path, formats=("PNG",)) as file:
        low = _decoded(file, f"{mode};16L")  # the byte that is the upper one in little-endian
    return np.moveaxis(_word(high, low)[..., :3], 2, 0)


def _decoded(file: Pillow.Image, rawmode: str) -> Array:
    file.tile = [file.tile[0]._replace(args=rawmode)]  # type: ignore[attr-defined]
    return np.asarray(file)


def _word(high: Array, low: Array) -> Array:
    return np.asarray(high.astype(np.uint16) << 8 | low)


def write(path: Path, values: Array, like: Image) -> None:
    """A grey PNG (H, W) of 8 or 16 bits, with as many dots per inch as the image has."""
    dots = {"dpi": like.header} if like.kind in FORMATS and like.header else {}
    Pillow.fromarray(values).save(path, format="PNG", **dots)
