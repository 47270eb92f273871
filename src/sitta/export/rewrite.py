"""From the graph of one plain forward pass to the graph of all members.

Every BatchNorm of the network becomes the same layer under mixed statistics. What comes before the
first of them is computed once per image, not once per member.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sitta.core.members import Rows
from sitta.errors import UnsupportedModel
from sitta.export.nodes import Nodes, after
from sitta.export.passes import TARGETS
from sitta.export.passes.mixing import FLOAT, Mixer, Norm

if TYPE_CHECKING:
    from onnx import GraphProto, ValueInfoProto

    from sitta.data.image import Array

SHAPES = ("Shape", "Size")


class Rewriter:
    """Computes ``logits`` ``(K, N, C, *S)``, ``distance`` ``(N,)`` and ``tiny`` from ``image``.

    From a graph of one input ``(N, C, *S)`` whose first output are the logits; ``statistics`` names
    the running means to mix. Sides grow to multiples of ``multiple``, as the network itself does.
    """

    def __init__(
        self, graph: GraphProto, statistics: set[str], rows: Rows, multiple: int, target: str
    ) -> None:
        self.nodes = Nodes("sitta")
        self._graph, self._rows, self._multiple = graph, rows, multiple
        self._types = {v.name: v for v in (*graph.value_info, *graph.input, *graph.output)}
        self._arrays = _arrays(graph)
        self._image, self._rank = graph.input[0].name, len(sides(graph.input[0])) - 2
        self._norms = self._find(statistics)
        self._wide: dict[str, str] = {}
        self._count = self.nodes("Shape", "image", start=0, end=1)
        self._sides = self.nodes("Shape", "image", start=2)
        self._mixer = Mixer(self.nodes, rows, self._count)
        shapes = {name: sides(value) for name, value in self._types.items()}
        self._passes = [kind(self.nodes, shapes, self._arrays) for kind in TARGETS[target]]
        self._enter()
        self._leave(self._rewrite())

    def _find(self, statistics: set[str]) -> dict[str, Norm]:
        """Layers to mix, by the name of their output."""
        if all(lam == 1 for lam in self._rows.lambdas):
            return {}  # nothing of the image is needed
        norms = {}
        for node in self._graph.node:
            if node.op_type != "BatchNormalization" or node.input[3] not in statistics:
                continue
            batch, _, *space = sides(self._types[node.input[0]])
            if batch != sides(self._graph.input[0])[0]:
                raise UnsupportedModel(
                    f"A BatchNorm (of {node.input[3]}) sees another number of rows than there are "
                    "images, which a graph cannot hold.",
                    fix="let every image keep one row on the way through the model",
                )
            if space and space != [1] * len(space):  # one value has no variance: the source's
                weight, bias, mean, var = (self._arrays[name] for name in node.input[1:])
                eps = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
                x, y = node.input[0], node.output[0]
                norms[y] = Norm(x, y, tuple(space), weight, bias, mean, var, eps)
        if not norms:
            raise UnsupportedModel("The forward pass uses none of the model's BatchNorm layers.")
        return norms

    def _enter(self) -> None:
        """Name the image, and grow its sides as the network would."""
        add = self.nodes
        if self._multiple == 1:
            add("Identity", "image", name=self._image)
            return
        missing = add("Mod", add("Neg", self._sides), add.constant([self._multiple]))
        pads = add("Concat", add.constant([0] * (self._rank + 4)), missing, axis=0)
        add("Pad", "image", pads, mode="edge", name=self._image)

    def _rewrite(self) -> str:
        """Write all nodes for R rows of each image; returns the name of the logits."""
        once = self._shared()
        for node in self._graph.node:
            if node.output[0] in self._norms:
                self._mixer(self._norms[node.output[0]], node.input[0] in once)
                continue
            if node.output[0] not in once:
                for i, name in enumerate(node.input):
                    if name in once:
                        node.input[i] = self._repeated(name)
            if not any(write(node) for write in self._passes):
                self.nodes.nodes.append(node)
        logits = self._graph.output[0].name
        return self._repeated(logits) if logits in once else logits

    def _shared(self) -> set[str]:
        """What can be computed once per image: all that no mixed layer comes before.

        The image alone if something there depends on the number of rows.
        """
        nodes = list(self._graph.node)
        mixed = after(nodes, set(self._norms))
        seen = after(nodes, {self._image}) - mixed
        shapes = {n.output[0] for n in nodes if n.op_type in SHAPES and n.input[0] in seen}
        counted = after((n for n in nodes if n.output[0] in seen), shapes)
        maps = seen - counted
        batch = sides(self._graph.input[0])[0]

        def is_map(name: str) -> bool:
            return bool(self._types[name].type.tensor_type.elem_type == FLOAT)

        clear = all(name in self._types for name in seen) and not any(map(is_map, counted))
        if clear and all(is_map(m) and sides(self._types[m])[:1] == [batch] for m in maps):
            return maps or {self._image}
        return {self._image}

    def _repeated(self, name: str) -> str:
        """R rows of what has one for each image."""
        if name not in self._wide:
            self._wide[name] = self.nodes("Concat", *[name] * len(self._rows), axis=0)
        return self._wide[name]

    def _leave(self, logits: str) -> None:
        """Cut the logits to the sides of the image, and put the members in their order."""
        add = self.nodes
        if self._multiple > 1:
            axes = list(range(2, 2 + self._rank))
            starts = add.constant([0] * len(axes))
            logits = add("Slice", logits, starts, self._sides, add.constant(axes))
        rows = add.constant([len(self._rows), -1])
        shape = add("Concat", rows, add("Shape", logits, start=1), axis=0)
        if self._rows.is_ordered:
            add("Reshape", logits, shape, name="logits")
        else:
            order = add.constant(list(self._rows.order))
            add("Gather", add("Reshape", logits, shape), order, axis=0, name="logits")
        if self._norms:
            add("Identity", self._mixer.distance(), name="distance")
            add("Identity", self._mixer.tiny(), name="tiny")
        else:
            add("Expand", add.constant(np.array(np.nan)), self._count, name="distance")
            add("Identity", add.constant(np.array(False)), name="tiny")


def sides(value: ValueInfoProto) -> list[Any]:
    """Of a tensor: a number where it is fixed, else what the graph calls it."""
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def _arrays(graph: GraphProto) -> Mapping[str, Array]:
    """Weights and other constants by their names."""
    from onnx import helper, numpy_helper

    arrays = {c.name: numpy_helper.to_array(c) for c in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            value = helper.get_attribute_value(node.attribute[0])
            is_tensor = node.attribute[0].name == "value"
            arrays[node.output[0]] = numpy_helper.to_array(value) if is_tensor else np.array(value)
    return arrays
