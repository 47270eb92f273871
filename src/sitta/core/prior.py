"""A shape prior: what the masks of a class look like in-domain, wherever they lie in the image.

A map is brought to the grid with its centre of mass in the middle and its size near the usual one,
so that another framing of the image does not count as another shape. The same functions serve
tensors and NumPy arrays; nothing here needs torch when it is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sitta.errors import InvalidSetting

Values = TypeVar("Values")
Array = NDArray[Any]
GRIDS = {2: (32, 32), 3: (16, 16, 16)}  # by the number of spatial dimensions
REACH = 2.2  # standard deviations from the centre that the grid covers; a disc's edge is at 2
SIZES = (0.7, 1.43)  # how far a size may be from the usual one before it counts as another shape
SMALL = 1e-6


@dataclass(frozen=True, eq=False)
class ShapePrior:
    """Mean and principal components of aligned masks of one class."""

    mean: Array  # (P,), flat
    components: Array  # (r, P), orthonormal
    grid: tuple[int, ...]  # sides whose product is P
    size: float  # usual standard deviation of a mask, in shares of the image's mean side

    @classmethod
    def fit(cls, masks: Array, examples: Array, components: int = 12) -> ShapePrior:
        """Of examples ``(M, *S)``: masks, and the same jittered; the size is that of ``masks``."""
        grid = GRIDS[masks.ndim - 1]
        size = float(np.median(_spread(masks.astype(np.float32))[1] / _side(masks.shape[1:])))
        cells = aligned(examples.astype(np.float32), grid, size).reshape(len(examples), -1)
        mean = cells.mean(axis=0)
        axes = np.linalg.svd(cells - mean, full_matrices=False)[2][:components]
        return cls(mean, np.ascontiguousarray(axes), grid, size)

    def plausibility(self, maps: Values) -> Values:
        """Soft Dice ``(B,)`` of maps ``(B, *S)`` in [0, 1] with the nearest in-domain shape.

        1 is a shape as in-domain; a map that is nowhere above one half has 0.
        """
        given: Any = maps
        if given.ndim - 1 != len(self.grid):
            raise InvalidSetting(
                "The shape prior of the calibration is for images of other dimensions.",
                allowed=f"{len(self.grid)}D",
                got=f"{given.ndim - 1}D",
                fix="calibrate the model again: sitta calibrate MODEL --images FOLDER",
            )
        cells: Any = aligned(maps, self.grid, self.size)
        cells = cells.reshape(len(cells), -1)
        mean, axes = as_kind(self.mean, cells), as_kind(self.components, cells)
        shapes = (mean + ((cells - mean) @ axes.T) @ axes).clip(0, 1)
        total = (cells * cells).sum(-1) + (shapes * shapes).sum(-1)
        result: Values = 2 * (cells * shapes).sum(-1) / total.clip(SMALL, None)
        return result


def aligned(maps: Values, grid: Sequence[int], size: float) -> Values:
    """Maps ``(B, *S)`` averaged to ``(B, *grid)`` around what they hold above one half."""
    values: Any = maps
    sides = values.shape[1:]
    centres, spread, holds = _measured(values)
    usual = size * _side(sides)
    half = REACH * np.clip(spread, SIZES[0] * usual, SIZES[1] * usual)
    for axis, cells in enumerate(grid):
        weights = as_kind(_boxes(centres[axis], half, sides[axis], cells), values)  # (B, cells, L)
        moved = values.swapaxes(axis + 1, -1)
        shape = (*moved.shape[:-1], cells)
        flat = moved.reshape(len(moved), -1, moved.shape[-1]) @ weights.swapaxes(1, 2)
        values = flat.reshape(shape).swapaxes(axis + 1, -1)
    result: Values = values * as_kind(holds, values).reshape(-1, *[1] * len(sides))
    return result


def as_kind(array: Array, values: Values) -> Values:
    """An array as what ``values`` are: a tensor of that type and device, or an array."""
    given: Any = values
    made: Any = array.astype(given.dtype) if isinstance(given, np.ndarray) else None
    result: Values = given.new_tensor(array) if made is None else made
    return result


def _measured(maps: Any) -> tuple[list[Array], Array, Array]:
    """Centre along each axis, spread and whether there is anything, of maps of either kind."""
    inside = maps * (maps > 0.5)
    axes = range(1, inside.ndim)
    profiles = [inside.sum(tuple(a for a in axes if a != axis)) for axis in axes]
    arrays = [p if isinstance(p, np.ndarray) else p.cpu().double().numpy() for p in profiles]
    return _moments([np.asarray(p, float) for p in arrays])


def _spread(maps: Array) -> tuple[list[Array], Array]:
    centres, spread, _ = _measured(maps)
    return centres, spread


def _moments(profiles: list[Array]) -> tuple[list[Array], Array, Array]:
    """From sums ``(B, L)`` along each axis; half a pixel is the centre of the first one."""
    mass = profiles[0].sum(axis=1)
    centres, variance = [], np.zeros(len(mass))
    for profile in profiles:
        places = np.arange(profile.shape[1]) + 0.5
        centre = (profile @ places) / np.maximum(mass, SMALL)
        off = np.square(places - centre[:, None])
        variance += (profile * off).sum(axis=1) / np.maximum(mass, SMALL) + 1 / 12  # of a pixel
        centres.append(centre)
    return centres, np.sqrt(variance / len(profiles)), mass > 0


def _boxes(centre: Array, half: Array, length: int, cells: int) -> Array:
    """Matrices ``(B, cells, length)`` that average pixels into cells; 0 beyond the image."""
    edges = centre[:, None] + half[:, None] * np.linspace(-1, 1, cells + 1)
    pixels = np.arange(length)
    start = np.maximum(edges[:, :-1, None], pixels)
    end = np.minimum(edges[:, 1:, None], pixels + 1)
    width = (edges[:, 1:] - edges[:, :-1])[..., None]
    return np.asarray((np.maximum(end - start, 0) / width).astype(np.float32))


def _side(sides: Sequence[int]) -> float:
    """The geometric mean of the sides."""
    return float(np.prod([float(n) for n in sides]) ** (1 / len(sides)))
