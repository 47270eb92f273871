"""Convolutions of many channels with fewer products, for CPUs.

Two schemes of plain nodes, the same but for rounding, for images of any size. Weights are
rearranged by nodes that a runtime evaluates once, when it loads the file, so that it does not grow.

- 3x3: four rows at a time after Winograd, F(4, 3) (Lavin and Gray, 2016): 6 products for 12.
- 3x3 after upsampling by 2 (nearest): 9 products on the small map for 36.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sitta.export.nodes import Nodes

if TYPE_CHECKING:
    from onnx import NodeProto

    from sitta.data.image import Array

LEAST = 128 * 64  # channels in times channels out: below, transforms cost more than products
LEAST_UPSAMPLED = 64 * 64
NEAREST = {
    "mode": b"nearest",
    "nearest_mode": b"floor",
    "coordinate_transformation_mode": b"asymmetric",
}
TILE = 4  # rows of an output that are computed together
# F(4, 3) at the points 0, 1, -1, 2, -2: from 3 weights of a column to the 6 of a tile (G), and from
# the 4 rows of a tile with one above and one below to what they are multiplied with (B).
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
SPREAD = np.array(
    [
        [4.0, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
)
# Of a pixel and its neighbours before and after: the pixel, and by how much each neighbour differs;
# and of three weights those that go with each: all, the first, the last.
APART = np.array([[0.0, 1, 0], [1, -1, 0], [0, -1, 1]])
PART = np.array([[1.0, 1, 1], [1, 0, 0], [0, 0, 1]])


class Winograd:
    """Writes convolutions to ``nodes`` in one of the two schemes, where one pays.

    ``shapes`` are the sides of the graph's maps, numbers or names; ``arrays`` its constants.
    """

    def __init__(
        self, nodes: Nodes, shapes: Mapping[str, list[Any]], arrays: Mapping[str, Array]
    ) -> None:
        self._nodes, self._shapes, self._arrays = nodes, shapes, arrays
        self._small: dict[str, str] = {}  # maps before upsampling, by the name of the result

    def __call__(self, node: NodeProto) -> bool:
        """Write what a node computes; False if it is left to the caller as it is."""
        if (small := self._upsampled(node)) is not None:
            self._small[node.output[0]] = small  # if only convolutions use the result, it can go
            return False
        if node.op_type != "Conv" or not self._fits(node):
            return False
        x, weight, *bias = node.input
        size = int(np.prod(self._arrays[weight].shape[:2]))
        if x in self._small and size >= LEAST_UPSAMPLED:
            self._upsampled_conv(self._small[x], weight, bias, node.output[0])
            return True
        if size >= LEAST:
            self._by_rows(x, weight, bias, node.output[0])
            return True
        return False

    def _upsampled(self, node: NodeProto) -> str | None:
        """The map that a node upsamples by 2, repeating every pixel; None if it does not."""
        if node.op_type != "Resize" or len(node.input) != 3:
            return None
        attributes, scales = _attributes(node), self._arrays.get(node.input[2])
        nearest = all(attributes.get(name) == value for name, value in NEAREST.items())
        twice = scales is not None and scales.tolist() == [1.0, 1.0, 2.0, 2.0]
        return str(node.input[0]) if nearest and twice else None

    def _fits(self, node: NodeProto) -> bool:
        """Whether this is a 3x3 convolution of a map as large as its result."""
        weight = self._arrays.get(node.input[1])
        attributes = _attributes(node)
        usual = {"group": 1, "strides": [1, 1], "dilations": [1, 1], "pads": [1] * 4}
        plain = all(attributes.get(name, value) == value for name, value in usual.items())
        padded = "pads" in attributes and attributes.get("auto_pad", b"NOTSET") == b"NOTSET"
        return weight is not None and weight.shape[2:] == (3, 3) and plain and padded

    def _by_rows(self, x: str, weight: str, bias: Iterable[str], name: str) -> None:
        """F(4, 3) over rows; along a row the three weights stay as they are."""
        add, count = self._nodes, self._arrays[weight].shape[1]
        products = []
        for number, (spread, rise) in enumerate(zip(SPREAD, RISE, strict=True)):
            tile = self._each(x, spread[:, None], count, [1, 0, TILE, 0], TILE)  # (N, C, H / 4, W)
            weights = add("MatMul", add.constant(rise[None]), weight)  # (O, C, 1, 3)
            shift = bias if number == 1 else ()  # the second part is in every row once
            products.append(add("Conv", tile, weights, *shift, pads=[0, 1, 0, 1]))
        whole = self._beside(self._rows(products), 3)  # (N, O, H / 4, 4, W)
        wide = add("Concat", add.constant([0, 0, -1]), add("Shape", x, start=3), axis=0)
        if _is_multiple(self._shapes[name][2], TILE):
            add("Reshape", whole, wide, name=name)
        else:  # the last tile may reach below the map
            long, high = add("Reshape", whole, wide), add("Shape", x, start=2, end=3)
            add("Slice", long, add.constant([0]), high, add.constant([2]), name=name)

    def _each(self, x: str, kernel: Array, count: int, pads: list[int], step: int = 1) -> str:
        """The same small kernel on each channel: runtimes do this faster than shifts and sums."""
        weights = np.tile(kernel, (count, 1, 1, 1))  # (C, 1, *kernel)
        add = self._nodes
        return add("Conv", x, add.constant(weights), group=count, pads=pads, strides=[step, 1])

    def _rows(self, products: list[str]) -> list[str]:
        """The four rows of each tile, from its six products: A of F(4, 3)."""
        add, (m0, m1, m2, m3, m4, m5) = self._nodes, products
        plus, minus = add("Add", m1, m2), add("Sub", m1, m2)
        wide, apart = add("Add", m3, m4), add("Sub", m3, m4)
        return [
            add("Add", add("Add", m0, plus), wide),
            add("Add", minus, add("Mul", apart, add.constant(2.0))),
            add("Add", plus, add("Mul", wide, add.constant(4.0))),
            add("Add", add("Add", minus, m5), add("Mul", apart, add.constant(8.0))),
        ]

    def _upsampled_conv(self, x: str, weight: str, bias: Iterable[str], name: str) -> None:
        """Each pixel and how its neighbours differ from it, which serve its four copies.

        On one axis a copy sees the pixel with two weights and a neighbour with the third: the pixel
        with all three, and the difference to the neighbour with that one.
        """
        add, count = self._nodes, self._arrays[weight].shape[1]

        def product(down: int, across: int) -> str:
            far = np.outer(APART[down], APART[across])
            seen = x if down == across == 0 else self._each(x, far, count, [1] * 4)
            rows = add("MatMul", add.constant(PART[down][None]), weight)
            weights = add("MatMul", rows, add.constant(PART[across][:, None]))  # (O, C, 1, 1)
            return add("Conv", seen, weights, *(bias if seen == x else ()))

        middle, sides = product(0, 0), [product(0, across) for across in (1, 2)]
        rows = []
        for down in (1, 2):
            base = add("Add", product(down, 0), middle)
            pair = [
                add("Add", product(down, across), add("Add", base, side))
                for across, side in zip((1, 2), sides, strict=True)
            ]
            rows.append(self._beside(pair, 4))  # (N, O, H, W, 2)
        twice = add("Mul", add("Shape", x, start=2), add.constant([2]))
        shape = add("Concat", add.constant([0, 0]), twice, axis=0)
        add("Reshape", self._beside(rows, 3), shape, name=name)

    def _beside(self, maps: list[str], axis: int) -> str:
        """Maps side by side along a new axis."""
        add = self._nodes
        return add("Concat", *(add("Unsqueeze", m, add.constant([axis])) for m in maps), axis=axis)


def _attributes(node: NodeProto) -> dict[str, Any]:
    from onnx import helper

    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _is_multiple(side: Any, of: int) -> bool:
    """Whether a side is known to be a multiple, as ``8*s0`` is of 4."""
    match = re.fullmatch(r"(\d+)(\*\w+)*", str(side))
    return match is not None and int(match[1]) % of == 0
