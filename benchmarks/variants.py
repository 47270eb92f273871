"""What benchmarks/speed.py times: each row of its table, built when it is asked for."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sitta
from published import Published
from sitta.models import UNet
from sitta.ort import session

Call = Callable[[], object]
MEMBERS = 6
TRAINED = Path(__file__).parent.parent / "zoo" / "chest-mcu.safetensors"


class NotAvailable(Exception):
    """This row cannot be measured here; says why."""


def network(preset: str) -> UNet:
    """The trained one of the zoo for compact; else untrained, with no layer left at zero."""
    if preset == "compact" and TRAINED.is_file():
        return sitta.load(TRAINED)
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


def _graph(net: UNet, *, winograd: bool = True) -> Path:
    """InTEnt as an ONNX file."""
    path = Path(tempfile.mkdtemp()) / "intent.onnx"
    sitta.export_onnx(net, path, winograd=winograd)
    return path


def _onnxruntime(*, winograd: bool) -> Callable[[UNet, Tensor], Call]:
    def build(net: UNet, image: Tensor) -> Call:
        if importlib.util.find_spec("onnxruntime") is None:
            raise NotAvailable("onnxruntime is not installed")
        graph = session(_graph(net, winograd=winograd))
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
    "by-2": ("InTEnt, 2 members at once", _method("intent", members_at_once=2)),
    "onnxruntime": ("InTEnt, onnxruntime", _onnxruntime(winograd=True)),
    "all-products": ("InTEnt, onnxruntime, without Winograd", _onnxruntime(winograd=False)),
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
