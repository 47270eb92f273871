"""Exported graphs against torch: shapes of networks, settings, sizes; also on OpenVINO if there.

python benchmarks/onnx_parity.py [NAME...] writes benchmarks/onnx_parity.md (rows of other names
stay).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import sitta
from sitta.inference.backends.ort import session
from sitta.models.unet import PRESETS

PAGE = Path(__file__).with_suffix(".md")
HEAD = (
    "| network | settings | seconds to export | nodes | sizes | members | probability | OpenVINO |"
)
Net = tuple[nn.Module, list[tuple[int, ...]]]


def _ours(**config: Any) -> Net:
    net = sitta.models.UNet(**config)
    for p in net.parameters():
        if not p.any():
            nn.init.normal_(p, std=0.1)  # as trained: nothing is zero
    c, dims = net.config["in_channels"], net.config["dims"]
    flat = [(1, c, 64, 64), (3, c, 50, 70)]
    return net, flat if dims == 2 else [(1, c, 16, 16, 16), (2, c, 10, 18, 20)]


def _preset(name: str) -> Net:
    return _ours(**PRESETS[name])


def _monai(name: str, *given: Any, sizes: list[tuple[int, ...]], **more: Any) -> Net:
    from monai.networks import nets

    return getattr(nets, name)(*given, **more), sizes


def _zoo(name: str) -> Net:
    net = sitta.load(name)
    channels = net.config["in_channels"]
    return net, [(1, channels, 128, 128), (3, channels, 100, 140)]


FLAT = [(1, 1, 64, 64), (2, 1, 32, 96)]
NETS: dict[str, tuple[Callable[[], Net], dict[str, Any]]] = {
    "UNet compact": (lambda: _preset("compact"), {}),
    "UNet paper": (lambda: _preset("paper"), {}),
    "UNet 2 levels, 3 classes": (
        lambda: _ours(in_channels=3, out_channels=3, channels=8, multipliers=(1, 2)),
        {"strategy": "vote", "variance": "unbiased"},
    ),
    "UNet halves of blocks, 2 labels": (
        lambda: _ours(out_channels=2, channels=8, multipliers=(1, 2, 2), full_blocks=False),
        {"activation": "sigmoid", "statistics": "in-layer", "strategy": "ent-topk"},
    ),
    "UNet 3D, 2 classes": (
        lambda: _ours(out_channels=2, channels=4, multipliers=(1, 2), blocks=1, dims=3),
        {"strategy": "ent-norm"},
    ),
    "zoo: chest-mcu": (lambda: _zoo("chest-mcu"), {}),
    "zoo: retina-rite": (lambda: _zoo("retina-rite"), {}),
    "MONAI AttentionUnet": (
        lambda: _monai("AttentionUnet", 2, 1, 1, channels=(8, 16, 32), strides=(2, 2), sizes=FLAT),
        {},
    ),
    "MONAI BasicUNet": (
        lambda: _monai("BasicUNet", 2, 1, 3, (8, 8, 16, 16, 32, 8), norm="batch", sizes=FLAT),
        {"strategy": "entropy"},
    ),
    "MONAI FlexibleUNet": (
        lambda: _monai("FlexibleUNet", 1, 2, "efficientnet-b0", pretrained=False, sizes=FLAT),
        {"strategy": "average"},
    ),
    "MONAI VNet": (
        lambda: _monai("VNet", 3, 1, 2, sizes=[(1, 1, 32, 32, 32), (2, 1, 32, 48, 32)]),
        {"step": 0.5},
    ),
}


def main(names: list[str]) -> None:
    """Write the page."""
    rows = {line.split("|")[1].strip(): line for line in _kept()}
    for name in names or list(NETS):
        rows[name] = _row(name)
        print(rows[name], flush=True)
        text = "# Exported graphs against torch\n\n" + _words() + "\n\n" + HEAD + "\n"
        PAGE.write_text(
            text + "|---|---|---:|---:|---|---:|---:|---:|\n" + "\n".join(rows.values()) + "\n"
        )


def _words() -> str:
    return (
        "`python benchmarks/onnx_parity.py`: largest differences between the graph on onnxruntime "
        "and `sitta.InTEnt`\nin torch, over images of noise; the last column is the probability on "
        "OpenVINO in float32. Those of the zoo are\ntrained; the running statistics of the others "
        "come from a few batches of noise. Masks are equal but where two classes\nare within 1e-4."
    )


def _kept() -> list[str]:
    if not PAGE.exists():
        return []
    kinds = ("| UNet", "| zoo", "| MON")
    return [line for line in PAGE.read_text().splitlines() if line.startswith(kinds)]


def _row(name: str) -> str:
    make, settings = NETS[name]
    torch.manual_seed(0)
    net, sizes = make()
    if not name.startswith("zoo"):
        _know_noise(net.train(), sizes[0][1:])
    net.eval()
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        done = sitta.export_onnx(net, Path(folder) / "net.onnx", **settings)
        seconds = time.perf_counter() - began
        method = sitta.InTEnt(net, **settings)
        images = [torch.rand(size) ** 2 for size in sizes]
        theirs = [method(x).arrays() for x in images]
        mine = [_by_onnxruntime(done.path, x.numpy()) for x in images]
        vino = _by_openvino(done.path, [x.numpy() for x in images])
    for a, b in zip(mine, theirs, strict=True):
        _same_masks(a, b)
    told = ", ".join(f"{k}={v}" for k, v in settings.items()) or "as usual"
    where = ", ".join("x".join(map(str, size)) for size in sizes)
    far = [_apart(mine, theirs, key) for key in ("members", "probability")]
    other = f"{_apart(vino, theirs, 'probability'):.0e}" if vino else ""
    return (
        f"| {name} | {told} | {seconds:.0f} | {done.nodes} | {where} | {far[0]:.0e} | {far[1]:.0e} "
        f"| {other} |"
    )


def _know_noise(net: nn.Module, shape: tuple[int, ...]) -> None:
    """Running statistics that are of something."""
    with torch.no_grad():
        for _ in range(3):
            net(torch.rand(4, *shape))


def _by_onnxruntime(path: Path, image: np.ndarray) -> dict[str, np.ndarray]:
    graph = session(path)
    names = [output.name for output in graph.get_outputs()]
    return dict(zip(names, graph.run(None, {"image": image}), strict=True))


def _by_openvino(path: Path, images: list[np.ndarray]) -> list[dict[str, np.ndarray]]:
    try:
        import openvino
    except ImportError:
        return []
    settings = {"INFERENCE_PRECISION_HINT": "f32"}
    model = openvino.Core().compile_model(str(path), "CPU", settings)
    return [{"probability": model({"image": image})["probability"]} for image in images]


def _same_masks(mine: dict[str, np.ndarray], theirs: dict[str, Any]) -> None:
    """Equal, but where the two best classes, or both sides of one half, are within 1e-4."""
    p, channels = theirs["probability"], theirs["probability"].shape[1]
    if theirs["activation"] == "sigmoid":
        sure, mask = np.abs(p - 0.5) > 1e-4, p > 0.5
        given = mine["mask"].reshape(p.shape).astype(bool)
    else:
        best = np.sort(p, axis=1)
        sure, mask = best[:, channels - 1] - best[:, channels - 2] > 1e-4, p.argmax(axis=1)
        given = mine["mask"]
    if (given != mask)[sure].any():
        raise SystemExit("masks differ")


def _apart(mine: list[dict[str, Any]], theirs: list[dict[str, Any]], key: str) -> float:
    pairs = zip(mine, theirs, strict=True)
    return max(float(np.abs(a[key] - b[key]).max()) for a, b in pairs)


if __name__ == "__main__":
    main(sys.argv[1:])
