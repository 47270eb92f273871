"""BatchNorms under mixed statistics (Eq. 5) as nodes of ONNX: ``sitta.statistics``, written out.

R rows of each of N images, row by row. Plain reductions and products alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sitta.export.nodes import Nodes

if TYPE_CHECKING:
    from sitta.data.picture import Array

LARGEST = float(np.finfo(np.float32).max)
FLOAT = 1  # of ONNX's types


@dataclass(frozen=True)
class Rows:
    """The rows of the batch that stand for one image.

    Attributes:
        lambdas: One for each row; with captured statistics the first one is 0.
        captured: Whether what the first row sees serves all.
        unbiased: Whether to mix with the unbiased variance.
        order: Which row each member is.
    """

    lambdas: tuple[float, ...]
    captured: bool
    unbiased: bool
    order: tuple[int, ...]

    @classmethod
    def of(cls, grid: Sequence[float], captured: bool, unbiased: bool) -> Rows:
        """As ``members.member_logits`` has them.

        Example:
            >>> Rows.of((1.0, 0.5, 0.0), True, False)
            Rows(lambdas=(0.0, 1.0, 0.5), captured=True, unbiased=False, order=(1, 2, 0))
        """
        if not captured or all(lam == 1 for lam in grid):
            return cls(tuple(grid), False, unbiased, tuple(range(len(grid))))
        member = 0.0 in grid and not unbiased  # the row that captures is a member itself
        rows = [0.0, *(lam for lam in grid if lam != 0 or not member)]
        free = iter(range(1, len(rows)))
        order = (0 if member and lam == 0 else next(free) for lam in grid)
        return cls(tuple(rows), True, unbiased, tuple(order))

    @property
    def count(self) -> int:
        """How many."""
        return len(self.lambdas)


@dataclass(frozen=True)
class Norm:
    """A BatchNorm of the plain graph.

    Attributes:
        x: The name of its input.
        y: The name of its output.
        space: The sides of its input, as the graph names them.
        weight: ``(C,)``, and so the others.
        bias: Shift.
        mean: Of training.
        var: Of training.
        eps: Of the layer.
    """

    x: str
    y: str
    space: tuple[Any, ...]
    weight: Array
    bias: Array
    mean: Array
    var: Array
    eps: float

    def column(self, values: Array) -> Array:
        """Values of the channels, to go with ``(N, C, *S)``."""
        return values.reshape(-1, *[1] * len(self.space))


@dataclass
class Level:
    """What layers share whose input has the same sides."""

    tiny: str  # whether a map is a single value, which has no variance
    ones: str  # rows that stay at the source, (R, 1, 1, *1)
    rest_mean: str  # weight of the image's mean, (R, 1, 1, *1)
    rest_var: str
    layers: list[tuple[Norm, str, str]] = field(default_factory=list)


class Mixer:
    """Writes the nodes that stand in for BatchNorms.

    Args:
        nodes: Where to.
        rows: Of the batch.
        count: The name of the number of images, ``(1,)``.
    """

    def __init__(self, nodes: Nodes, rows: Rows, count: str) -> None:
        self._nodes, self._rows, self._count = nodes, rows, count
        self._levels: dict[tuple[Any, ...], Level] = {}

    def __call__(self, norm: Norm, once: bool) -> None:
        """Add the nodes of one layer.

        Args:
            norm: The layer.
            once: Whether its input has one row for an image, and not R.
        """
        add, column = self._nodes, norm.column
        level = self._level(norm)
        mean, var = self._moments(norm, once)
        level.layers.append((norm, *self._measured(mean, var, once)))
        middle = self._mix(level, level.rest_mean, norm, norm.mean, 0.0, mean)
        width = self._mix(level, level.rest_var, norm, norm.var, norm.eps, var)
        scale = add("Div", add.constant(column(norm.weight)), add("Sqrt", width))
        shift = add("Sub", add.constant(column(norm.bias)), add("Mul", middle, scale))
        if once:
            wide = add("Add", add("Mul", norm.x, scale), shift)  # (R, N, C, *S)
            sides = add("Shape", norm.x, start=1)
            shape = add("Concat", add.constant([-1]), sides, axis=0)
            add("Reshape", wide, shape, name=norm.y)
        else:
            flat = add.constant([-1, len(norm.mean), *[1] * len(norm.space)])
            scale, shift = (add("Reshape", t, flat) for t in (scale, shift))  # (R*N, C, *1)
            add("Add", add("Mul", norm.x, scale), shift, name=norm.y)

    def _moments(self, norm: Norm, once: bool) -> tuple[str, str]:
        """Mean and biased variance over space: ``(N, C, *1)``, in-layer ``(R, N, C, *1)``."""
        add, x = self._nodes, norm.x
        axes = add.constant(list(range(2, 2 + len(norm.space))))
        if self._rows.captured and not once:
            x = add("Slice", x, add.constant([0]), self._count, add.constant([0]))
        mean = add("ReduceMean", x, axes)
        away = add("Sub", x, mean)
        var = add("ReduceMean", add("Mul", away, away), axes)
        if self._rows.captured or once:
            return mean, var
        shape = add.constant([self._rows.count, -1, len(norm.mean), *[1] * len(norm.space)])
        return add("Reshape", mean, shape), add("Reshape", var, shape)

    def _measured(self, mean: str, var: str, once: bool) -> tuple[str, str]:
        """What the distance is measured by: in-layer, what the row of the lowest lambda sees."""
        if self._rows.captured or once:
            return mean, var
        add, lowest = self._nodes, int(np.argmin(self._rows.lambdas))
        at = add.constant(np.array(lowest))
        return add("Gather", mean, at, axis=0), add("Gather", var, at, axis=0)

    def _mix(
        self, level: Level, rest: str, norm: Norm, source: Array, more: float, image: str
    ) -> str:
        """Eq. 5, ``(R, N, C, *1)``: at lambda 1 the image must not matter, even if not finite."""
        add, wide = self._nodes, norm.column(source)
        mine = np.multiply.outer(np.array(self._rows.lambdas), wide) + more  # (R, C, *1)
        mixed = add("Add", add("Mul", rest, image), add.constant(mine[:, None]))
        return add("Where", level.ones, add.constant(wide + more), mixed)

    def _level(self, norm: Norm) -> Level:
        if norm.space not in self._levels:
            self._levels[norm.space] = self._new_level(norm)
        return self._levels[norm.space]

    def _new_level(self, norm: Norm) -> Level:
        add, lambdas = self._nodes, np.array(self._rows.lambdas)
        lambdas = lambdas.reshape(-1, 1, 1, *[1] * len(norm.space))
        pixels = add("ReduceProd", add("Shape", norm.x, start=2), keepdims=0)
        tiny = add("Equal", pixels, add.constant(np.array(1)))
        ones = add("Or", add.constant(lambdas == 1), tiny)
        rest = rest_var = add.constant(1 - lambdas)
        if self._rows.unbiased:
            number = add("Cast", pixels, to=FLOAT)
            factor = add("Div", number, add("Sub", number, add.constant(1.0)))
            first = np.arange(len(lambdas)).reshape(lambdas.shape) == 0
            if self._rows.captured:  # the row that captures normalises by the biased one
                factor = add("Where", add.constant(first), add.constant(1.0), factor)
            rest_var = add("Mul", rest, factor)
        return Level(tiny, ones, rest, rest_var)

    def tiny(self) -> str:
        """Whether any layer saw a map of a single value."""
        add, levels = self._nodes, list(self._levels.values())
        found = levels[0].tiny
        for level in levels[1:]:
            found = add("Or", found, level.tiny)
        return found

    def distance(self) -> str:
        """Distance of each image from the source, ``(N,)``: as ``Mixing.distance``.

        Layers count alike, and channels within a layer; those with tiny maps do not count.
        """
        add = self._nodes
        ranks = sorted({len(space) for space in self._levels})
        layers = [
            (i, *layer)
            for rank in ranks
            for i, (space, level) in enumerate(self._levels.items())
            if len(space) == rank
            for layer in level.layers
        ]
        far = self._divergence(layers, ranks)  # (N, all channels)
        share = np.zeros((len(self._levels), sum(len(norm.mean) for _, norm, _, _ in layers)))
        at = 0
        for i, norm, _, _ in layers:
            share[i, at : (at := at + len(norm.mean))] = 1 / len(norm.mean)
        counts = np.array([len(level.layers) for level in self._levels.values()])
        none = add.constant([0])
        tiny = [add("Unsqueeze", level.tiny, none) for level in self._levels.values()]
        seen = add("Cast", add("Not", add("Concat", *tiny, axis=0)), to=FLOAT)  # (levels,)
        total = add("MatMul", seen, add.constant(counts.astype(np.float32)))
        weights = add("Div", add("MatMul", seen, add.constant(share)), total)
        return add("MatMul", far, weights)

    def _divergence(self, layers: list[tuple[int, Norm, str, str]], ranks: Sequence[int]) -> str:
        """As ``statistics.channel_divergence``, of all layers."""
        add, norms = self._nodes, [norm for _, norm, _, _ in layers]
        mean = self._joined([(norm, mean) for _, norm, mean, _ in layers], ranks)
        var = self._joined([(norm, var) for _, norm, _, var in layers], ranks)
        source = np.concatenate([norm.mean for norm in norms])
        eps = np.concatenate([np.full_like(norm.var, norm.eps) for norm in norms])
        width = add.constant(np.concatenate([norm.var for norm in norms]) + eps)
        away = add("Sub", mean, add.constant(source))
        shift = add("Div", add("Mul", away, away), width)
        ratio = add("Div", add("Add", var, add.constant(eps)), width)
        both = add("Sub", add("Add", ratio, shift), add.constant(1.0))
        nats = add("Mul", add("Sub", both, add("Log", ratio)), add.constant(0.5))
        nats = add("Where", add("IsNaN", nats), add.constant(LARGEST), nats)
        return add("Clip", nats, add.constant(0.0), add.constant(LARGEST))

    def _joined(self, values: list[tuple[Norm, str]], ranks: Sequence[int]) -> str:
        """Statistics of several layers as ``(N, all channels)``."""
        add, parts = self._nodes, []
        for rank in ranks:
            some = [(norm, value) for norm, value in values if len(norm.space) == rank]
            names = [value for _, value in some]
            wide = sum(len(norm.mean) for norm, _ in some)
            parts.append(add("Reshape", add("Concat", *names, axis=1), add.constant([-1, wide])))
        return parts[0] if len(parts) == 1 else add("Concat", *parts, axis=1)
