"""From a network in torch to the ONNX graph of one plain forward pass, for any batch and sides."""

from __future__ import annotations

import copy
import logging
import math
import re
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.conv import _ConvNd

from sitta.core.norm import MixedNorm, StatisticsMixer
from sitta.core.returned import Output, logits_of
from sitta.core.twin import twin
from sitta.errors import UnsupportedModel
from sitta.models import UNet

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET = 18  # of ONNX: onnxruntime 1.14 and OpenVINO 2023.1 know it
PROBES = {1: 256, 2: 64, 3: 32}  # sides of the image that shows the stride, by their number
LARGER = 4  # a network may need a larger multiple than its stride: this many doublings


@dataclass(frozen=True)
class Traced:
    """A plain forward pass as a graph."""

    model: ModelProto  # of one input, and the logits as its first output
    statistics: set[str]  # names of the running means of layers that mix
    multiple: int  # sides are multiples of this
    pads: bool  # whether the network itself grows sides to multiples, and cuts its logits back


class Plain(nn.Module):
    """A network in float32 on the CPU, as it is at inference, that returns its logits alone.

    With ``mixing.keeps``, also what each layer with running statistics returns.
    """

    def __init__(self, model: nn.Module, output: Output = None) -> None:
        super().__init__()
        self.mixing = SourceStatistics()
        memo = {id(self.mixing): self.mixing}
        network = twin(model, self.mixing)[0]
        self.network = copy.deepcopy(network, memo).cpu().float()
        self.output = output
        for module in self.network.modules():
            if isinstance(module, MixedNorm):
                _prepare(module)
            elif isinstance(module, _ConvNd) and module.bias is None:
                # torch 2.13 translates a Conv3d without a bias to one of the wrong shape.
                module.bias = nn.Parameter(torch.zeros(module.out_channels))

    def forward(self, rows: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Logits ``(N, C, *S)``, and what is kept."""
        self.mixing.calls, self.mixing.kept = 0, []
        logits = logits_of(self.network(rows), self.output, rows.shape)
        kept, self.mixing.kept = self.mixing.kept, []
        return (logits, *kept) if self.mixing.keeps else logits

    @property
    def statistics(self) -> set[str]:
        """Names of the running means: all of them, as torch.export chooses one of several."""
        buffers = self.named_buffers(remove_duplicate=False)
        return {name for name, _ in buffers if name.endswith(".onnx_mean")}


class SourceStatistics(StatisticsMixer):
    """Normalises at the source's statistics, by operations that become one ONNX node each."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0  # of layers with running statistics, in the last pass
        self.keeps, self.kept = False, list[Tensor]()  # what they returned, if that is asked for

    def normalise(self, layer: Any, x: Tensor, out: Tensor | None) -> Tensor:
        """As BatchNormalization; without running statistics, each row by itself."""
        by = {"weight": layer.onnx_weight, "bias": layer.onnx_bias, "eps": layer.adapter.eps(layer)}
        if not hasattr(layer, "onnx_mean"):
            return F.instance_norm(x, **by)
        self.calls += 1
        normal = F.batch_norm(x, layer.onnx_mean, layer.onnx_var, **by)
        if self.keeps:
            self.kept.append(normal)
        return normal


def _prepare(layer: MixedNorm) -> None:
    """Give a layer the tensors that its node takes."""
    adapter = layer.adapter
    if not adapter.exports:
        raise UnsupportedModel(
            f"Layer '{layer.label}' is a {adapter.family}, which has no form in ONNX: its adapter "
            f"{type(adapter).__name__} declares none.",
            fix="use the model in torch, or let the adapter declare exports = True",
        )
    (weight, bias), ones = adapter.affine(layer), torch.ones(adapter.features(layer))
    tensors = {"weight": ones if weight is None else weight}
    tensors["bias"] = 0 * ones if bias is None else bias
    tensors |= zip(("mean", "var"), adapter.source(layer) or (), strict=False)
    for name, tensor in tensors.items():
        layer.register_buffer(f"onnx_{name}", tensor.detach())


def trace(
    model: nn.Module, output: Output, channels: int, rank: int, multiple: int | None = None
) -> Traced:
    """Trace a network for images of any number and sides.

    Sides are multiples of ``multiple``; if it is None, of the least that works. What torch.export
    or its translation to ONNX cannot do raises ``UnsupportedModel``.
    """
    plain = Plain(model, output)
    pads = isinstance(plain.network, UNet)
    if isinstance(plain.network, UNet):
        multiples = [plain.network.stride]
    elif multiple is not None:
        multiples = [multiple]
    else:
        least = _stride(plain, channels, rank)
        multiples = [least * 2**i for i in range(LARGER)]
    with torch.no_grad(), quiet():
        program, fitting = _exported(plain, channels, rank, multiples)
        graph = to_onnx(program)
        if plain.mixing.calls > _count(graph, plain.statistics):
            # Layers that the chosen output does not need, as of another output, were left out.
            # The distance is that of all layers that run.
            plain.mixing.keeps = True
            graph = to_onnx(_exported(plain, channels, rank, [fitting])[0])
        return Traced(graph, plain.statistics, fitting, pads)


def _count(graph: ModelProto, statistics: set[str]) -> int:
    """How many nodes normalise by these running means."""
    kind = "BatchNormalization"
    return sum(node.op_type == kind and node.input[3] in statistics for node in graph.graph.node)


def _exported(
    plain: Plain, channels: int, rank: int, multiples: list[int]
) -> tuple[torch.export.ExportedProgram, int]:
    """The program for the first multiple that goes."""
    problems = []
    for multiple in multiples:
        sides = [multiple * (3 + i) for i in range(rank)]
        names = [torch.export.Dim(f"side{i}") for i in range(rank)]
        dynamic: dict[int, Any] = {0: torch.export.Dim("batch")}
        dynamic |= {2 + i: multiple * n if multiple > 1 else n for i, n in enumerate(names)}
        try:
            return export(plain, (torch.zeros(2, channels, *sides),), dynamic), multiple
        except UnsupportedModel as problem:
            problems.append(problem)
    raise problems[0]


def export(module: nn.Module, example: tuple[Tensor], dynamic: dict[int, Any]) -> Any:
    """The module as a program of torch.export, for sizes that vary."""
    try:
        return torch.export.export(module, example, dynamic_shapes=(dynamic,), strict=False)
    except Exception as error:  # torch has many kinds, and a user's model its own
        said = next((line for line in str(error).splitlines() if line.strip()), "")
        shape = " x ".join(str(n) for n in example[0].shape)
        raise UnsupportedModel(
            f"torch.export cannot trace the model for images of any size like {shape} "
            f"({type(error).__name__}: {said.strip()[:300]}).",
            fix="if its sides must be multiples of a number, say so (multiple=, --multiple); "
            "what depends on values that it sees cannot be exported",
        ) from error


def to_onnx(program: Any) -> ModelProto:
    """An exported program as ONNX, without the optimiser, whose time grows with its square."""
    how: Any = {"dynamo": True, "optimize": False, "external_data": False, "verbose": False}
    try:
        exported = torch.onnx.export(program, opset_version=OPSET, **how)
    except Exception as error:  # as above
        lines = re.sub(r"\x1b\[\d*m", "", str(error)).splitlines()
        said = next((line for line in lines if "No ONNX function" in line), lines[0])
        raise UnsupportedModel(
            f"The model cannot be translated to ONNX ({said.strip()[:300]})."
        ) from error
    assert exported is not None  # noqa: S101  (it is for dynamo=True)
    proto: ModelProto = exported.model_proto
    return proto


def _stride(plain: Plain, channels: int, rank: int) -> int:
    """How much smaller the smallest map inside the network is than the image."""
    side, strides = PROBES[rank], [1]

    def watch(_module: nn.Module, _inputs: Any, out: Any) -> None:
        if isinstance(out, Tensor) and out.dim() == rank + 2 and out.shape[2:].numel() > 1:
            strides.append(math.ceil(side / min(out.shape[2:])))

    try:
        with torch.no_grad(), ExitStack() as hooks:
            for module in plain.modules():
                hooks.enter_context(module.register_forward_hook(watch))
            plain(torch.zeros(1, channels, *[side] * rank))
    except RuntimeError as error:
        sides = " x ".join([str(side)] * rank)
        raise UnsupportedModel(
            f"The model does not take an image of {channels} x {sides} ({error}).",
            fix="say how many channels it takes (channels=, --channels) and what its sides must "
            "be multiples of (multiple=, --multiple)",
        ) from error
    return max(strides)


@contextmanager
def quiet() -> Iterator[None]:
    """Without the messages of the exporter."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
