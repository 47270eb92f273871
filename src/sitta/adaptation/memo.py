"""MEMO: a step on the entropy of the mean prediction over augmented views, over all parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from sitta._util.settings import LAMBDA, MOST, RATE, SEED, option
from sitta.adaptation.base import Cost, Needs
from sitta.adaptation.gradient import Episode, GradientMethod, Gradients, Parameters, slope
from sitta.core.census import Census
from sitta.core.entropy import Activation
from sitta.core.views import augmix, generator, views

PRIORS = {"official": 16 / 17, "intent-paper": 15 / 16}


def marginal_entropy(logits: Tensor, activation: Activation) -> Tensor:
    """Mean entropy of a pixel, in nats, of the mean prediction over aligned views ``(V, C, *S)``.

    Computed from logarithms, so that it has a gradient where all views are certain.
    """
    if activation == "softmax":
        log = _log_mean(logits.log_softmax(dim=1))  # (C, *S)
        return -(log.exp() * log).sum(dim=0).mean()
    sides = [_log_mean(F.logsigmoid(z)) for z in (logits, -logits)]
    return -torch.stack([log.exp() * log for log in sides]).sum(dim=0).mean()


def _log_mean(logs: Tensor) -> Tensor:
    return logs.logsumexp(dim=0) - math.log(len(logs))


@dataclass(frozen=True, eq=False)
class MEMO(GradientMethod):
    """Marginal entropy minimisation with one test point (Zhang et al., NeurIPS 2022), for pixels.

    Views are intensity AugMix inside flips and quarter turns that are undone exactly, so that
    pixels correspond. The first view is the image itself. Statistics are pooled over the views
    while adapting, and are those of the image alone for the answer. The most expensive method here.

    Attributes:
        lam: Weight of the source statistics; if not given, that of ``prior``.
        prior: ``official`` (16/17, MEMO's code) or ``intent-paper`` (15/16).
        views: Views, the image among them.
        steps: How many updates.
        rate: Learning rate of plain SGD.
        seed: Other views.

    Example:
        >>> import sitta, torch
        >>> model = sitta.models.UNet(channels=4, multipliers=(1, 2))
        >>> MEMO(model, views=4)(torch.rand(1, 16, 16)).mask.shape
        torch.Size([16, 16])
    """

    description: ClassVar[str] = "entropy of the mean over views minimised over all parameters"
    citation: ClassVar[str] = "Zhang, Levine, Finn, NeurIPS 2022"
    needs: ClassVar[Needs] = "nothing"
    unbiased: ClassVar[bool] = True

    lam: float | None = option(None, LAMBDA, optional=True, main=True)
    prior: str = option("official", "lambda where none is given", choices=tuple(PRIORS))
    views: int = option(
        32, "views (official, CIFAR: 32; ImageNet: 64)", low=1, high=MOST, whole=True, main=True
    )
    rate: float = option(2.5e-4, RATE, help="learning rate of SGD (official, ResNet-50)")
    seed: int = option(0, SEED, help="seed of the views")

    @property
    def _lambda(self) -> float:
        return PRIORS[self.prior] if self.lam is None else self.lam

    @property
    def cost(self) -> Cost:
        """A forward and a backward pass for each view and step, and the last forward."""
        return Cost(forward=self.steps * self.views + 1, backward=self.steps * self.views)

    @classmethod
    def problem(cls, census: Census, needs: Needs | None = None) -> str:
        """Any model with parameters will do."""
        return "" if census.parameters else "it has no parameters"

    def _names(self, episode: Episode) -> list[str]:
        every = episode.twin.module.named_parameters()
        return [name for name, p in every if p.is_floating_point()]

    def _optimiser(self, parameters: list[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=self.rate)

    def _gradients(self, episode: Episode, at: Parameters) -> Gradients:
        image = episode.image[0]
        seen = views(image, self.views, generator(image, self.seed), augmix)
        logits = seen.undo(episode.run(seen.images, at, "pooled")[:, 0])
        return slope(marginal_entropy(logits, self._activation(logits.shape[1])), at)
