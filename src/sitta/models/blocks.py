"""The parts of the improved U-Net, for images and volumes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CONV: dict[int, Any] = {2: nn.Conv2d, 3: nn.Conv3d}
NORM: dict[int, Any] = {2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


def zeroed(layer: nn.Module) -> nn.Module:
    """The layer with all its parameters at zero, so that training starts from an identity."""
    for p in layer.parameters():
        nn.init.zeros_(p)
    return layer


class SiLU(nn.SiLU):
    """SiLU that overwrites its input where no gradient needs it: one map less in memory."""

    def forward(self, x: Tensor) -> Tensor:
        """Activate; without gradients, in place."""
        return F.silu(x, inplace=not torch.is_grad_enabled())


def norm_silu_conv(dims: int, inputs: int, outputs: int, *, zero: bool = False) -> nn.Sequential:
    """BatchNorm, SiLU and a 3x3 convolution."""
    conv = CONV[dims](inputs, outputs, 3, padding=1)
    return nn.Sequential(NORM[dims](inputs), SiLU(), zeroed(conv) if zero else conv)


class ResBlock(nn.Module):
    """A residual block of two normalised convolutions, or of the first one alone (``full=False``).

    The published network never calls its second half. Dropout comes before the last convolution.
    """

    def __init__(
        self, dims: int, inputs: int, outputs: int, *, full: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.first = norm_silu_conv(dims, inputs, outputs)
        self.second = norm_silu_conv(dims, outputs, outputs, zero=True) if full else None
        if self.second is not None and dropout:
            self.second.insert(2, nn.Dropout(dropout))
        same = inputs == outputs
        self.skip: nn.Module = nn.Identity() if same else CONV[dims](inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Skip connection plus convolutions."""
        h = self.first(x)
        if self.second is not None:
            h = self.second(h)
        out: Tensor = self.skip(x) + h
        return out


class Attention(nn.Module):
    """Self-attention over all positions of a map; ``heads`` must divide ``channels``."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.BatchNorm1d(channels)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.out = zeroed(nn.Conv1d(channels, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Input plus what it attends to."""
        flat = x.flatten(2)  # (B, C, T)
        qkv = self.qkv(self.norm(flat)).unflatten(1, (self.heads, 3, -1))  # (B, heads, 3, c, T)
        # Contiguous, or torch would write out all T x T weights, far too many for a large image.
        q, k, v = (t.transpose(-1, -2).contiguous() for t in qkv.unbind(2))  # (B, heads, T, c)
        seen = F.scaled_dot_product_attention(q, k, v)
        h = self.out(seen.transpose(-1, -2).flatten(1, 2))  # (B, C, T)
        out: Tensor = (flat + h).view_as(x)
        return out


class Down(nn.Sequential):
    """Half the resolution by a convolution of stride 2; ``flat`` keeps the number of slices."""

    def __init__(self, dims: int, channels: int, *, flat: bool = False) -> None:
        super().__init__()
        stride = (1, 2, 2) if flat else 2
        self.conv = CONV[dims](channels, channels, 3, stride=stride, padding=1)


class Up(nn.Sequential):
    """Twice the resolution by the nearest neighbour, then a convolution; ``flat`` as of Down."""

    def __init__(self, dims: int, channels: int, *, flat: bool = False) -> None:
        super().__init__()
        self.repeat = nn.Upsample(scale_factor=(1.0, 2.0, 2.0) if flat else 2.0)
        self.conv = CONV[dims](channels, channels, 3, padding=1)


def pad_to_multiple(x: Tensor, multiple: int) -> Tensor:
    """Grow every spatial side to a multiple, at its end, by repeating the last value."""
    pads = [p for n in reversed(x.shape[2:]) for p in (0, -n % multiple)]
    return F.pad(x, pads, mode="replicate") if any(pads) else x
