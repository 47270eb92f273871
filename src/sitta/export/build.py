"""The two halves of a graph put together, checked and written."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from sitta._util.files import atomic_write
from sitta._util.settings import constraints
from sitta._version import __version__
from sitta.adaptation import InTEnt
from sitta.core.entropy import resolve
from sitta.core.integration import shared_strategies
from sitta.data.preprocess import Preprocess
from sitta.errors import InvalidSetting, UnsupportedModel
from sitta.export import check
from sitta.export.answers import ANSWERS, Answers
from sitta.export.nodes import Nodes, prune
from sitta.export.rewrite import Rewriter, sides
from sitta.export.trace import OPSET, export, quiet, to_onnx, trace
from sitta.inference.backends.manifest import Manifest

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

IR = 10  # of ONNX's formats
NOT_KEPT = ("members_at_once", "rho")  # settings that mean nothing in a graph
LIMIT = 2**31  # bytes of a file in the format of ONNX


@dataclass(frozen=True)
class Exported:
    """The file that was written."""

    path: Path
    size: int  # in bytes
    nodes: int  # of the graph
    multiple: int  # sides of images must be multiples of this; 1 if any will do
    difference: float  # the largest of a probability between the file on onnxruntime and torch
    pixels: float  # the share of the mask's pixels that differ
    compared: tuple[tuple[int, ...], ...]  # shapes of the images on which they were compared

    def as_dict(self) -> dict[str, Any]:
        """In plain types."""
        return {**asdict(self), "path": str(self.path)}

    def __str__(self) -> str:
        where = ", ".join("x".join(map(str, shape)) for shape in self.compared)
        takes = "any sides" if self.multiple == 1 else f"sides in multiples of {self.multiple}"
        return (
            f"{self.path}: {self.size / 1e6:.1f} MB, {self.nodes} nodes, takes {takes}\n"
            f"compared with torch at {where}: probabilities within {self.difference:.1g}, "
            f"{100 * self.pixels:.2g} % of mask pixels differ"
        )


def write(
    method: InTEnt,
    path: Path,
    card: Mapping[str, Any],
    *,
    channels: int | None = None,
    multiple: int | None = None,
    named: bool = False,
    target: str = "cpu",
    shape: Sequence[int] | None = None,
) -> Exported:
    """Build the graph of a method, write it, and check that it gives the numbers of torch.

    The arguments are those of ``export_onnx``; ``named`` says whether the classes of the card are
    those that the user gave.
    """
    import onnx

    require_exportable(method)
    channels, rank = channels or method.census.in_channels, method.census.rank
    if channels is None or rank is None:
        raise UnsupportedModel(
            "No convolution of the model says how many channels an image has.",
            fix="say so (channels=, --channels)",
        )
    method = replace(method, model=copy.deepcopy(method.model).cpu().float())
    traced = trace(method.model, method.output, channels, rank, multiple)
    outputs = sides(traced.model.graph.output[0])[1]
    activation = resolve(method.activation, outputs)
    card = with_classes(card, named, outputs, activation)
    multiple = 1 if traced.pads else traced.multiple
    grow = traced.multiple if traced.pads else 1
    plain = traced.model.graph
    nodes = Rewriter(plain, traced.statistics, method.rows, grow, target).nodes
    axes = ["N", channels, *"DHW"[-rank:]]
    image = onnx.helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, axes)
    graph = _joined(nodes, plain.initializer, answers(method, outputs, rank).graph, image)
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=IR
    )
    model.producer_name = "sitta"
    settings = {name: getattr(method, name) for name in constraints(method) if name not in NOT_KEPT}
    trained = method._trained(method.grid)
    about = (__version__, method.name, settings, method.grid, activation, card, multiple, trained)
    manifest = Manifest(*about)
    onnx.helper.set_model_props(model, manifest.write())
    pre = Preprocess.from_dict(card["preprocess"]) if "preprocess" in card else None
    size = _size(shape, pre, rank, multiple)
    given = check.images(channels, rank, traced.multiple, traced.pads, size, pre)
    with atomic_write(path) as draft:
        onnx.save(model, draft)
        apart = check.compare(draft, method, activation, given)
    compared = tuple(tuple(image.shape) for image in given)
    how_far = apart.probability, apart.pixels
    return Exported(path, path.stat().st_size, len(graph.node), multiple, *how_far, compared)


def _size(
    shape: Sequence[int] | None, preprocess: Preprocess | None, rank: int, multiple: int
) -> Sequence[int] | None:
    """Sides of an image to compare on: those given, else the model's own; None if unknown."""
    if shape is not None:
        if len(shape) != rank or any(side < 1 or side % multiple for side in shape):
            kind = "positive" if multiple == 1 else f"in multiples of {multiple}"
            raise InvalidSetting(
                "shape does not fit the model.", allowed=f"{rank} sides, {kind}", got=str(shape)
            )
        return shape
    own = preprocess.size if preprocess is not None else None
    return own if own is not None and len(own) == rank else None


