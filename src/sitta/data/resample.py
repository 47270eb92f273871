"""Other sizes for images, masks and maps. Pixels are areas, and their corners stay in place.

Own code: zoom of SciPy has no antialiasing, Pillow no volumes, and PyTorch antialiases no volumes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sitta.data.image import Array

Weights = Callable[[int, int, slice, slice], Array]
ALL = slice(None)
BLOCKS = 16  # of a side at most: each reads little more than the pixels that it needs
SMALLEST = 16  # pixels of a block


def resize(values: Array, size: Sequence[int]) -> Array:
    """Images ``(N, C, *S)`` to another size: linear, with antialiasing, along one side at a time.

    The same as ``torch.nn.functional.interpolate(..., antialias=True)``, for any number of sides.
    """
    ratios = [new / old for new, old in zip(size, values.shape[2:], strict=True)]
    for side in np.argsort(ratios, kind="stable"):  # what shrinks most goes first: less is left
        if size[side] != values.shape[2 + side]:  # else bit for bit
            values = _along(values, 2 + int(side), size[side], tents)
    return values


def tents(old: int, new: int, rows: slice = ALL, columns: slice = ALL) -> Array:
    """``(new, old)``: weights of linear interpolation, widened to cover all pixels to shrink."""
    scale = old / new
    centres = (np.arange(new)[rows, None] + 0.5) * scale
    away = np.abs(np.arange(old)[None, columns] + 0.5 - centres) / max(scale, 1.0)
    weights = np.maximum(1 - away, 0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def resize_mask(labels: Array, size: Sequence[int], classes: int = 2) -> Array:
    """Labels ``(N, *S)`` to another size: by area, and cut at one half.

    Of more than two classes, a pixel gets the one with the largest area in it.
    """
    if labels.shape[1:] == tuple(size):
        return labels
    areas = np.stack([_by_area(labels == c, size) for c in range(1, classes)])
    largest = areas[0] >= 0.5 if classes == 2 else largest_share(areas)
    return np.asarray(largest, dtype=labels.dtype)


def _by_area(inside: Array, size: Sequence[int]) -> Array:
    """The share of each new pixel that is inside."""
    share = inside.astype(np.float64)  # exact sums, so that one half is one half
    for axis, n in enumerate(size, start=1):
        share = _along(share, axis, n, overlaps)
    return np.round(share, 9)


def largest_share(shares: Array) -> Array:
    """The class with the largest share, of shares ``(C - 1, ...)`` of all classes but 0."""
    rest = 1 - shares.sum(axis=0, keepdims=True)
    return np.asarray(np.concatenate([rest, shares]).argmax(axis=0))


def overlaps(old: int, new: int, rows: slice = ALL, columns: slice = ALL) -> Array:
    """``(new, old)``: the share of each new pixel along a side that each old one covers."""
    ends = np.arange(1, new + 1)[rows, None] / new
    edges = np.arange(1, old + 1)[None, columns] / old
    low = np.maximum(ends - 1 / new, edges - 1 / old)
    return np.asarray(np.maximum(np.minimum(ends, edges) - low, 0) * new)


def _along(values: Array, axis: int, new: int, weights: Weights) -> Array:
    """One side of ``values`` times weights ``(new, old)``, which are 0 far from their diagonal."""
    shape, old = values.shape, values.shape[axis]
    last = axis == values.ndim - 1
    inner = () if last else (math.prod(shape[axis + 1 :]),)
    flat = values.reshape(-1, old, *inner)
    result = np.empty((len(flat), new, *inner), dtype=values.dtype)
    scale, step = old / new, max(-(-new // BLOCKS), SMALLEST)
    reach = max(scale, 1.0)  # no weight is further from its pixel
    for start in range(0, new, step):
        rows = slice(start, min(start + step, new))
        low, high = math.floor(start * scale - reach), math.ceil(rows.stop * scale + reach)
        near = slice(max(low, 0), min(high, old))
        part = weights(old, new, rows, near).astype(values.dtype)
        factors = (flat[:, near], part.T) if last else (part, flat[:, near])
        np.matmul(*factors, out=result[:, rows])
    return result.reshape(*shape[:axis], new, *shape[axis + 1 :])


def crop(values: Array, size: Sequence[int], fill: float | None = 0.0) -> Array:
    """The middle of ``(..., *S)``, padded where it is smaller; ``fill=None``: with the minimum."""
    lead = values.shape[: -len(size)]
    new = np.full((*lead, *size), values.min() if fill is None else fill, dtype=values.dtype)
    inside: list[Any] = [...]  # the part that both share, in values and in the result
    target: list[Any] = [...]
    for a, b in zip(values.shape[-len(size) :], size, strict=True):
        for n, window in ((a, inside), (b, target)):
            start = (n - min(a, b)) // 2
            window.append(slice(start, start + min(a, b)))
    new[tuple(target)] = values[tuple(inside)]
    return new
