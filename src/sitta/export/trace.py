"""From a network in torch to the ONNX graph of one plain forward pass, for any batch and sides."""

from __future__ import annotations

import copy
import logging
import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from sitta.errors import UnsupportedModel
from sitta.models import UNet
from sitta.statistics import MixedNorm, Mixing
from sitta.twin import Output, logits_of, twin

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET = 18  # of ONNX: onnxruntime 1.14 and OpenVINO 2023.1 know it
PROBES = {1: 256, 2: 64, 3: 32}  # sides of the image that tells the stride, by their number
LARGER = 4  # a network may need a larger multiple than its stride: this many doublings


@dataclass(frozen=True)
class Traced:
    """A plain forward pass as a graph.

    Attributes:
        model: With one input, and the logits as its only output.
        statistics: Names of the running means of the network's BatchNorms.
        multiple: Sides are multiples of this.
        pads: Whether the network itself grows sides to multiples, and cuts its logits back.
    """

    model: ModelProto
    statistics: set[str]
    multiple: int
    pads: bool


class Plain(nn.Module):
    """A network in float32 on the CPU, as it is at inference, that returns its logits alone.

    Args:
        model: The user's network, only read.
        output: How to find the logits in what it returns.
    """

    def __init__(self, model: nn.Module, output: Output = None) -> None:
        super().__init__()
        self.network = copy.deepcopy(twin(model, Mixing())[0]).cpu().float()
        self.output = output
        for module in self.network.modules():
            if isinstance(module, MixedNorm):
                _plain_norm(module)
            elif isinstance(module, _ConvNd) and module.bias is None:
                # torch 2.13 translates a Conv3d without a bias to one of the wrong shape.
                module.bias = nn.Parameter(torch.zeros(module.out_channels))

    def forward(self, rows: Tensor) -> Tensor:
        """Logits ``(N, C, *S)``."""
        return logits_of(self.network(rows), self.output, rows)

    @property
    def statistics(self) -> set[str]:
        """Names of the running means."""
        norms = ((n, m) for n, m in self.named_modules() if isinstance(m, _BatchNorm))
        return {f"{name}.running_mean" for name, norm in norms if norm.running_mean is not None}


class PlainNorm(_BatchNorm):
    """A BatchNorm at inference, of any rank."""

    def _check_input_dim(self, x: Tensor) -> None:
        """Whatever the network does, it did so before."""


class RowNorm(_BatchNorm):
    """A BatchNorm without running statistics: each row by itself, as ``Mixing`` has it."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each row and channel by its own statistics."""
        return F.instance_norm(x, weight=self.weight, bias=self.bias, eps=self.eps)


def _plain_norm(norm: MixedNorm) -> None:
    """Turn a ``MixedNorm`` back, in place, into what it was, with a scale and a shift."""
    kind = next(base for base in type(norm).__bases__ if base is not MixedNorm)
    if kind.__module__.startswith("torch."):
        kind = PlainNorm if norm.running_mean is not None else RowNorm
    norm.__class__ = kind
    for name, value in (("weight", 1.0), ("bias", 0.0)):
        if getattr(norm, name) is None:
            setattr(norm, name, nn.Parameter(torch.full((norm.num_features,), value)))


def trace(
    model: nn.Module, output: Output, channels: int, rank: int, multiple: int | None = None
) -> Traced:
    """Trace a network.

    Args:
        model: The network, only read.
        output: How to find the logits in what it returns.
        channels: Of an image.
        rank: Its sides: 2 or 3.
        multiple: Of what the sides of an image are multiples; found out if None.

    Raises:
        UnsupportedModel: torch.export or its translation to ONNX cannot do it.
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
        onnx = to_onnx(program)
    return Traced(onnx, plain.statistics, fitting, pads)


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
    """The module as a program of torch.export, for sizes that vary.

    Raises:
        UnsupportedModel: It cannot be exported.
    """
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
    """An exported program as ONNX, without the optimiser, whose time grows with its square.

    Raises:
        UnsupportedModel: An operation has no translation.
    """
    try:
        found = torch.onnx.export(
            program,
            dynamo=True,
            optimize=False,
            external_data=False,
            opset_version=OPSET,
            verbose=False,
        )
    except Exception as error:  # as above
        lines = re.sub(r"\x1b\[\d*m", "", str(error)).splitlines()
        said = next((line for line in lines if "No ONNX function" in line), lines[0])
        raise UnsupportedModel(
            f"The model cannot be translated to ONNX ({said.strip()[:300]})."
        ) from error
    assert found is not None  # noqa: S101  (it is for dynamo=True)
    proto: ModelProto = found.model_proto
    return proto


def _stride(plain: Plain, channels: int, rank: int) -> int:
    """How much smaller the smallest map inside the network is than the image."""
    side, found = PROBES[rank], [1]

    def watch(_module: nn.Module, _inputs: Any, out: Any) -> None:
        if isinstance(out, Tensor) and out.dim() == rank + 2 and out.shape[2:].numel() > 1:
            found.append(math.ceil(side / min(out.shape[2:])))

    hooks = [m.register_forward_hook(watch) for m in plain.modules()]
    try:
        with torch.no_grad():
            plain(torch.zeros(1, channels, *[side] * rank))
    except RuntimeError as error:
        sides = " x ".join([str(side)] * rank)
        raise UnsupportedModel(
            f"The model does not take an image of {channels} x {sides} ({error}).",
            fix="say how many channels it takes (channels=, --channels) and what its sides must "
            "be multiples of (multiple=, --multiple)",
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    return max(found)


@contextmanager
def quiet() -> Iterator[None]:
    """Without what the exporter has to say about itself."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
