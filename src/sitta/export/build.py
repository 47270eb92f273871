"""The two halves of a graph put together, checked and written."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from sitta.adaptation import InTEnt
from sitta.entropy import resolve
from sitta.errors import InvalidSetting, UnsupportedModel
from sitta.export import Exported, about, check, require_small
from sitta.export.answers import ANSWERS, Answers
from sitta.export.members import members, sides
from sitta.export.mixing import Rows
from sitta.export.nodes import prune
from sitta.export.trace import OPSET, export, quiet, to_onnx, trace
from sitta.integration import STRATEGIES
from sitta.storage import finished

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

OUTPUTS = (*ANSWERS, "distance", "tiny")
IR = 10  # of ONNX's formats


@dataclass(frozen=True)
class Choices:
    """What ``export_onnx`` was told apart from the method."""

    card: Mapping[str, Any]
    channels: int | None
    multiple: int | None
    named: bool = False  # whether the card's classes are those that the user gave
    winograd: bool = True


def write(method: InTEnt, path: Path, choices: Choices) -> Exported:
    """Build the graph of a method, write it, and see that it says what torch says."""
    import onnx

    require_exportable(method)
    channels, rank = choices.channels or method.census.in_channels, method.census.rank
    if channels is None or rank is None:
        raise UnsupportedModel(
            "No convolution of the model tells how many channels an image has.",
            fix="say so (channels=, --channels)",
        )
    method = replace(method, model=copy.deepcopy(method.model).cpu().float())
    traced = trace(method.model, method.output, channels, rank, choices.multiple)
    outputs = sides(traced.model.graph.output[0])[1]
    activation = resolve(method.activation, outputs)
    card = with_classes(choices, outputs, activation)
    multiple = 1 if traced.pads else traced.multiple
    rows = Rows.of(method.grid, method.statistics == "captured", method.variance == "unbiased")
    pads = traced.multiple if traced.pads else None
    nodes = members(traced.model.graph, traced.statistics, rows, pads, choices.winograd)
    graph = _joined(
        (nodes.nodes, [*traced.model.graph.initializer, *nodes.constants.values()]),
        answers(method, outputs, rank),
        _signature(len(method.grid), channels, outputs, rank, activation == "softmax"),
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=IR
    )
    model.producer_name = "sitta"
    onnx.helper.set_model_props(model, {"sitta": about(method, activation, multiple, card)})
    given = check.images(channels, rank, traced.multiple, traced.pads)
    with finished(path) as draft:
        onnx.save(model, draft)
        difference = check.compare(draft, method, activation, given)
    compared = tuple(tuple(image.shape) for image in given)
    return Exported(path, path.stat().st_size, len(graph.node), multiple, difference, compared)


def require_exportable(method: InTEnt) -> None:
    """Refuse what a graph cannot hold."""
    if STRATEGIES[method.strategy].figure == "sharpness":
        raise InvalidSetting(
            "The strategy 'sharpness' needs gradients, which a graph for inference has not.",
            allowed=", ".join(n for n, s in STRATEGIES.items() if s.figure != "sharpness"),
        )
    require_small(method.census.parameters)


def with_classes(choices: Choices, outputs: int, activation: str) -> dict[str, Any]:
    """The card, with a name for each class that the model tells apart, background first."""
    count = outputs if activation == "softmax" else outputs + 1
    known = choices.card.get("classes")
    if (2 if known is None else len(known)) == count:  # without names, there are two
        return dict(choices.card)
    usual = ["foreground"] if count == 2 else [f"class {n}" for n in range(1, count)]
    if known is not None and choices.named:
        plural = "s" if outputs > 1 else ""
        raise InvalidSetting(
            "The names of the classes do not fit what the model tells apart.",
            allowed=f"{count} names, background first, for {outputs} output{plural} ({activation})",
            got=", ".join(map(str, known)),
            fix=f"such as {','.join(['background', *usual])}, or leave them out",
        )
    return {**choices.card, "classes": ["background", *usual]}


def answers(method: InTEnt, channels: int, rank: int) -> ModelProto:
    """What follows from the logits, as a graph from ``logits`` to ``ANSWERS``."""
    example = torch.zeros(len(method.grid), 2, channels, *(24 + 8 * i for i in range(rank)))
    dynamic: dict[int, Any] = {1: torch.export.Dim("batch")}
    dynamic |= {3 + i: torch.export.Dim(f"side{i}") for i in range(rank)}
    with torch.no_grad(), quiet():
        return to_onnx(export(Answers(method), (example,), dynamic))


def _joined(first: Any, second: ModelProto, signature: tuple[Any, Any]) -> GraphProto:
    """One graph, of which nothing tells where on which machine it was made."""
    from onnx import helper

    nodes, constants = first
    graph = second.graph
    given = {graph.input[0].name: "logits"}
    given |= {o.name: name for o, name in zip(graph.output, ANSWERS, strict=True)}
    doubled = len(given) <= len(ANSWERS)  # one tensor is two outputs
    if doubled:
        raise UnsupportedModel("Two outputs of the graph are one and the same tensor.")

    def renamed(names: Iterable[str]) -> list[str]:
        return [given.get(n, f"answers_{n}") if n else n for n in names]

    for node in graph.node:
        inputs, outputs = renamed(node.input), renamed(node.output)
        del node.input[:], node.output[:]
        node.input.extend(inputs)
        node.output.extend(outputs)
    for constant in graph.initializer:
        constant.name = f"answers_{constant.name}"
    whole = helper.make_graph(
        [*nodes, *graph.node], "sitta", *signature, [*constants, *graph.initializer]
    )
    for i, node in enumerate(whole.node):
        node.name = f"node_{i}"
        node.ClearField("doc_string")
        del node.metadata_props[:]
    for constant in whole.initializer:
        constant.ClearField("doc_string")
        del constant.metadata_props[:]
    prune(whole)
    return whole


def _signature(
    count: int, channels: int, outputs: int, rank: int, softmax: bool
) -> tuple[Any, Any]:
    """Input and outputs with their types and sides."""
    from onnx import TensorProto, helper

    space = list("DHW"[-rank:])
    mask = ["N", *space] if softmax or outputs == 1 else ["N", outputs, *space]
    shapes: dict[str, list[Any]] = {
        "probability": ["N", outputs, *space],
        "mask": mask,
        "members": [count, "N", outputs, *space],
        "weights": [count, "N"],
        "entropies": [count, "N"],
        "usable": [count, "N"],
        "agreement": ["N"],
        "uncertainty": ["N", *space],
        "disagreement": ["N", *space],
        "distance": ["N"],
        "tiny": [],
    }
    kinds = {"mask": TensorProto.INT64, "usable": TensorProto.BOOL, "tiny": TensorProto.BOOL}
    tensor = helper.make_tensor_value_info
    image = tensor("image", TensorProto.FLOAT, ["N", channels, *space])
    return [image], [tensor(n, kinds.get(n, TensorProto.FLOAT), shapes[n]) for n in OUTPUTS]
