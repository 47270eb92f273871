"""Other sizes for images, masks and maps. Pixels are areas, and their corners stay in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sitta.data.picture import Array

Weights = Callable[[int, int, slice, slice], Array]
ALL = slice(None)
BLOCKS = 16  # of a side at most: each reads little more than the pixels that it needs
SMALLEST = 16  # pixels of a block


def resize(values: Array, size: Sequence[int]) -> Array:
    """Images ``(N, C, *S)`` to another size: linear, with antialiasing, along one side at a time.

    The same as ``torch.nn.functional.interpolate(..., antialias=True)``, for any number of sides.

    Example:
        >>> resize(np.array([[[[0.0, 0.0, 4.0, 4.0]]]]), (1, 2)).round(3)
        array([[[[0.571, 3.429]]]])
    """
    ratios = [new / old for new, old in zip(size, values.shape[2:], strict=True)]
    for side in np.argsort(ratios, kind="stable"):  # what shrinks most goes first: less is left
        if size[side] != values.shape[2 + side]:  # else bit for bit
            values = _along(values, 2 + int(side), size[side], tents)
    return values


def tents(old: int, new: int, rows: slice = ALL, columns: slice = ALL) -> Array:
    """``(new, old)``: weights of linear interpolation, widened to cover every pixel if it shrinks.

    Example:
        >>> tents(2, 4)
        array([[1.  , 0.  ],
               [0.75, 0.25],
               [0.25, 0.75],
               [0.  , 1.  ]])
    """
    scale = old / new
    centres = (np.arange(new)[rows, None] + 0.5) * scale
    away = np.abs(np.arange(old)[None, columns] + 0.5 - centres) / max(scale, 1.0)
    found = np.maximum(1 - away, 0)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def resize_mask(labels: Array, size: Sequence[int], classes: int = 2) -> Array:
    """Labels ``(N, *S)`` to another size: by area, and cut at one half.

    Of more than two classes, a pixel gets the one with the largest area in it.
    """
    if labels.shape[1:] == tuple(size):
        return labels
    areas = np.stack([_by_area(labels == c, size) for c in range(1, classes)])
    if classes == 2:
        return np.asarray(areas[0] >= 0.5, dtype=labels.dtype)
    rest = 1 - areas.sum(axis=0, keepdims=True)
    return np.asarray(np.concatenate([rest, areas]).argmax(axis=0), dtype=labels.dtype)


def _by_area(inside: Array, size: Sequence[int]) -> Array:
    """The share of each new pixel that is inside."""
    share = inside.astype(np.float64)  # exact sums, so that one half is one half
    for axis, n in enumerate(size, start=1):
        share = _along(share, axis, n, overlaps)
    return np.round(share, 9)


def overlaps(old: int, new: int, rows: slice = ALL, columns: slice = ALL) -> Array:
    """``(new, old)``: the share of each new pixel along a side that each old one covers.

    Example:
        >>> overlaps(3, 2).round(4)
        array([[0.6667, 0.3333, 0.    ],
               [0.    , 0.3333, 0.6667]])
    """
    ends = np.arange(1, new + 1)[rows, None] / new
    edges = np.arange(1, old + 1)[None, columns] / old
    low = np.maximum(ends - 1 / new, edges - 1 / old)
    return np.asarray(np.maximum(np.minimum(ends, edges) - low, 0) * new)


def _along(values: Array, axis: int, new: int, weights: Weights) -> Array:
    """One side of ``values`` times weights ``(new, old)``, which are 0 far from their diagonal."""
    shape, old = values.shape, values.shape[axis]
    last = axis == values.ndim - 1
    flat = values.reshape(-1, old) if last else values.reshape(-1, old, _count(shape[axis + 1 :]))
    found = np.empty((len(flat), new, *flat.shape[2:]), dtype=values.dtype)
    scale, step = old / new, max(-(-new // BLOCKS), SMALLEST)
    reach = max(scale, 1.0)  # no weight is further from its pixel
    for start in range(0, new, step):
        rows = slice(start, min(start + step, new))
        low, high = math.floor(start * scale - reach), math.ceil(rows.stop * scale + reach)
        near = slice(max(low, 0), min(high, old))
        part = weights(old, new, rows, near).astype(values.dtype)
        if last:
            np.matmul(flat[:, near], part.T, out=found[:, rows])
        else:
            np.matmul(part, flat[:, near], out=found[:, rows])
    return found.reshape(*shape[:axis], new, *shape[axis + 1 :])


def _count(sides: Sequence[int]) -> int:
    return int(np.prod(sides))


def crop(values: Array, size: Sequence[int], fill: float | None = 0.0) -> Array:
    """The middle of ``(..., *S)``, padded where it is smaller.

    Args:
        values: Images, masks or maps.
        size: The last sides of the result.
        fill: What to pad with; None: the lowest value.
    """
    lead = values.shape[: -len(size)]
    new = np.full((*lead, *size), values.min() if fill is None else fill, dtype=values.dtype)
    here, there = _windows(values.shape[-len(size) :], size)
    new[tuple(there)] = values[tuple(here)]
    return new


def _windows(old: Sequence[int], new: Sequence[int]) -> tuple[list[Any], list[Any]]:
    """The part that both share, in each of them. Swapped, it undoes itself."""
    here: list[Any] = [...]
    there: list[Any] = [...]
    for a, b in zip(old, new, strict=True):
        both, shift = min(a, b), (max(a, b) - min(a, b)) // 2
        here.append(slice(shift, shift + both) if a > b else slice(0, both))
        there.append(slice(shift, shift + both) if b > a else slice(0, both))
    return here, there
