"""PNG, JPEG, GIF and BMP, by Pillow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image as Pillow
from PIL import ImageOps

from sitta.data.picture import Array, Geometry, Image, check_size

FORMATS = ("PNG", "JPEG", "GIF", "BMP")


def read(path: Path, limit: int) -> Image:
    """One picture, upright, without its alpha channel."""
    with Pillow.open(path, formats=FORMATS) as file:
        check_size(path, (*file.size[::-1], len(file.getbands())), limit)
        kind = str(file.format)
        indices = np.asarray(file).astype(np.uint8) if file.mode in ("P", "1") else None
        pixels = _deep(path) if _is_deep(file) else _plain(file)
    return Image(pixels, Geometry(pixels.shape[1:]), kind, path, indices=indices)


def _plain(file: Pillow.Image) -> Array:
    """(C, H, W) at the depth at which Pillow keeps this picture."""
    upright = ImageOps.exif_transpose(file)
    if upright.mode in ("P", "PA", "CMYK", "YCbCr", "LAB", "HSV"):
        upright = upright.convert("RGB")
    elif upright.mode == "1":
        upright = upright.convert("L")
    values = np.atleast_3d(np.asarray(upright))  # (H, W, bands)
    if upright.mode in ("LA", "La", "RGBA", "RGBa", "RGBX"):
        values = values[..., : 1 if upright.mode[0] == "L" else 3]
    if values.shape[2] == 3 and upright.mode == "RGB" and _is_grey(values):
        values = values[..., :1]
    return np.ascontiguousarray(np.moveaxis(values, 2, 0))


def _is_grey(values: Array) -> bool:
    return bool((values == values[..., :1]).all())


def _is_deep(file: Pillow.Image) -> bool:
    tiles = getattr(file, "tile", [])
    return bool(tiles) and tiles[0][3] in ("RGB;16B", "RGBA;16B", "LA;16B")


def _deep(path: Path) -> Array:
    """Colour or alpha at 16 bits, of which Pillow alone would keep the upper 8.

    It can unpack either byte of a sample, so the file is decoded once for each.
    """
    with Pillow.open(path) as file:
        mode = str(file.tile[0][3]).split(";")[0]
        if mode == "LA":  # four bytes a pixel: unpacked as they are
            return _word(*np.moveaxis(_decoded(file, "RGBA"), 2, 0)[:2])[None]
        high = np.asarray(file)
    with Pillow.open(path) as file:
        low = _decoded(file, f"{mode};16L")
    return np.ascontiguousarray(np.moveaxis(_word(high, low)[..., :3], 2, 0))


def _decoded(file: Pillow.Image, rawmode: str) -> Array:
    file.tile = [file.tile[0]._replace(args=rawmode)]  # type: ignore[attr-defined]
    return np.asarray(file)


def _word(high: Array, low: Array) -> Array:
    return np.asarray(high.astype(np.uint16) << 8 | low)


def write(path: Path, values: Array) -> None:
    """A grey PNG (H, W) of 8 or 16 bits."""
    Pillow.fromarray(values).save(path, format="PNG", optimize=False)
