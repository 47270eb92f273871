"""Nodes of ONNX, written one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto

    from sitta.data.image import Array


class Nodes:
    """A list of nodes that grows, and the constants that they use; names begin with a prefix."""

    def __init__(self, prefix: str) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}
        self._prefix, self._numbers = prefix, count()
        self._names: dict[tuple[Any, ...], str] = {}

    def __call__(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add a node of one output, and return the name of that."""
        from onnx import helper

        name = name or f"{self._prefix}_{next(self._numbers)}_{kind.lower()}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, value: Array | float | list[int]) -> str:
        """The name of a constant: whole numbers as int64, others as float32."""
        from onnx import numpy_helper

        array = np.asarray(value)
        array = array.astype(np.int64 if array.dtype.kind == "i" else array.dtype)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._names:
            name = self._names[key] = f"{self._prefix}_{next(self._numbers)}_constant"
            self.constants[name] = numpy_helper.from_array(array, name)
        return self._names[key]


def after(nodes: Iterable[NodeProto], names: set[str]) -> set[str]:
    """Names of tensors and of all that nodes, in their order, compute from them."""
    reached = set(names)
    for node in nodes:
        if reached.intersection(node.input):
            reached.update(filter(None, node.output))  # "" stands for what is left out
    return reached


def prune(graph: GraphProto) -> None:
    """Remove nodes and constants that nothing needs."""
    needed = {output.name for output in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    constants = [c for c in graph.initializer if c.name in needed]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(reversed(kept))
    graph.initializer.extend(constants)
