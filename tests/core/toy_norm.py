"""A kind of normalisation layer that Sitta does not know, with its adapter."""

import torch
from torch import nn

from sitta.core.norm_adapters import NormAdapter


class ToyNorm(nn.Module):
    """Keeps a running standard deviation, and has a gain for each channel but no shift."""

    def __init__(self, channels):
        super().__init__()
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, channels))
        self.register_buffer("centre", torch.linspace(-0.2, 0.2, channels))
        self.register_buffer("spread", torch.linspace(0.5, 2.0, channels))

    def forward(self, x):
        shape = (1, -1, 1, 1)
        away = x - self.centre.view(shape)
        return away / (self.spread**2 + 1e-3).sqrt().view(shape) * self.gain.view(shape)


class ToyAdapter(NormAdapter):
    family = "ToyNorm"
    kinds = (ToyNorm,)
    running = ("centre", "spread")
    mixes = True

    def features(self, layer):
        return len(layer.centre)

    def source(self, layer):
        return layer.centre, layer.spread**2

    def affine(self, layer):
        return layer.gain, None

    def eps(self, _layer):
        return 1e-3


class ToyWithoutONNX(ToyAdapter):
    exports = False