def require_exportable(method: InTEnt) -> None:
    """Refuse what a graph cannot hold."""
    if method.needs_own_passes:
        raise InvalidSetting(
            f"The strategy '{method.strategy}' needs gradients, which an ONNX graph cannot take.",
            allowed=", ".join(shared_strategies()),
        )
    if method.source_statistics:
        raise InvalidSetting(
            "An ONNX graph holds no source_statistics: its layers are BatchNorm.",
            fix="run this model in Python",
        )
    if method.census.parameters * 4 >= LIMIT:
        raise UnsupportedModel(
            "The model is too large for one ONNX file.",
            allowed=f"{LIMIT // 4:,} parameters",
            got=f"{method.census.parameters:,}",
        )


def with_classes(
    card: Mapping[str, Any], named: bool, outputs: int, activation: str
) -> dict[str, Any]:
    """The card, with a name for each class of the model, background first."""
    count = outputs if activation == "softmax" else outputs + 1
    names = card.get("classes")
    if (2 if names is None else len(names)) == count:  # without names, there are two
        return dict(card)
    usual = ["foreground"] if count == 2 else [f"class {n}" for n in range(1, count)]
    if names is not None and named:
        plural = "s" if outputs > 1 else ""
        raise InvalidSetting(
            "The names of the classes do not fit the classes of the model.",
            allowed=f"{count} names, background first, for {outputs} output{plural} ({activation})",
            got=", ".join(map(str, names)),
            fix=f"such as {','.join(['background', *usual])}, or leave them out",
        )
    return {**card, "classes": ["background", *usual]}


def answers(method: InTEnt, channels: int, rank: int) -> ModelProto:
    """What follows from the logits, as a graph from ``logits`` to ``ANSWERS``."""
    example = torch.zeros(len(method.grid), 2, channels, *(24 + 8 * i for i in range(rank)))
    dynamic: dict[int, Any] = {1: torch.export.Dim("batch")}
    dynamic |= {3 + i: torch.export.Dim(f"side{i}") for i in range(rank)}
    with torch.no_grad(), quiet():
        return to_onnx(export(Answers(method), (example,), dynamic))


def _joined(members: Nodes, weights: Iterable[Any], second: GraphProto, image: Any) -> GraphProto:
    """One graph, without traces of the machine that made it."""
    from onnx import helper

    names = {second.input[0].name: "logits"}
    names |= {o.name: name for o, name in zip(second.output, ANSWERS, strict=True)}
    if len(names) <= len(ANSWERS):
        raise UnsupportedModel("Two outputs of the graph are one and the same tensor.")
    for node in second.node:
        for tensors in (node.input, node.output):
            tensors[:] = [names.get(n, f"answers_{n}") if n else n for n in tensors]
    outputs = _outputs(second)
    for constant in second.initializer:
        constant.name = f"answers_{constant.name}"
    constants = [*weights, *members.constants.values(), *second.initializer]
    nodes = [*members.nodes, *second.node]
    graph = helper.make_graph(nodes, "sitta", [image], outputs, constants)
    for part in (*graph.node, *graph.initializer):
        part.ClearField("doc_string")
        del part.metadata_props[:]
    for i, node in enumerate(graph.node):
        node.name = f"node_{i}"
    prune(graph)
    return graph


def _outputs(second: GraphProto) -> list[Any]:
    """All outputs with their types and sides, of which those that vary get plain names."""
    from onnx import TensorProto, helper

    _, batch, _, *space = sides(second.input[0])
    axes = {batch: "N", **dict(zip(space, "DHW"[-len(space) :], strict=True))}
    tensor = helper.make_tensor_value_info
    return [
        *(
            tensor(name, o.type.tensor_type.elem_type, [axes.get(side, side) for side in sides(o)])
            for o, name in zip(second.output, ANSWERS, strict=True)
        ),
        tensor("distance", TensorProto.FLOAT, ["N"]),
        tensor("tiny", TensorProto.BOOL, []),
    ]
