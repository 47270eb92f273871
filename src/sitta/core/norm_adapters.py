"""Kinds of normalisation layers, each described once.

The census, the twin, the gradient methods and the export ask ``adapter_of`` and know no kind by
name. To add a kind, write its adapter and add it to ``ADAPTERS``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from sitta.core.moments import affine_rows, fixed_norm
from sitta.errors import UnsupportedModel


class NormAdapter:
    """What Sitta needs to know of one kind of normalisation layer.

    A kind whose running statistics are mixed (``mixes``) normalises each channel by a mean and a
    variance, then scales and shifts it. What differs from that overrides ``normalise``.
    """

    family: ClassVar[str]  # its name in the census
    kinds: ClassVar[tuple[type[nn.Module], ...]]  # the classes it serves, with their subclasses
    ranks: ClassVar[Mapping[type[nn.Module], int]] = {}  # spatial dimensions of these classes
    running: ClassVar[tuple[str, ...]] = ("running_mean", "running_var")  # buffers
    mixes: ClassVar[bool] = False  # whether a lambda mixes them with the statistics of the image
    # Whether statistics from elsewhere can be mixed with the image's where it keeps none itself.
    calibrates: ClassVar[bool] = False
    # If not, why its statistics cannot be mixed, whatever is measured.
    refused: ClassVar[str] = ""
    # Whether ONNX's BatchNormalization computes the same from ``source``, ``affine`` and ``eps``;
    # if not, ``sitta export`` refuses models with such a layer.
    exports: ClassVar[bool] = True

    def replaces(self, layer: Any) -> bool:
        """Whether a twin normalises in the layer's place."""
        return self.mixes

    def base(self, kind: type[nn.Module]) -> type[nn.Module]:
        """The class, among the bases of a layer's, whose forward does the normalising."""
        own = (c for c in kind.__mro__ if c in self.kinds or c.__module__.startswith("torch.nn."))
        return next(own)

    def features(self, layer: Any) -> int:
        """How many channels it normalises."""
        return int(layer.num_features)

    def statistics(self, layer: Any) -> int:
        """How many means and variances it normalises by."""
        return self.features(layer)

    def buffers(self, layer: Any) -> list[Tensor]:
        """Its running statistics as it keeps them."""
        tensors = (getattr(layer, name, None) for name in self.running)
        return [t for t in tensors if t is not None]

    def source(self, layer: Any) -> tuple[Tensor, Tensor] | None:
        """Mean and variance ``(C,)`` from training; None if it keeps no running statistics."""
        statistics = self.buffers(layer)
        return (statistics[0], statistics[1]) if len(statistics) == 2 else None

    def parameters(self, layer: nn.Module) -> list[str]:
        """Names of its scale and shift, the parameters that gradient methods update."""
        return [name for name, _ in layer.named_parameters(recurse=False)]

    def affine(self, layer: Any) -> tuple[Tensor | None, Tensor | None]:
        """Scale and shift ``(C,)``."""
        return layer.weight, layer.bias

    def grouped(self, layer: Any, x: Tensor) -> Tensor:
        """Activations ``(R, C, *S)`` with an axis of what shares a mean and a variance second."""
        return x

    def eps(self, layer: Any) -> float:
        """What is added to the variance."""
        return float(layer.eps)

    def require_fits(self, layer: Any, x: Tensor) -> None:
        """Refuse activations of the wrong shape as the layer itself does."""

    def normalise(
        self, layer: nn.Module, x: Tensor, mean: Tensor, var: Tensor, out: Tensor | None = None
    ) -> Tensor:
        """Normalise each row of ``x`` ``(R, C, *S)`` by its own mean and variance ``(R, C)``.

        ``out`` is memory for the result, used where that is possible; it may be ``x``.
        """
        (weight, bias), eps = self.affine(layer), self.eps(layer)
        one_type = all(t is None or t.dtype == x.dtype for t in (mean, weight, bias))
        if len(x) == 1 and one_type and not mean.requires_grad:  # torch's own kernel is faster
            return fixed_norm(x, (weight, bias, mean[0], var[0]), eps, out)
        scale = torch.rsqrt(var + eps)
        if weight is not None:
            scale = scale * weight.to(scale.dtype)
        shift = -mean * scale
        if bias is not None:
            shift = shift + bias.to(scale.dtype)
        return affine_rows(x, scale, shift, out)


