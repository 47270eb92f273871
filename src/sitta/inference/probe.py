"""What a network shows when it is run on noise: its outputs, the sides it takes, idle layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sitta.core.census import census
from sitta.core.returned import entries
from sitta.core.twin import unwrap
from sitta.data.preprocess import Preprocess

BASES = {2: (128, 256, 224, 384, 512, 64), 3: (32, 64, 96, 128)}  # sides to try, by their number
DOUBLINGS = 7  # doublings of the multiple that are tried
NO_MAP = "let its factory return a module that returns its map as a tensor (N, C, H, W)"
USUAL = ("out", "logits", "seg", "segmentation", "mask", "masks", "pred", "prediction", "main")


@dataclass(frozen=True)
class Output:
    """One map that a network returns."""

    key: str | int | None  # where it is; None if the network returns it alone
    channels: int
    sides: tuple[int, ...]
    low: float
    high: float
    sums_to_one: bool  # over its channels
    hard: bool  # all values are 0 or 1, as in a mask

    @property
    def activation(self) -> str:
        """What its values look like, by the names of ``sitta.core.activations``."""
        if not (self.high > self.low >= 0 and self.high <= 1 + 1e-5):
            return "logits"
        exclusive = self.channels == 1 or self.sums_to_one
        return "probabilities" if exclusive else "probabilities-sigmoid"

    def __str__(self) -> str:
        where = "" if self.key is None else f"{self.key!r}: "
        size = " x ".join(map(str, self.sides))
        return f"{where}{self.channels} x {size}, values {self.low:.3g} to {self.high:.3g}"


def described(raw: Any) -> tuple[Output, ...]:
    """The maps in what a network returned for one image."""
    return tuple(
        Output(
            key,
            tensor.shape[1],
            tuple(tensor.shape[2:]),
            float(tensor.min()),
            float(tensor.max()),
            tensor.shape[1] > 1 and _sums_to_one(tensor),
            bool(((tensor == 0) | (tensor == 1)).all()),
        )
        for key, tensor in all_maps(raw)
    )


def _sums_to_one(tensor: Tensor) -> bool:
    apart = (tensor.float().sum(1) - 1).abs().max()
    return bool(apart < max(1e-3, 4 * torch.finfo(tensor.dtype).eps))


def all_maps(raw: Any, key: str | int | None = None) -> Iterator[tuple[str | int | None, Tensor]]:
    """The maps in what a network returned, each with the output that it is."""
    if isinstance(raw, Tensor):
        if raw.dim() >= 4 and raw.is_floating_point():
            yield key, raw
        return
    for name, value in entries(raw):
        yield from all_maps(value, name if key is None else f"{key}.{name}")


def run(model: nn.Module, image: Tensor) -> Any:
    """What the unadapted network returns for images ``(N, C, *S)``, in its type and place."""
    home = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    with torch.no_grad():
        return model(image.to(home))


def noise(channels: int, sides: Sequence[int]) -> Tensor:
    """One image of smooth noise from 0 to 1, the same every time."""
    chance = torch.Generator().manual_seed(0)
    return torch.rand((1, channels, *sides), generator=chance)


def takes(model: nn.Module, channels: int, sides: Sequence[int]) -> bool:
    """Whether the network takes an image of these sides, and gives one of them back."""
    try:
        outputs = described(run(model, noise(channels, sides)))
    except Exception:  # a user's network has its own kinds
        return False
    return any(one.sides == tuple(sides) for one in outputs)


def smallest_multiple(model: nn.Module, channels: int, dims: int, base: int) -> int | None:
    """What sides must be multiples of, if a multiple of ``base`` works; None if none was found."""
    for doublings in range(DOUBLINGS + 1):
        multiple = 1 << doublings
        if multiple <= base and takes(model, channels, [base + multiple] * dims):
            return multiple
    return None


def fitting_side(model: nn.Module, channels: int, dims: int) -> int | None:
    """A side of square images that the network takes."""
    return next((n for n in BASES[dims] if takes(model, channels, [n] * dims)), None)


def idle_layers(model: nn.Module, channels: int, sides: Sequence[int]) -> tuple[str, ...]:
    """Layers with statistics to mix that the forward pass does not use."""
    root, used = unwrap(model), set[str]()
    names = [layer.name for layer in census(model).mixable]

    def watch(name: str) -> Any:
        return lambda *_: used.add(name)

    with ExitStack() as hooks:
        for name in names:
            hooks.enter_context(root.get_submodule(name).register_forward_hook(watch(name)))
        try:
            run(model, noise(channels, sides))
        except Exception:  # it does not run on noise of this size: nothing is known
            return ()
    return tuple(name for name in names if name not in used)


def idle_warning(model: nn.Module, inputs: Preprocess) -> tuple[str, ...]:
    """A sentence if layers are fed by nothing, on an image of the size that the model takes."""
    sides = inputs.size or [BASES[inputs.dims][0]] * inputs.dims
    idle = idle_layers(model, inputs.channels, sides)
    if not idle:
        return ()
    first = ", ".join(idle[:3]) + (", ..." if len(idle) > 3 else "")
    return (
        f"{len(idle)} BatchNorm layers are fed by nothing in the forward pass ({first}): lambda "
        "has no effect on them.",
    )
