"""Methods that take gradient steps on this one image: what they share.

An episode: parameters as leaves of their own, a new optimiser, the steps, and a last forward pass
with the parameters they led to. The model is never written to.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor, nn

from sitta._util.settings import LAMBDA, MOST, option
from sitta.adaptation.base import Cost, Members, Method, Needs
from sitta.core.norm import Pool
from sitta.core.norm_adapters import norm_layers
from sitta.core.twin import Twin

Parameters = dict[str, Tensor]
Gradients = Sequence[Tensor | None]


class NoUpdate(Exception):
    """There is nothing to learn from this image; says why by the code of a note."""


@dataclass(frozen=True)
class Episode:
    """One image, the twin that adapts to it, and at which statistics."""

    twin: Twin
    image: Tensor  # (1, C, *S)
    lam: float  # weight of the source statistics, mixed in each layer
    unbiased: bool  # whether to mix with the unbiased variance

    @cached_property
    def held(self) -> Parameters:
        """Parameters made in inference mode, which a graph could not hold otherwise."""
        every = self.twin.module.named_parameters()
        return {name: p.clone() for name, p in every if p.is_inference()}

    def forward(self, at: Parameters) -> Tensor:
        """Logits ``(1, C, *S)`` of the image under these parameters."""
        return self.run(self.image, at, "own")[0]

    def run(self, rows: Tensor, at: Parameters, pool: Pool) -> Tensor:
        """Logits ``(V, 1, C, *S)`` of views ``(V, C, *S)`` of the image."""
        lambdas = torch.full((len(rows),), self.lam, dtype=torch.float64)
        at = {**self.held, **at}
        return self.twin.run(rows, lambdas, pool=pool, unbiased=self.unbiased, parameters=at)


def affine_parameters(module: nn.Module) -> list[str]:
    """Names of the scales and shifts of all normalisation layers."""
    return [
        f"{name}.{own}" if name else own
        for name, layer, adapter in norm_layers(module)
        for own in adapter.parameters(layer)
    ]


@dataclass(frozen=True, eq=False)
class GradientMethod(Method):
    """A method that minimises a loss on this image over some parameters, from scratch each time.

    Attributes:
        lam: Weight of the source statistics, mixed in each layer.
        steps: How many updates.
    """

    needs: ClassVar[Needs] = "any-norm"
    takes_gradients: ClassVar[bool] = True
    unbiased: ClassVar[bool] = False

    lam: float | None = option(0.0, LAMBDA, main=True)
    steps: int = option(1, "updates", low=0, high=MOST, whole=True, main=True)

    @property
    def _lambda(self) -> float:
        """Weight of the source statistics."""
        return 0.0 if self.lam is None else self.lam

    @abstractmethod
    def _optimiser(self, parameters: list[Tensor]) -> torch.optim.Optimizer:
        """A new optimiser for one episode."""

    @abstractmethod
    def _gradients(self, episode: Episode, at: Parameters) -> Gradients:
        """Gradients for one step, or ``NoUpdate``."""

    def _names(self, episode: Episode) -> list[str]:
        """Which parameters may change."""
        return affine_parameters(episode.twin.module)

    @property
    def cost(self) -> Cost:
        """One forward and one backward pass a step, and the last forward."""
        return Cost(forward=self.steps + 1, backward=self.steps)

    def _adapt(self, twin: Twin, images: Tensor) -> Members:
        with torch.inference_mode(False), torch.enable_grad():
            rows = images.clone().unsqueeze(1)  # (N, 1, C, *S)
            done = [self._run(Episode(twin, x, self._lambda, self.unbiased)) for x in rows]
        logits, codes, distances = zip(*done, strict=True)
        still = () if self.census.mixable else ("no-statistics",)
        return Members(
            [self._lambda],
            torch.cat(logits)[None],
            torch.cat(distances),
            codes=[(*own, *still) for own in codes],
        )

    def _run(self, episode: Episode) -> tuple[Tensor, tuple[str, ...], Tensor]:
        """Logits (1, C, *S) after the steps, the codes of notes, and the distance (1,)."""
        module = episode.twin.module
        names = set(self._names(episode))
        start = {k: p.detach().clone() for k, p in module.named_parameters() if k in names}
        at = {k: p.clone().requires_grad_() for k, p in start.items()}
        try:
            optimiser = self._optimiser(list(at.values()))
            for _ in range(self.steps):
                gradients = self._gradients(episode, at)
                for p, gradient in zip(at.values(), gradients, strict=True):
                    p.grad = gradient
                optimiser.step()
            with torch.no_grad():
                logits = episode.forward(at)
            if (
                not logits.isfinite().all()
            ):  # the steps went too far, or no logits of this image are finite
                raise NoUpdate("unstable-update")
        except NoUpdate as reason:
            with torch.no_grad():
                return episode.forward(start), (str(reason),), episode.twin.distance
        return logits, (), episode.twin.distance


def slope(loss: Tensor, at: Parameters) -> Gradients:
    """Gradients of a loss, or ``NoUpdate``; None for parameters that the pass never uses."""
    if not loss.requires_grad:
        raise NoUpdate("zero-gradient")
    gradients = torch.autograd.grad(loss, list(at.values()), allow_unused=True)
    used = [g for g in gradients if g is not None]
    if not any(bool(g.any()) for g in used):
        raise NoUpdate("zero-gradient")
    if not all(bool(g.isfinite().all()) for g in used):
        raise NoUpdate("unstable-update")
    return gradients