class BatchNorm(NormAdapter):
    """BatchNorm in 1D, 2D and 3D, SyncBatchNorm, and lazy ones after their first use."""

    family = "BatchNorm"
    kinds = (_BatchNorm,)
    ranks: ClassVar = {nn.BatchNorm1d: 1, nn.BatchNorm2d: 2, nn.BatchNorm3d: 3}
    mixes = True

    def require_fits(self, layer: Any, x: Tensor) -> None:
        """By the layer's own check."""
        layer._check_input_dim(x)


class InstanceNorm(NormAdapter):
    """InstanceNorm in 1D, 2D and 3D; mixed if it keeps running statistics, else left alone."""

    family = "InstanceNorm"
    kinds = (_InstanceNorm,)
    calibrates = True
    ranks: ClassVar = {nn.InstanceNorm1d: 1, nn.InstanceNorm2d: 2, nn.InstanceNorm3d: 3}
    mixes = True

    def source(self, layer: Any) -> tuple[Tensor, Tensor] | None:
        """None also if it keeps statistics that it does not use."""
        return super().source(layer) if layer.track_running_stats else None

    def replaces(self, layer: Any) -> bool:
        """Without running statistics it sees each image by itself as it is."""
        return self.source(layer) is not None

    def require_fits(self, layer: Any, x: Tensor) -> None:
        """By the layer's own check, and with an axis of images."""
        layer._check_input_dim(x)
        if x.dim() == layer._get_no_batch_dim():
            raise UnsupportedModel(
                "An InstanceNorm sees activations without an axis of images.",
                got=f"shape {tuple(x.shape)}",
                fix="let every image keep a row of its own on the way through the model",
            )


class GroupNorm(NormAdapter):
    """GroupNorm, whose channels share a mean and a variance in groups."""

    family = "GroupNorm"
    kinds = (nn.GroupNorm,)
    calibrates = True

    def features(self, layer: Any) -> int:
        """Its channels."""
        return int(layer.num_channels)

    def statistics(self, layer: Any) -> int:
        """Its groups."""
        return int(layer.num_groups)

    def grouped(self, layer: Any, x: Tensor) -> Tensor:
        """``(R, G, C / G, *S)``."""
        groups: Tensor = x.unflatten(1, (layer.num_groups, -1))
        return groups

    def normalise(
        self, layer: Any, x: Tensor, mean: Tensor, var: Tensor, out: Tensor | None = None
    ) -> Tensor:
        """As of its channels, each with the statistics ``(R, G)`` of its group."""
        each = int(layer.num_channels // layer.num_groups)
        mean, var = (t.repeat_interleave(each, dim=1) for t in (mean, var))
        return super().normalise(layer, x, mean, var, out)


class LayerNorm(NormAdapter):
    """LayerNorm."""

    family = "LayerNorm"
    kinds = (nn.LayerNorm,)
    refused = "its statistics are those of one position, and stand for no image"

    def features(self, layer: Any) -> int:
        """Its last axis."""
        return int(layer.normalized_shape[-1])


ADAPTERS: list[NormAdapter] = [BatchNorm(), InstanceNorm(), GroupNorm(), LayerNorm()]


def adapter_of(module: nn.Module) -> NormAdapter | None:
    """The adapter of a normalisation layer; None for any other module."""
    return next((a for a in ADAPTERS if isinstance(module, a.kinds)), None)


def norm_layers(root: nn.Module) -> Iterator[tuple[str, nn.Module, NormAdapter]]:
    """All normalisation layers of a network: name, layer and adapter."""
    for name, module in root.named_modules():
        adapter = adapter_of(module)
        if adapter is not None:
            yield name, module, adapter


def calibrated_families() -> str:
    """The kinds that statistics of a calibration can be mixed in, in words."""
    return " or ".join(a.family for a in ADAPTERS if a.calibrates)


def mixed_families() -> str:
    """The kinds whose running statistics can be mixed, in words."""
    return " or ".join(a.family for a in ADAPTERS if a.mixes)
