"""SAR: minimise the entropy of reliable pixels where it is flat, over normalisation layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sitta.adaptation.base import Cost, register
from sitta.adaptation.gradient import (
    Episode,
    GradientMethod,
    Gradients,
    NoUpdate,
    Parameters,
    slope,
)
from sitta.adaptation.source import LAMBDA
from sitta.entropy import pixel_entropy
from sitta.settings import Rule, setting
from sitta.sharpness import worst_nearby


@register
@dataclass(frozen=True, eq=False)
class SAR(GradientMethod):
    """Sharpness-aware and reliable entropy minimisation (Niu et al., ICLR 2023), pixel by pixel.

    Pixels whose entropy is above the margin are left out; the gradient is taken where the entropy
    nearby is worst (SAM). The original's recovery is off: every image starts from the model anyway.

    Attributes:
        lam: Weight of the source statistics; 0 is SAR's own.
        steps: How many updates.
        rate: Learning rate of SGD with momentum 0.9.
        margin: Entropy below which a pixel is reliable, as a share of the largest possible.
        rho: Radius of the neighbourhood.

    Example:
        >>> import sitta, torch
        >>> model = sitta.models.UNet(channels=4, multipliers=(1, 2))
        >>> SAR(model)(torch.rand(1, 16, 16)).notes  # an untrained net is sure of nothing
        ('no-foreground', 'no-reliable-pixel')
    """

    name: ClassVar[str] = "sar"
    description: ClassVar[str] = "entropy of reliable pixels minimised where it is flat"
    citation: ClassVar[str] = "Niu et al., ICLR 2023"

    lam: float = setting(0.0, LAMBDA)
    steps: int = setting(1, Rule("updates", low=0, whole=True))
    rate: float = setting(
        2.5e-4, Rule("learning rate of SGD (official, ResNet, batches of 32 or more)", above=0.0)
    )
    margin: float = setting(
        0.4, Rule("reliable below this share of ln C (official: 0.4)", above=0.0)
    )
    rho: float = setting(0.05, Rule("radius of the neighbourhood (official: 0.05)", low=0.0))

    @property
    def _lambda(self) -> float:
        return self.lam

    @property
    def _steps(self) -> int:
        return self.steps

    @property
    def cost(self) -> Cost:
        """Two forward and two backward passes a step, and the last forward."""
        return Cost(forward=2 * self.steps + 1, backward=2 * self.steps)

    def _optimiser(self, parameters: list[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=self.rate, momentum=0.9)

    def _gradients(self, episode: Episode, at: Parameters) -> Gradients:
        reliable, loss = self._reliable(episode.forward(at))
        worst = worst_nearby(at, slope(loss, at), self.rho)
        near = {name: p.detach().requires_grad_() for name, p in worst.items()}
        _, loss = self._reliable(episode.forward(near), reliable)
        return slope(loss, near)

    def _reliable(self, logits: Tensor, among: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The pixels below the margin, among some, and their mean entropy in nats."""
        activation = self._activation(logits)
        entropy = pixel_entropy(logits, activation)
        kept = entropy.detach() < self.margin
        kept = kept if among is None else kept & among
        if not kept.any():
            raise NoUpdate("no-reliable-pixel")
        classes = 2 if activation == "sigmoid" else logits.shape[1]
        return kept, entropy[kept].mean() * torch.log(torch.tensor(float(classes)))
