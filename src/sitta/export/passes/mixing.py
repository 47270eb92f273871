"""BatchNorms under mixed statistics (Eq. 5) as nodes of ONNX: ``sitta.core.norm``, written out.

R rows of each of N images, row by row. Plain reductions and products alone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sitta.core.members import Rows
from sitta.export.nodes import Nodes

if TYPE_CHECKING:
    from sitta.data.image import Array

LARGEST = float(np.finfo(np.float32).max)
FLOAT = 1  # of ONNX's types


@dataclass(frozen=True)
class Norm:
    """A BatchNorm of the plain graph."""

    x: str  # the name of its input
    y: str  # the name of its output
    space: tuple[Any, ...]  # the sides of its input, as the graph names them
    weight: Array  # (C,), and so the others
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
    """Writes the nodes that stand in for BatchNorms; ``count`` names the number of images."""

    def __init__(self, nodes: Nodes, rows: Rows, count: str) -> None:
        self._nodes, self._rows, self._count = nodes, rows, count
        self._levels: dict[tuple[Any, ...], Level] = {}

    def __call__(self, norm: Norm, once: bool) -> None:
        """Add the nodes of one layer, whose input has one row per image if ``once``, else R."""
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
            shape = add("Concat", add.constant([-1]), add("Shape", norm.x, start=1), axis=0)
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
        shape = add.constant([len(self._rows), -1, len(norm.mean), *[1] * len(norm.space)])
        return add("Reshape", mean, shape), add("Reshape", var, shape)

    def _measured(self, mean: str, var: str, once: bool) -> tuple[str, str]:
        """What the distance is measured by: in-layer, what the row of the lowest lambda sees."""
        if self._rows.captured or once:
            return mean, var
        add = self._nodes
        at = add.constant(np.array(np.argmin(self._rows.lambdas)))
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
        if norm.space in self._levels:
            return self._levels[norm.space]
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
        self._levels[norm.space] = Level(tiny, ones, rest, rest_var)
        return self._levels[norm.space]

    def tiny(self) -> str:
        """Whether any layer saw a map of a single value."""
        tiny = [level.tiny for level in self._levels.values()]
        return functools.reduce(functools.partial(self._nodes, "Or"), tiny)

    def distance(self) -> str:
        """Distance of each image from the source, ``(N,)``: as ``StatisticsMixer.distance``.

        Layers count alike, and channels within a layer; those with tiny maps do not count.
        """
        add, levels = self._nodes, list(self._levels.values())
        layers = [layer for level in levels for layer in level.layers]
        counts = np.array([len(level.layers) for level in levels], dtype=np.float32)
        own = np.repeat(np.eye(len(levels)), counts.astype(int), axis=1)  # (levels, layers)
        channels = np.array([len(norm.mean) for norm, _, _ in layers])
        share = np.repeat(own / channels, channels, axis=1)  # (levels, all channels)
        tiny = [add("Unsqueeze", level.tiny, add.constant([0])) for level in levels]
        seen = add("Cast", add("Not", add("Concat", *tiny, axis=0)), to=FLOAT)  # (levels,)
        total = add("MatMul", seen, add.constant(counts))
        weights = add("Div", add("MatMul", seen, add.constant(share)), total)
        return add("MatMul", self._divergence(layers), weights)

    def _divergence(self, layers: list[tuple[Norm, str, str]]) -> str:
        """As ``moments.divergence``, of every channel of all layers: ``(N, all channels)``."""
        add, norms = self._nodes, [norm for norm, _, _ in layers]

        def joined(values: Iterable[str]) -> str:
            flat = (
                add("Reshape", value, add.constant([-1, len(norm.mean)]))
                for norm, value in zip(norms, values, strict=True)
            )
            return add("Concat", *flat, axis=1)

        mean, var = joined(mean for _, mean, _ in layers), joined(var for _, _, var in layers)
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
