"""SAR: minimise the entropy of reliable pixels where it is flat, over normalisation layers."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from sitta._util.settings import RATE, option
from sitta.adaptation.base import Cost
from sitta.adaptation.gradient import (
    Episode,
    GradientMethod,
    Gradients,
    NoUpdate,
    Parameters,
    slope,
)
from sitta.core.entropy import pixel_entropy
from sitta.core.norm_adapters import norm_layers
from sitta.core.sharpness import worst_nearby


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
        layers: ``all``, or ``shallow`` to leave out the norms at the lowest resolution and the last
            one, as the original leaves out the top layers of its classifiers; one more forward
            pass.

    Example:
        >>> import sitta, torch
        >>> model = sitta.models.UNet(channels=4, multipliers=(1, 2))
        >>> SAR(model)(torch.rand(1, 16, 16)).notes  # an untrained network has no reliable pixel
        ('no-foreground', 'no-reliable-pixel')
    """

    description: ClassVar[str] = "entropy of reliable pixels minimised where it is flat"
    citation: ClassVar[str] = "Niu et al., ICLR 2023"

    rate: float = option(
        2.5e-4, RATE, help="learning rate of SGD (official, ResNet, batches of 32 or more)"
    )
    margin: float = option(
        0.4, "reliable below this share of ln C (official: 0.4)", above=0.0, high=1000
    )
    rho: float = option(0.05, "radius of the neighbourhood (official: 0.05)", low=0.0, high=1000)
    layers: str = option("all", "norm layers that are updated", choices=("all", "shallow"))

    @property
    def cost(self) -> Cost:
        """Two forward and two backward passes a step, and the last forward."""
        look = 1 if self.layers == "shallow" else 0
        return Cost(forward=2 * self.steps + 1 + look, backward=2 * self.steps)

    def _names(self, episode: Episode) -> list[str]:
        names = super()._names(episode)
        if self.layers == "all":
            return names
        sizes = _norm_sizes(episode)
        left = {name for name, size in sizes.items() if size == min(sizes.values())}
        left.add(next(reversed(sizes), ""))
        return [name for name in names if name.rpartition(".")[0] not in left]

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
        activation = self._activation(logits.shape[1])
        entropy = pixel_entropy(logits, activation)
        kept = entropy.detach() < self.margin
        kept = kept if among is None else kept & among
        if not kept.any():
            raise NoUpdate("no-reliable-pixel")
        classes = 2 if activation == "sigmoid" else logits.shape[1]
        return kept, entropy[kept].mean() * torch.log(torch.tensor(float(classes)))


def _norm_sizes(episode: Episode) -> dict[str, int]:
    """Values per channel that each normalisation layer sees, in the order of the forward pass."""
    sizes: dict[str, int] = {}

    def note(name: str, _: nn.Module, args: tuple[Tensor, ...]) -> None:
        sizes[name] = args[0][0, 0].numel()

    with torch.no_grad(), ExitStack() as hooks:
        for name, layer, _ in norm_layers(episode.twin.module):
            hooks.enter_context(layer.register_forward_pre_hook(partial(note, name)))
        episode.forward({})
    return sizes
