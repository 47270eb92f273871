"""The same numbers with less work: what a twin may save because nobody else can see it.

Memory is what a pass over many rows waits for: each large tensor that is made anew costs more in
fresh pages than in arithmetic. So, in passes without gradients,

- inside ``nn.Sequential``, a BatchNorm and its activation write over what no one else holds: the
  output of the convolution before them, or one piece of memory that serves all layers of the pass
  if a convolution follows, which reads it and is done;
- there too, a 3x3 convolution after a doubling of the map takes the map as it was before;
- convolutions and activations in front of the first BatchNorm, where all members are still alike,
  see the images once and not once for each member.

What has a hook, or a forward pass of its own, is left alone.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import _has_any_global_hook

from sitta.doubled import convolve_doubled, is_doubling, is_fitting
from sitta.statistics import MixedNorm, is_channels_last

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPARENT = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
IN_PLACE: dict[type[nn.Module], Callable[[Any, Tensor], Tensor]] = {
    nn.SiLU: lambda _, x: F.silu(x, inplace=True),
    nn.ReLU: lambda _, x: F.relu(x, inplace=True),
    nn.ReLU6: lambda _, x: F.relu6(x, inplace=True),
    nn.LeakyReLU: lambda m, x: F.leaky_relu(x, m.negative_slope, inplace=True),
    nn.ELU: lambda m, x: F.elu(x, m.alpha, inplace=True),
    nn.Hardswish: lambda _, x: F.hardswish(x, inplace=True),
    nn.Mish: lambda _, x: F.mish(x, inplace=True),
}
Step = Callable[[Tensor], Tensor]


class Alike:
    """Which tensors of the pass under way hold the same N rows for every member."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """End the pass."""
        self._times, self._known = 1, list[tuple[weakref.ref[Tensor], int]]()

    def begin(self, rows: Tensor, times: int) -> None:
        """Note that ``rows`` holds its first rows so many times."""
        self.forget()
        self._times = times
        self._note(rows)

    def _note(self, rows: Tensor) -> None:
        if self._times > 1 and not rows.is_inference():  # those do not count their changes
            self._known.append((weakref.ref(rows), rows._version))

    def once(self, layer: Step, x: Any) -> Tensor:
        """What ``layer`` makes of ``x``, computed for one member if all are alike."""
        if not isinstance(x, Tensor) or not any(
            ref() is x and x._version == version for ref, version in self._known
        ):
            return layer(x)
        y = layer(x[: len(x) // self._times])
        y = torch.cat([y] * self._times)  # keeps the memory format
        self._note(y)
        return y


class Scratch:
    """One piece of memory for what a layer passes on to the next and nobody keeps."""

    def __init__(self) -> None:
        self._room = torch.empty(0)

    def release(self) -> None:
        """Give the memory back."""
        self._room = torch.empty(0)

    def like(self, x: Tensor) -> Tensor | None:
        """Memory of the shape and layout of ``x``; None for a layout that is neither usual."""
        if not (x.is_contiguous() or is_channels_last(x)):
            return None
        room = self._room
        if room.dtype != x.dtype or room.device != x.device or room.numel() < x.numel():
            self._room = torch.empty(0)  # first let go of the smaller one
            self._room = torch.empty(x.numel(), dtype=x.dtype, device=x.device)
        flat = self._room[: x.numel()]
        if x.is_contiguous():
            return flat.view(x.shape)
        return flat.view(len(x), *x.shape[2:], x.shape[1]).movedim(-1, 1)


class Quick:
    """The savings of one twin.

    Args:
        root: The twin's module tree, changed in place.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU())
        >>> quick = Quick(net)
        >>> type(net).__name__, type(net[0]).__name__
        ('QuickSequential', 'QuickConv2d')
    """

    def __init__(self, root: nn.Module) -> None:
        self.alike, self.scratch = Alike(), Scratch()
        modules: list[Any] = list(root.modules())
        for module in modules:
            if type(module) in (*CONVOLUTIONS, *IN_PLACE):
                module.__class__ = _quick_class(_AlikeForward, type(module))  # type: ignore[arg-type]
                module.alike = self.alike
        for module in modules:
            if type(module).forward is nn.Sequential.forward:
                module.__class__ = _quick_class(_StepForward, type(module))  # type: ignore[arg-type]
                module.steps = _plan(list(module.children()), self.scratch)
                module.unwatched = [m for m in module.children() if _is_unwatched(m)]

    def begin(self, rows: Tensor, times: int) -> None:
        """A pass over ``rows``, which hold the same images so many times, is about to start."""
        self.alike.begin(rows, times)

    def end(self) -> None:
        """The pass is over."""
        self.alike.forget()
        self.scratch.release()


class _AlikeForward(nn.Module):
    """Stands before the class of a layer that sees each row by itself."""

    alike: Alike

    def forward(self, input: Tensor) -> Tensor:
        """As the layer's, once for all members if they are alike."""
        if getattr(self, "inplace", False):  # its input changes with it, in all rows
            return super().forward(input)  # type: ignore[no-any-return]
        return self.alike.once(super().forward, input)


