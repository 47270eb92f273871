"""What the card of one image shows: thumbnails as data URIs, masks as outlines in SVG."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from typing import Any

import matplotlib
import numpy as np
from numpy.typing import NDArray
from PIL import Image

MOST_CORNERS = 6000  # of an outline; a rougher one is drawn on a coarser grid
MOST_MEMBER_CORNERS = 1500  # members are shown small
LEVELS = 64  # of the heat map; more of them cannot be told apart and only cost bytes
CONTRAST = (0.5, 99.5)  # percentiles shown as black and white
QUALITIES = (80, 60, 40, 20)  # of the photo: the first that fits, else the last
MOST_CHARACTERS = 16_000  # of a photo, so that 500 noisy ones still open fast

Array = NDArray[Any]


def card_image(
    image: Array,
    source: Array | None,
    mask: Array,
    members: Iterable[Array],
    uncertainty: Array,
    size: int = 256,
) -> dict[str, Any]:
    """Thumbnails as data URIs and masks as SVG paths in thumbnail pixels, ready for JSON.

    The image ``(C, H, W)`` may have any range; three channels are shown in colour, else the first.
    Masks ``(H, W)`` hold 0 for background; ``source`` is that of the unadapted model, if there is
    one. The uncertainty is in bits. The longest side is ``size``, or that of a smaller image.
    """
    scale = min(1.0, size / max(mask.shape))
    height, width = (max(1, round(side * scale)) for side in mask.shape)
    shape = height, width

    def drawn(classes: Array, most: int) -> str:
        return outline(nearest(classes, shape), most)

    return {
        "width": width,
        "height": height,
        "image": _photo(image, shape),
        "uncertainty": _heat(uncertainty, shape),
        "source": None if source is None else drawn(source, MOST_CORNERS),
        "mask": drawn(mask, MOST_CORNERS),
        "members": [drawn(member, MOST_MEMBER_CORNERS) for member in members],
    }


def nearest(classes: Array, shape: tuple[int, int]) -> Array:
    """A mask ``(H, W)`` at another size; each pixel takes the value at its centre."""
    rows, columns = (
        ((np.arange(new) + 0.5) * old / new).astype(int)
        for old, new in zip(classes.shape, shape, strict=True)
    )
    return np.asarray(classes[np.ix_(rows, columns)])


def outline(classes: Array, most: int = MOST_CORNERS) -> str:
    """The edges of all classes along the borders of the pixels, as one SVG path.

    Filled by the even-odd rule the path covers exactly the pixels that are not 0. One with more
    than ``most`` corners is drawn from every second pixel, or every fourth, and so on.
    """
    step = 1
    while True:
        cells = classes[::step, ::step]
        corners = [_corners(cells == c) for c in np.unique(cells) if c != 0]
        if sum(map(len, corners)) <= most or min(cells.shape) == 1:
            break
        step *= 2
    return "".join(_path(np.minimum(points * step, classes.shape)) for points in corners)


def _corners(region: NDArray[np.bool_]) -> Array:
    """Points ``(n, 2)`` where the edge of a region turns, by row and column.

    Where two pixels touch only by a corner, two turns meet: that point is listed twice.
    """
    padded = np.pad(region, 1)
    a, b, c, d = padded[:-1, :-1], padded[:-1, 1:], padded[1:, :-1], padded[1:, 1:]
    turns = (a ^ b ^ c ^ d) + 2 * ((a == d) & (b == c) & (a != b))
    points = np.argwhere(turns)
    return np.repeat(points, turns[turns > 0], axis=0)


def _path(corners: Array) -> str:
    """The loops through corners that are sorted by row and column.

    Along every row, and along every column, the first corner is joined to the second, the third
    to the fourth, and so on: that gives each corner one horizontal and one vertical neighbour.
    """
    by_column = np.lexsort((corners[:, 0], corners[:, 1]))
    partner = np.empty_like(by_column)
    partner[by_column] = by_column[np.arange(len(corners)) ^ 1]
    vertical = partner.tolist()
    y, x = corners.T.tolist()
    parts, seen = [], bytearray(len(corners))
    for start in range(0, len(corners), 2):
        if seen[start]:
            continue
        parts.append(f"M{x[start]} {y[start]}")
        here = start
        while True:
            across = here ^ 1
            seen[here] = seen[across] = 1
            there = vertical[across]
            parts.append(f"h{x[across] - x[here]}")
            if there == start:
                break
            parts.append(f"v{y[there] - y[across]}")
            here = there
        parts.append("z")
    return "".join(parts)


def _photo(image: Array, shape: tuple[int, int]) -> str:
    channels = image if len(image) == 3 else image[:1]
    shown = np.stack([_resized(channel, shape) for channel in _stretched(channels)], axis=-1)
    pixels = np.clip(np.rint(255 * shown), 0, 255).astype(np.uint8)
    colours = Image.fromarray(pixels if len(channels) == 3 else pixels[..., 0])
    for quality in QUALITIES:
        uri = _uri(colours, "webp", quality=quality, method=4)
        if len(uri) <= MOST_CHARACTERS:
            break
    return uri


def _stretched(channels: Array) -> Array:
    """Values with most of them in [0, 1]; all channels by the same rule, to keep the colours."""
    values = channels.astype(np.float32)
    finite = values[np.isfinite(values)]
    if not finite.size or finite.min() == finite.max():
        return np.full_like(values, 0.5)
    low, high = np.percentile(finite, CONTRAST)
    if low == high:
        low, high = finite.min(), finite.max()
    values = np.nan_to_num(values, nan=low, posinf=high, neginf=low)
    return np.asarray(np.clip((values - low) / (high - low), 0, 1))


def _heat(uncertainty: Array, shape: tuple[int, int]) -> str:
    bits = np.clip(np.nan_to_num(uncertainty.astype(np.float32), nan=1.0), 0, 1)
    levels = np.rint((LEVELS - 1) * np.clip(_resized(bits, shape), 0, 1)).astype(np.uint8)
    colours = matplotlib.colormaps["magma"](np.linspace(0, 1, LEVELS), bytes=True)[:, :3]
    indexed = Image.frombytes("P", (shape[1], shape[0]), levels.tobytes())
    indexed.putpalette(colours.tobytes())
    return _uri(indexed, "png", optimize=True)


def _resized(values: Array, shape: tuple[int, int]) -> Array:
    """The mean of the pixels that fall together."""
    plain = Image.fromarray(np.ascontiguousarray(values, dtype=np.float32))
    return np.asarray(plain.resize((shape[1], shape[0]), Image.Resampling.BOX))


def _uri(image: Image.Image, form: str, **settings: Any) -> str:
    file = io.BytesIO()
    image.save(file, form, **settings)
    return f"data:image/{form};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
