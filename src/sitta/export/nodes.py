"""Nodes of ONNX, written one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto

    from sitta.data.picture import Array


class Nodes:
    """A list of nodes that grows, and the constants that they use.

    Args:
        prefix: What the names of all that is added begin with.

    Example:
        >>> nodes = Nodes("demo")
        >>> double = nodes("Add", "x", "x")
        >>> nodes("Mul", double, nodes.constant(0.5)), [n.op_type for n in nodes.nodes]
        ('demo_2_mul', ['Add', 'Mul'])
    """

    def __init__(self, prefix: str) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}
        self._prefix, self._numbers = prefix, count()
        self._known: dict[tuple[Any, ...], str] = {}

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
        if key not in self._known:
            name = self._known[key] = f"{self._prefix}_{next(self._numbers)}_constant"
            self.constants[name] = numpy_helper.from_array(array, name)
        return self._known[key]


def after(nodes: Iterable[NodeProto], names: set[str]) -> set[str]:
    """Names of all that is computed, directly or not, from some tensors; and those themselves.

    Args:
        nodes: In the order of computation.
        names: Of the tensors to begin with.
    """
    found = set(names)
    for node in nodes:
        if found.intersection(node.input):
            found.update(filter(None, node.output))  # "" stands for what is left out
    return found


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
