"""PNG, JPEG, GIF and BMP, by Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sitta.data.formats.base import Format, rows_first
from sitta.data.image import Array, Geometry, Image, check_size
from sitta.errors import InvalidImage

if TYPE_CHECKING:
    from PIL import Image as Pillow

ORIENTATION = 274  # tag of EXIF
BITMAPS = {12, 40, 52, 56, 64, 108, 124}  # lengths of the second header of a BMP
# What an orientation of EXIF or TIFF flips; 5 to 8 swap rows and columns before.
FLIPS = {2: (-1,), 3: (-2, -1), 4: (-2,), 6: (-1,), 7: (-2, -1), 8: (-2,)}


class Raster(Format):
    """An image that Pillow reads; its header is the dots per inch."""

    decoders = ("PIL.Image",)
    pixels_per_byte: int | None = None  # that its compression can reach, if that has a limit

    def read(self, path: Path, limit: int) -> Image:
        """Read one image, upright, without its alpha channel."""
        from PIL import Image as Pillow

        with Pillow.open(path, formats=(self.name,)) as file:
            check_size(path, (*file.size[::-1], len(file.getbands())), limit)
            self._require_bytes(path, file.width * file.height)
            tiles = getattr(file, "tile", [])  # taken before Pillow looks for EXIF: it may decode
            deep = bool(tiles) and tiles[0][3] in ("RGB;16B", "RGBA;16B", "LA;16B")
            orientation, dots = file.getexif().get(ORIENTATION), file.info.get("dpi")
            indices = np.asarray(file).astype(np.uint8) if file.mode in ("P", "1") else None
            pixels = turned(_deep(path) if deep else _plain(file), orientation)
        indices = None if indices is None else turned(indices, orientation)
        return Image(pixels, Geometry(pixels.shape[1:]), self.name, path, dots, indices)

    def _require_bytes(self, path: Path, pixels: int) -> None:
        """Refuse a few bytes that announce gigabytes, before memory is asked for."""
        if self.pixels_per_byte and pixels > path.stat().st_size * self.pixels_per_byte:
            raise InvalidImage(
                f"{path} is cut short or damaged: it announces more pixels than its bytes hold.",
                got=f"{pixels:,} pixels in {path.stat().st_size:,} bytes",
                fix="copy, download or export it again",
            )

    def shareable_header(self, image: Image) -> Any:
        """Dots per inch."""
        return image.header


class Png(Raster):
    """The only one of them that holds masks without loss at up to 16 bits."""

    name = "PNG"
    suffixes = (".png",)
    magic = (b"\x89PNG\r\n\x1a\n",)
    masks = maps = True
    foreground = 255
    pixels_per_byte = 1032 * 8  # of 1 bit: deflate makes 258 bytes of 2 bits

    def write(self, path: Path, values: Array, like: Image, labels: Sequence[str]) -> None:
        """Write grey values of 8 or 16 bits; the 1 of a map becomes 65535."""
        from PIL import Image as Pillow

        if values.dtype.kind == "f":
            values = np.round(np.clip(values, 0, 1) * 65535).astype(np.uint16)
        options = {"dpi": like.header} if like.kind in RASTER and like.header else {}
        Pillow.fromarray(rows_first(values, like)).save(path, format="PNG", **options)


class Jpeg(Raster):
    """Upright by its EXIF orientation."""

    name = "JPEG"
    suffixes = (".jpg", ".jpeg")
    magic = (b"\xff\xd8\xff",)
    pixels_per_byte = 64 * 8 * 8  # a bit or more for 64 pixels; an eighth of it if arithmetic


class Gif(Raster):
    """The first image of it."""

    name = "GIF"
    suffixes = (".gif",)
    magic = (b"GIF87a", b"GIF89a")
    pixels_per_byte = 4096 * 8 // 12  # the longest word of LZW for a code of 12 bits


class Bmp(Raster):
    """A Windows bitmap."""

    name = "BMP"
    suffixes = (".bmp",)
    pixels_per_byte = 128  # runs: 255 pixels in two bytes; rows that are skipped are a bomb

    def matches(self, head: bytes) -> bool:
        """By two letters and the length of the second header, since two letters are few."""
        return head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in BITMAPS


RASTER = tuple(each.name for each in (Png, Jpeg, Gif, Bmp))


def turned(values: Array, orientation: Any) -> Array:
    """Rows and columns, the last two axes, as an orientation of EXIF asks to see them."""
    swapped = values.swapaxes(-2, -1) if orientation in range(5, 9) else values
    return np.flip(swapped, FLIPS.get(orientation, ()))


def _plain(file: Pillow.Image) -> Array:
    """(C, H, W) at the depth at which Pillow keeps this image."""
    palette = (file.getpalette("RGB") if file.mode == "P" else None) or []
    grey = palette[::3] == palette[1::3] == palette[2::3]
    if file.mode == "1" or (file.mode == "P" and grey):
        file = file.convert("L")
    elif file.mode in ("P", "PA", "CMYK", "YCbCr", "LAB", "HSV"):
        file = file.convert("RGB")
    values = np.atleast_3d(np.asarray(file))  # (H, W, bands)
    if file.mode in ("LA", "La", "RGBA", "RGBa", "RGBX"):
        values = values[..., : 1 if file.mode[0] == "L" else 3]
    return np.moveaxis(values, 2, 0)


def _deep(path: Path) -> Array:
    """Colour or alpha at 16 bits; Pillow by itself keeps the upper 8.

    It can unpack either byte of a sample, so the file is decoded once for each.
    """
    from PIL import Image as Pillow

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
