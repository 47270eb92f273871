"""What benchmarks/speed.py times: each row of its table, built when it is asked for."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

import sitta
from published import Published
from sitta.core.accel import allocator, optimizer
from sitta.core.accel.shared_prefix import SharedPrefix
from sitta.inference.backends.ort import session
from sitta.models import UNet

Call = Callable[[], object]
MEMBERS = 6


class NotAvailable(Exception):
    """This row cannot be measured here; says why."""


def network(preset: str) -> UNet:
    """The trained one of the zoo for compact; else untrained, with no layer left at zero."""
    if preset == "compact":
        return sitta.load("chest-mcu")
    torch.manual_seed(0)
    net = UNet.preset(preset).eval()
    with torch.no_grad():
        for p in net.parameters():
            if not p.any():
                p.normal_(std=0.05)
    return net


def plain(net: UNet, rows: Tensor, times: int = 1) -> Call:
    """Forward passes and nothing else."""

    def call() -> object:
        with torch.no_grad():
            return [net(rows) for _ in range(times)][-1]

    return call


def _in_a_row(net: UNet, image: Tensor) -> Call:
    return plain(net, image[None], MEMBERS)


def _batch(net: UNet, image: Tensor) -> Call:
    return plain(net, image.expand(MEMBERS, *image.shape).contiguous())


def _published(net: UNet, image: Tensor) -> Call:
    procedure = Published(net, sitta.InTEnt(net).grid)
    return lambda: procedure(image)


def _method(name: str, **settings: Any) -> Callable[[UNet, Tensor], Call]:
    def build(net: UNet, image: Tensor) -> Call:
        adapt = sitta.method(name, net, **settings)
        return lambda: adapt(image)

    return build


def _contiguous(net: UNet, image: Tensor) -> Call:
    adapt = sitta.InTEnt(net)
    for twin in adapt._twins._free:
        twin._channels_last = False  # as after a model has refused channels last
    return lambda: adapt(image)


def _without(*changes: AbstractContextManager[Any]) -> Callable[[UNet, Tensor], Call]:
    """InTEnt built and run with one optimisation taken out."""

    def build(net: UNet, image: Tensor) -> Call:
        def out() -> ExitStack:
            stack = ExitStack()
            for change in changes:
                stack.enter_context(change)
            return stack

        with out():
            adapt = sitta.InTEnt(net)

        def call() -> object:
            with out():
                return adapt(image)

        return call

    return build


def _called(layer: Any, x: Tensor) -> Tensor:
    return layer(x)  # type: ignore[no-any-return]


class _UsualAllocator(AbstractContextManager[None]):
    """Freed memory goes back to the system, as without ``allocator.keep_between_passes``."""

    USUAL = 128 << 10  # bytes: glibc's own thresholds

    def __enter__(self) -> None:
        thresholds = (allocator.MMAP_THRESHOLD, allocator.TRIM_THRESHOLD)
        allocator._tune(*((threshold, self.USUAL) for threshold in thresholds))

    def __exit__(self, *error: object) -> None:
        allocator.keep_between_passes()


NO_PREFIX = mock.patch.object(SharedPrefix, "_note", return_value=None)
NO_FUSION = mock.patch.object(optimizer, "is_upsample2x", return_value=False)
NOT_IN_PLACE = (
    mock.patch.dict(optimizer.IN_PLACE, dict.fromkeys(optimizer.IN_PLACE, _called)),
    mock.patch.object(optimizer, "_normalise_in_place", _called),
)


def _graph(net: UNet, target: str = "cpu") -> Path:
    """InTEnt as an ONNX file."""
    path = Path(tempfile.mkdtemp()) / "intent.onnx"
    sitta.export_onnx(net, path, target=target)
    return path


def _onnxruntime(target: str) -> Callable[[UNet, Tensor], Call]:
    def build(net: UNet, image: Tensor) -> Call:
        if importlib.util.find_spec("onnxruntime") is None:
            raise NotAvailable("onnxruntime is not installed")
        graph = session(_graph(net, target))
        feed = {graph.get_inputs()[0].name: image[None].numpy()}
        return lambda: graph.run(None, feed)

    return build


def _openvino(net: UNet, image: Tensor) -> Call:
    if importlib.util.find_spec("openvino") is None:
        raise NotAvailable("openvino is not installed")
    import openvino

    exact = {"INFERENCE_PRECISION_HINT": "f32"}  # some processors would compute in bfloat16
    compiled = openvino.compile_model(_graph(net), "CPU", exact)
    array = image[None].numpy()
    return lambda: compiled([array])


VARIANTS: dict[str, tuple[str, Callable[[UNet, Tensor], Call]]] = {
    "sequence": ("plain, 6 in sequence", _in_a_row),
    "batch": ("plain, batch of 6", _batch),
    "published": ("procedure of the published code", _published),
    "one-pass": ("InTEnt, one pass, channels last (as it is)", _method("intent")),
    "contiguous": ("InTEnt, one pass, contiguous", _contiguous),
    "no-prefix": ("InTEnt, without the shared prefix", _without(NO_PREFIX)),
    "no-in-place": ("InTEnt, without layers in place", _without(*NOT_IN_PLACE)),
    "no-fusion": ("InTEnt, without fused upsampling", _without(NO_FUSION)),
    "no-kept-memory": ("InTEnt, without kept memory", _without(_UsualAllocator())),
    "plain-intent": ("InTEnt, accelerate=False", _method("intent", accelerate=False)),
    "by-2": ("InTEnt, 2 members at once", _method("intent", members_at_once=2)),
    "onnxruntime": ("InTEnt, onnxruntime", _onnxruntime("cpu")),
    "all-products": ("InTEnt, onnxruntime, without Winograd", _onnxruntime("any")),
    "openvino": ("InTEnt, OpenVINO", _openvino),
    "sharpness": ("InTEnt, strategy sharpness", _method("intent", strategy="sharpness")),
    "source": ("Source", _method("source")),
    "tent": ("Tent", _method("tent")),
    "sar": ("SAR", _method("sar")),
    "fseg": ("FSeg", _method("fseg")),
    "sita": ("SITA", _method("sita")),
    "memo": ("MEMO", _method("memo")),
}
COSTS = ("source", "tent", "sar", "fseg", "sita", "memo")
