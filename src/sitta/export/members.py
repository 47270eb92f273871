"""From the graph of one plain forward pass to the graph of all members.

Every BatchNorm of the network becomes the same layer under mixed statistics. What comes before the
first of them is computed once for an image, and not once a member.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sitta.errors import UnsupportedModel
from sitta.export.mixing import FLOAT, Mixer, Norm, Rows
from sitta.export.nodes import Nodes, after
from sitta.export.winograd import Winograd

if TYPE_CHECKING:
    from onnx import GraphProto, ValueInfoProto

    from sitta.data.picture import Array

SHAPES = ("Shape", "Size")


def members(
    graph: GraphProto,
    statistics: set[str],
    rows: Rows,
    multiple: int | None,
    winograd: bool = True,
) -> Nodes:
    """The nodes of all members, from the graph of a plain pass.

    Args:
        graph: Of one input ``(N, C, *S)`` and of one output, the logits.
        statistics: Names of the running means that are to be mixed.
        rows: Of the batch.
        multiple: What to grow sides to a multiple of, as the network itself does; None if it
            does not.
        winograd: Whether wide convolutions are written with fewer products.

    Returns:
        Nodes that compute ``logits`` ``(K, N, C, *S)``, ``distance`` ``(N,)`` and ``tiny`` from
        ``image``.
    """
    return _Rewriting(graph, statistics, rows, multiple, winograd).nodes


class _Rewriting:
    def __init__(
        self,
        graph: GraphProto,
        statistics: set[str],
        rows: Rows,
        multiple: int | None,
        winograd: bool,
    ) -> None:
        self.nodes = Nodes("sitta")
        self._graph, self._rows = graph, rows
        self._types = {v.name: v for v in (*graph.value_info, *graph.input, *graph.output)}
        self._arrays = _arrays(graph)
        self._norms = self._find(statistics)
        self._image = graph.input[0].name
        self._wide: dict[str, str] = {}
        self._count = self.nodes("Shape", "image", start=0, end=1)
        self._mixer = Mixer(self.nodes, rows, self._count)
        shapes = {name: sides(value) for name, value in self._types.items()}
        self._shorter = Winograd(self.nodes, shapes, self._arrays) if winograd else None
        self._enter(multiple)
        self._rewrite()
        self._leave(multiple)

    def _find(self, statistics: set[str]) -> dict[str, Norm]:
        """Layers to mix, by the name of their output."""
        if all(lam == 1 for lam in self._rows.lambdas):
            return {}  # nothing of the image is needed
        found = {}
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
                found[y] = Norm(x, y, tuple(space), weight, bias, mean, var, eps)
        if not found:
            raise UnsupportedModel("The forward pass uses none of the model's BatchNorm layers.")
        return found

    def _enter(self, multiple: int | None) -> None:
        """Name the image, and grow its sides as the network would."""
        add = self.nodes
        if multiple is None or multiple == 1:
            add("Identity", "image", name=self._image)
            return
        self._sides = add("Shape", "image", start=2)
        missing = add("Mod", add("Neg", self._sides), add.constant([multiple]))
        rank = len(sides(self._graph.input[0]))
        before = add.constant([0] * (rank + 2))
        pads = add("Concat", before, missing, axis=0)
        add("Pad", "image", pads, mode="edge", name=self._image)

    def _rewrite(self) -> None:
        once = self._shared()
        for node in self._graph.node:
            if node.output[0] in self._norms:
                self._mixer(self._norms[node.output[0]], node.input[0] in once)
                continue
            if node.output[0] not in once:
                for i, name in enumerate(node.input):
                    if name in once:
                        node.input[i] = self._repeated(name)
            if self._shorter is None or not self._shorter(node):
                self.nodes.nodes.append(node)
        self._logits = self._graph.output[0].name
        if self._logits in once:
            self._logits = self._repeated(self._logits)

    def _shared(self) -> set[str]:
        """What can be computed once for an image: all that no mixed layer comes before.

        None, and so the image itself is repeated, if something there goes by the number of rows.
        """
        nodes = list(self._graph.node)
        mixed = after(nodes, set(self._norms))
        seen = after(nodes, {self._image}) - mixed
        shapes = {n.output[0] for n in nodes if n.op_type in SHAPES and n.input[0] in seen}
        counted = after((n for n in nodes if n.output[0] in seen), shapes)
        maps = seen - counted
        batch = sides(self._graph.input[0])[0]
        told = all(name in self._types for name in seen)
        if not told or any(self._is_map(name) for name in counted):
            maps = set()
        if any(not self._is_map(name) or sides(self._types[name])[:1] != [batch] for name in maps):
            maps = set()
        return maps or {self._image}

    def _is_map(self, name: str) -> bool:
        return bool(self._types[name].type.tensor_type.elem_type == FLOAT)

    def _repeated(self, name: str) -> str:
        """R rows of what has one for each image."""
        if name not in self._wide:
            copies = [name] * self._rows.count
            self._wide[name] = self.nodes("Concat", *copies, axis=0)
        return self._wide[name]

    def _leave(self, multiple: int | None) -> None:
        """Cut the logits to the sides of the image, and put the members in their order."""
        add, logits = self.nodes, self._logits
        rank = len(sides(self._graph.input[0]))
        if multiple is not None and multiple > 1:
            axes = list(range(2, rank))
            starts, ends = add.constant([0] * len(axes)), self._sides
            logits = add("Slice", logits, starts, ends, add.constant(axes))
        some = add.constant([self._rows.count, -1])
        shape = add("Concat", some, add("Shape", logits, start=1), axis=0)
        if self._rows.order == tuple(range(self._rows.count)):
            add("Reshape", logits, shape, name="logits")
        else:
            rows = add("Reshape", logits, shape)
            add("Gather", rows, add.constant(list(self._rows.order)), axis=0, name="logits")
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

    found = {c.name: numpy_helper.to_array(c) for c in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            value = helper.get_attribute_value(node.attribute[0])
            is_tensor = node.attribute[0].name == "value"
            found[node.output[0]] = numpy_helper.to_array(value) if is_tensor else np.array(value)
    return found
