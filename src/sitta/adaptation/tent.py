"""Tent: minimise the entropy of the prediction over scales and shifts of normalisation layers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sitta._util.settings import MOST, RATE, option
from sitta.adaptation.gradient import Episode, GradientMethod, Gradients, Parameters, slope
from sitta.core.entropy import Activation, mean_entropy


def entropy_loss(logits: Tensor, activation: Activation) -> Tensor:
    """Mean pixel entropy in nats."""
    classes = 2 if activation == "sigmoid" else logits.shape[1]
    return mean_entropy(logits, activation).mean() * math.log(classes)


def half_entropy_loss(logits: Tensor, activation: Activation) -> Tensor:
    """Minus p log p of the channels alone, without the background's half, as several ports have it.

    For a softmax it is the entropy. For a sigmoid its maximum is at p = 1/e: it drives confident
    background harder than foreground.
    """
    if activation == "softmax":
        return entropy_loss(logits, activation)
    log = torch.nn.functional.logsigmoid(logits)
    return -(log.exp() * log).mean()


LOSSES = {"entropy": entropy_loss, "half-entropy": half_entropy_loss}


@dataclass(frozen=True, eq=False)
class Tent(GradientMethod):
    """Test entropy minimisation (Wang et al., ICLR 2021), for one image.

    Gradients flow through the statistics of the image, mixed in each layer. After the last step the
    image is forwarded again. On one image it moves the result by little at a given lambda; many
    steps or a high rate collapse the mask to one class.

    Attributes:
        lam: Weight of the source statistics; 0 is Tent's own.
        steps: 1, or 10 as the paper does for segmentation.
        rate: Learning rate.
        optimiser: ``adam`` (the official example's), or ``sgd`` with momentum 0.9.
        loss: ``entropy``, or ``half-entropy`` as several ports have it.

    Example:
        >>> import sitta, torch
        >>> model = sitta.models.UNet(channels=4, multipliers=(1, 2))
        >>> Tent(model)(torch.rand(1, 16, 16)).mask.shape
        torch.Size([16, 16])
    """

    description: ClassVar[str] = "entropy minimised over the scales and shifts of norm layers"
    citation: ClassVar[str] = "Wang et al., ICLR 2021"

    steps: int = option(
        1, "steps; the paper takes 10 for segmentation", low=0, high=MOST, whole=True, main=True
    )
    rate: float = option(1e-3, RATE, help="learning rate (official example: Adam 1e-3)")
    optimiser: str = option(
        "adam", "adam, or sgd with Nesterov momentum 0.9", choices=("adam", "sgd")
    )
    loss: str = option("entropy", "what is minimised", choices=tuple(LOSSES))

    def _optimiser(self, parameters: list[Tensor]) -> torch.optim.Optimizer:
        if self.optimiser == "adam":
            return torch.optim.Adam(parameters, lr=self.rate)
        return torch.optim.SGD(parameters, lr=self.rate, momentum=0.9, nesterov=True)

    def _gradients(self, episode: Episode, at: Parameters) -> Gradients:
        logits = episode.forward(at)
        return slope(LOSSES[self.loss](logits, self._activation(logits.shape[1])), at)
