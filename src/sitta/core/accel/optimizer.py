"""Inference optimisations of a twin, whose intermediate results nothing else can see.

A large new tensor costs more in fresh pages than in arithmetic. In passes without gradients,

- inside ``nn.Sequential``, a normalisation layer and its activation write over what nothing else
  holds: the output of the convolution before them;
- there too, an upsampling and the 3x3 convolution after it are fused;
- convolutions and activations before the first normalisation layer see the images once, not once
  for each member (the shared prefix).

A layer with a hook or a forward of its own is left alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import _has_any_global_hook

from sitta.core.accel.shared_prefix import SharedPrefix, SharedPrefixForward
from sitta.core.accel.upsample_conv import is_conv3x3, is_upsample2x, upsample_conv
from sitta.core.moments import is_channels_last
from sitta.core.norm import MixedNorm
from sitta.core.surgery import class_before, specialise

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
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
Step = Callable[[Tensor], Tensor]


class Optimizer:
    """The optimisations of one twin, whose modules change in place; see ``surgery.restore``."""

    def __init__(self, root: nn.Module) -> None:
        self._prefix = SharedPrefix()
        modules = list(root.modules())
        for module in modules:
            if type(module) in (*CONVOLUTIONS, *IN_PLACE):
                specialise(module, SharedPrefixForward, "Optimized", prefix=self._prefix)
        for module in modules:
            if type(module).forward is nn.Sequential.forward:
                layers = list(cast(nn.Sequential, module))  # children() leaves repeats out
                hookless = [m for m in layers if _is_hookless(m)]
                steps = _plan(layers)
                specialise(module, _StepForward, "Optimized", steps=steps, hookless=hookless)

    @contextmanager
    def optimised(self, rows: Tensor, times: int) -> Iterator[None]:
        """A pass over ``rows``, which hold the same images so many times."""
        self._prefix.begin(rows, times)
        try:
            yield
        finally:
            self._prefix.forget()


class _StepForward(nn.Module):
    """Comes before ``nn.Sequential``."""

    steps: list[Step]
    hookless: list[nn.Module]  # without hooks when the steps were planned

    def forward(self, input: Any) -> Any:
        """As ``nn.Sequential``'s, in place where nothing else sees the tensors."""
        seen = torch.is_grad_enabled() or _has_any_global_hook()
        seen = seen or not all(map(_is_hookless, self.hookless))  # hooks that came since
        if seen or not isinstance(input, Tensor):
            return super().forward(input)
        for step in self.steps:
            input = step(input)
        return input


def _kind(layer: nn.Module) -> Any:
    """The class that a layer had before it was optimised; None if it has a hook."""
    return class_before(layer) if _is_hookless(layer) else None


def _is_hookless(layer: Any) -> bool:
    return "forward" not in vars(layer) and not any(getattr(layer, name) for name in HOOKS)


def _plan(layers: list[nn.Module]) -> list[Step]:
    """What to call for each layer of an ``nn.Sequential``, in turn."""
    layers = [m for m in layers if not (type(m) in TRANSPARENT and _is_hookless(m))]
    steps: list[Step] = []
    ours = False  # whether what arrives was made in here, so that nothing else holds it
    for i, layer in enumerate(layers):
        kind, call = _kind(layer), cast(Step, layer)
        if i and _is_pair(layers[i - 1], layer):
            steps[-1] = functools.partial(_upsample_conv, layers[i - 1], layer)
            ours = True
            continue
        if type(layer).forward is MixedNorm.forward and _is_hookless(layer):
            if ours:
                call = functools.partial(_normalise_in_place, layer)
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
    """Whether a layer upsamples a map twofold for a 3x3 convolution."""
    hookless = _is_hookless(first) and _kind(second) is nn.Conv2d
    return hookless and is_upsample2x(first) and is_conv3x3(second)


def _upsample_conv(first: Any, second: Any, x: Tensor) -> Tensor:
    if x.dim() == 4 and is_channels_last(x):
        return upsample_conv(x, second.weight, second.bias)
    y: Tensor = second(first(x))
    return y


def _normalise_in_place(layer: Any, x: Tensor) -> Tensor:
    normalised: Tensor = layer.normalise(x, x)
    return normalised
