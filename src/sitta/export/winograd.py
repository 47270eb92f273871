"""Convolutions of many channels with fewer products than their definition has.

Two schemes of plain nodes, the same but for rounding, for images of any size. Weights are
rearranged by nodes that a runtime evaluates once, when it loads the file, so that it does not grow.

- 3x3: four rows at a time after Winograd, F(4, 3) (Lavin and Gray, 2016): 6 products for 12.
- 3x3 on a map that was doubled by repeating its pixels: 9 products on the small map for 36.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sitta.export.nodes import Nodes

if TYPE_CHECKING:
    from onnx import NodeProto

    from sitta.data.picture import Array

LEAST = 128 * 64  # channels in times channels out: below, transforms cost more than products
LEAST_DOUBLED = 64 * 64
TILE = 4  # rows of an output that are computed together
END = 2**31 - 1  # of a slice that has none
# From 3 weights of a column to the 6 of a tile: G of F(4, 3), with the points 0, 1, -1, 2, -2.
RISE = np.array(
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ]
)
ALL, FIRST, LAST = np.ones(3), np.array([1.0, 0, 0]), np.array([0, 0, 1.0])
ENDS = (FIRST, LAST)


class Winograd:
    """Writes convolutions in one of the two schemes, where one pays.

    Args:
        nodes: Where to.
        shapes: Sides of the maps of the graph: numbers, or what the graph calls them.
        arrays: Its weights.
    """

    def __init__(
        self, nodes: Nodes, shapes: Mapping[str, list[Any]], arrays: Mapping[str, Array]
    ) -> None:
        self._nodes, self._shapes, self._arrays = nodes, shapes, arrays
        self._small: dict[str, str] = {}  # what was doubled, by the name of the result

    def __call__(self, node: NodeProto) -> bool:
        """Write what a node computes; False if it is left to the caller as it is."""
        if (small := self._doubled(node)) is not None:
            self._small[node.output[0]] = small  # if only convolutions use the result, it can go
            return False
        if node.op_type != "Conv" or not self._fits(node):
            return False
        x, weight, *bias = node.input
        size = int(np.prod(self._arrays[weight].shape[:2]))
        if x in self._small and size >= LEAST_DOUBLED:
            self._on_doubled(self._small[x], weight, bias, node.output[0])
            return True
        if size >= LEAST:
            self._by_rows(x, weight, bias, node.output[0])
            return True
        return False

    def _doubled(self, node: NodeProto) -> str | None:
        """What a node repeats every pixel of, in both directions; None if it does not."""
        told = _attributes(node)
        nearest = told.get("mode") == b"nearest" and told.get("nearest_mode") == b"floor"
        where = told.get("coordinate_transformation_mode") == b"asymmetric"
        if node.op_type != "Resize" or not (nearest and where) or len(node.input) != 3:
            return None
        scales = self._arrays.get(node.input[2])
        twice = scales is not None and scales.tolist() == [1.0, 1.0, 2.0, 2.0]
        return str(node.input[0]) if twice else None

    def _fits(self, node: NodeProto) -> bool:
        """Whether this is a 3x3 convolution of a map as large as its result."""
        weight = self._arrays.get(node.input[1])
        told = _attributes(node)
        usual = {"group": 1, "strides": [1, 1], "dilations": [1, 1], "pads": [1] * 4}
        plain = all(told.get(name, value) == value for name, value in usual.items())
        padded = "pads" in told and told.get("auto_pad", b"NOTSET") == b"NOTSET"
        return weight is not None and weight.shape[2:] == (3, 3) and plain and padded

    def _by_rows(self, x: str, weight: str, bias: Iterable[str], name: str) -> None:
        """F(4, 3) over rows; along a row the three weights stay as they are."""
        add = self._nodes
        side = self._shapes[name][2]
        tiles = self._tiles(x, side)
        found = []
        for number, (tile, rise) in enumerate(zip(tiles, RISE, strict=True)):
            weights = add("MatMul", add.constant(rise[None]), weight)  # (O, C, 1, 3)
            shift = bias if number == 1 else ()  # the second part is in every row once
            pads = [0, 1, 0, 1]
            found.append(add("Conv", tile, weights, *shift, pads=pads))  # (N, O, H / 4, W)
        whole = self._beside(self._rows(found), 3)  # (N, O, H / 4, 4, W)
        wide = add("Concat", add.constant([0, 0, -1]), add("Shape", x, start=3), axis=0)
        if _is_multiple(side, TILE):
            add("Reshape", whole, wide, name=name)
        else:
            long, high = add("Reshape", whole, wide), add("Shape", x, start=2, end=3)
            add("Slice", long, add.constant([0]), high, add.constant([2]), name=name)

    def _tiles(self, x: str, side: Any) -> list[str]:
        """The six combinations of rows of each tile and its two neighbours: B of F(4, 3)."""
        add, d = self._nodes, self._six_rows(x, side)
        four, two = add.constant(4.0), add.constant(2.0)
        even = add("Sub", d[4], add("Mul", d[2], four))
        odd = add("Sub", d[3], add("Mul", d[1], four))
        near, far = add("Sub", d[4], d[2]), add("Sub", d[3], d[1])
        twice = add("Mul", far, two)
        return [
            add("Add", add("Sub", even, d[2]), add("Mul", d[0], four)),
            add("Add", even, odd),
            add("Sub", even, odd),
            add("Add", near, twice),
            add("Sub", near, twice),
            add("Sub", add("Sub", d[5], d[3]), add("Mul", far, four)),
        ]

    def _six_rows(self, x: str, side: Any) -> list[str]:
        """Row 4 t + j - 1 of every tile t, for j from 0 to 5: each (N, C, H / 4, W)."""
        add = self._nodes
        pads = add.constant([0, 0, 1, 0, 0, 0, 1, 0])
        if not _is_multiple(side, TILE):
            high = add("Shape", x, start=2, end=3)
            missing = add("Mod", add("Neg", high), add.constant([TILE]))
            zeros = add.constant([0] * 6)
            more = add("Concat", zeros, missing, add.constant([0]), axis=0)
            pads = add("Add", pads, more)
        grown = add("Pad", x, pads)
        axis, step = add.constant([2]), add.constant([TILE])
        ends = [*range(-5, 0), END]
        return [
            add("Slice", grown, add.constant([j]), add.constant([end]), axis, step)
            for j, end in enumerate(ends)
        ]

    def _rows(self, found: list[str]) -> list[str]:
        """The four rows of each tile, from its six products: A of F(4, 3)."""
        add, (m0, m1, m2, m3, m4, m5) = self._nodes, found
        plus, minus = add("Add", m1, m2), add("Sub", m1, m2)
        wide, apart = add("Add", m3, m4), add("Sub", m3, m4)
        return [
            add("Add", add("Add", m0, plus), wide),
            add("Add", minus, add("Mul", apart, add.constant(2.0))),
            add("Add", plus, add("Mul", wide, add.constant(4.0))),
            add("Add", add("Add", minus, m5), add("Mul", apart, add.constant(8.0))),
        ]

    def _on_doubled(self, x: str, weight: str, bias: Iterable[str], name: str) -> None:
        """Each pixel and how its neighbours differ from it, which serve its four copies.

        On one axis a copy sees the pixel with two weights and a neighbour with the third: the pixel
        with all three, and the difference to the neighbour with that one.
        """
        add = self._nodes

        def product(of: str, down: Array, across: Array, *shift: str) -> str:
            rows = add("MatMul", add.constant(down[None]), weight)
            weights = add("MatMul", rows, add.constant(across[:, None]))  # (O, C, 1, 1)
            return add("Conv", of, weights, *shift)

        middle = product(x, ALL, ALL, *bias)
        sides = [product(d, ALL, e) for d, e in zip(self._apart(x, 3), ENDS, strict=True)]
        rows = []
        for difference, down in zip(self._apart(x, 2), ENDS, strict=True):
            base = add("Add", product(difference, down, ALL), middle)
            corners = zip(self._apart(difference, 3), ENDS, sides, strict=True)
            pair = [
                add("Add", product(corner, down, across), add("Add", base, side))
                for corner, across, side in corners
            ]
            rows.append(self._beside(pair, 4))  # (N, O, H, W, 2)
        twice = add("Mul", add("Shape", x, start=2), add.constant([2]))
        shape = add("Concat", add.constant([0, 0]), twice, axis=0)
        add("Reshape", self._beside(rows, 3), shape, name=name)

    def _apart(self, x: str, axis: int) -> tuple[str, str]:
        """By what the neighbours before and after differ from each pixel; zeros lie outside."""
        add = self._nodes
        pads = [int(i % 4 == axis) for i in range(8)]
        grown, where = add("Pad", x, add.constant(pads)), add.constant([axis])
        before = add("Slice", grown, add.constant([0]), add.constant([-2]), where)
        after = add("Slice", grown, add.constant([2]), add.constant([END]), where)
        return add("Sub", before, x), add("Sub", after, x)

    def _beside(self, maps: list[str], axis: int) -> str:
        """Maps side by side along a new axis."""
        add = self._nodes
        return add("Concat", *(add("Unsqueeze", m, add.constant([axis])) for m in maps), axis=axis)


def _attributes(node: NodeProto) -> dict[str, Any]:
    from onnx import helper

    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _is_multiple(side: Any, of: int) -> bool:
    """Whether a side is known to be a multiple, as ``8*s0`` is of 4.

    Example:
        >>> [_is_multiple(side, 4) for side in (32, 30, "8*s0", "2*s0", "8*s0 + 1")]
        [True, False, True, False, False]
    """
    found = re.fullmatch(r"(\d+)(\*\w+)*", str(side))
    return found is not None and int(found[1]) % of == 0