class _StepForward(nn.Module):
    """Stands before ``nn.Sequential``."""

    steps: list[Step]
    unwatched: list[nn.Module]  # without hooks when the steps were planned

    def forward(self, input: Any) -> Any:
        """As ``nn.Sequential``'s, in place where nobody can tell."""
        seen = torch.is_grad_enabled() or _has_any_global_hook()
        seen = seen or not all(map(_is_unwatched, self.unwatched))  # hooks that came since
        if seen or not isinstance(input, Tensor):
            return super().forward(input)
        for step in self.steps:
            input = step(input)
        return input


@functools.cache
def _quick_class(front: Any, kind: Any) -> Any:
    return type(f"Quick{kind.__name__}", (front, kind), {"kind": kind})


def _kind(layer: nn.Module) -> Any:
    """The class that a quick layer had; None if it has a hook, or is no quick layer."""
    return getattr(type(layer), "kind", None) if _is_unwatched(layer) else None


def _is_unwatched(layer: Any) -> bool:
    hooks = (
        layer._forward_hooks,
        layer._forward_pre_hooks,
        layer._backward_hooks,
        layer._backward_pre_hooks,
    )
    return not any(hooks) and "forward" not in vars(layer)


def _plan(layers: list[nn.Module], scratch: Scratch) -> list[Step]:
    """What to call for each layer of an ``nn.Sequential``, in turn."""
    layers = [m for m in layers if not (type(m) in TRANSPARENT and _is_unwatched(m))]
    steps: list[Step] = []
    ours = False  # whether what arrives was made in here, so that nobody else holds it
    for i, layer in enumerate(layers):
        kind, call = _kind(layer), cast(Step, layer)
        if i and _is_pair(layers[i - 1], layer):
            steps[-1] = functools.partial(_convolve_doubled, layers[i - 1], layer)
            ours = True
            continue
        if type(layer).forward is MixedNorm.forward and _is_unwatched(layer):
            call = functools.partial(_normalise, layer, None if ours else scratch)
            if not ours and not _is_consumed(layers[i + 1 :]):
                call = cast(Step, layer)
            ours = True
        elif kind in IN_PLACE:
            if ours:
                call = functools.partial(IN_PLACE[kind], layer)
            ours = ours or not getattr(layer, "inplace", False)
        else:
            ours = kind in CONVOLUTIONS
        steps.append(call)
    return steps


def _is_pair(first: nn.Module, second: nn.Module) -> bool:
    """Whether a layer doubles a map for a 3x3 convolution."""
    unwatched = _is_unwatched(first) and _kind(second) is nn.Conv2d
    return unwatched and is_doubling(first) and is_fitting(second)


def _convolve_doubled(first: Any, second: Any, x: Tensor) -> Tensor:
    if x.dim() == 4 and is_channels_last(x):
        return convolve_doubled(x, second.weight, second.bias)
    doubled: Tensor = second(first(x))
    return doubled


def _is_consumed(following: list[nn.Module]) -> bool:
    """Whether a convolution reads what is passed on, at most an activation later."""
    for layer in following[:2]:
        if _kind(layer) not in IN_PLACE:
            return _kind(layer) in CONVOLUTIONS
    return False


def _normalise(layer: Any, scratch: Scratch | None, x: Tensor) -> Tensor:
    normalised: Tensor = layer.normalise(x, x if scratch is None else scratch.like(x))
    return normalised
