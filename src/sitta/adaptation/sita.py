"""SITA: statistics averaged over augmented views of the image, and its search for the prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sitta._util.settings import LAMBDA, MOST, SEED, STEP, option
from sitta.adaptation.base import Cost, Members, Method, Needs
from sitta.core.entropy import mean_entropy
from sitta.core.integration import weigh
from sitta.core.members import grid
from sitta.core.twin import Twin
from sitta.core.views import generator, jitter, views
from sitta.errors import InvalidSetting


@dataclass(frozen=True, eq=False)
class SITA(Method):
    """Single-image test-time adaptation by augmented statistics (Khurana et al., 2021).

    The image and its augmented views go through the network together; in each layer their
    statistics are averaged and mixed with the source's. The answer is the prediction for the image
    itself. There is no official code; the number and kind of views are Sitta's choice.

    With ``op`` (the "optimal prior") lambda is searched on a grid: ``vote`` takes the lambda under
    which most views have their lowest entropy, ``top-k`` averages the predictions of the lambdas of
    lowest entropy.

    Attributes:
        lam: Weight of the source statistics, below 1; not used with ``op``.
        views: Views besides the image itself.
        weighting: How statistics are averaged: the ``mean`` over all views, ``pooled`` as of one
            large image, or ``half`` for the image and half for the views.
        op: ``none``, ``vote`` or ``top-k``.
        step: Grid step of ``op``.
        topk: Lambdas that ``top-k`` keeps.
        seed: Other views.

    Example:
        >>> import sitta, torch
        >>> model = sitta.models.UNet(channels=4, multipliers=(1, 2))
        >>> SITA(model, op="vote")(torch.rand(1, 16, 16)).weights.shape
        torch.Size([6])
    """

    description: ClassVar[str] = "statistics averaged over augmented views of the image"
    citation: ClassVar[str] = "Khurana et al., 2021 (arXiv 2112.02355)"
    needs: ClassVar[Needs] = "batch-norm"

    lam: float = option(
        0.8, LAMBDA, help=f"{LAMBDA.help}; InTEnt paper: 0.8", high=None, below=1, main=True
    )
    views: int = option(
        8, "views besides the image itself", low=0, high=MOST, whole=True, main=True
    )
    weighting: str = option(
        "mean", "how statistics are averaged", choices=("mean", "pooled", "half")
    )
    op: str = option("none", "search of the prior", choices=("none", "vote", "top-k"))
    step: float = option(0.2, STEP, help="grid step of op")
    topk: int = option(
        2, "lambdas that op=top-k keeps (published code: 3)", low=1, high=MOST, whole=True
    )
    seed: int = option(0, SEED, help="seed of the views")

    def __post_init__(self) -> None:
        if self.lam == 1:
            raise InvalidSetting(
                "At lambda 1 nothing of the views is used: SITA would be the unadapted model.",
                allowed="0 <= lam < 1",
                fix="use sitta.Source(model)",
            )
        super().__post_init__()

    @property
    def cost(self) -> Cost:
        """One forward pass for the image and each view, for each lambda."""
        return Cost(forward=len(self._grid) * (1 + self.views))

    @property
    def _grid(self) -> tuple[float, ...]:
        return (self.lam,) if self.op == "none" else grid(self.step)

    def _adapt(self, twin: Twin, images: Tensor) -> Members:
        logits, distances = zip(*(self._views_logits(twin, x) for x in images), strict=True)
        every = torch.stack(logits, dim=2)  # (K, V, N, C, *S)
        activation = self._activation(every.shape[3])
        entropies = mean_entropy(every.flatten(0, 2), activation).view(every.shape[:3])  # (K, V, N)
        finite = every.flatten(3).isfinite().all(dim=3)
        scores = torch.where(finite, entropies, torch.inf)  # what overflowed gets no vote
        weights = None if self.op == "none" else self._weights(scores)
        return Members(self._grid, every[:, 0], torch.cat(distances), entropies[:, 0], weights)

    def _views_logits(self, twin: Twin, image: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of image and views under each lambda ``(K, V, C, *S)``, and the distance (1,)."""
        rows = views(image, 1 + self.views, generator(image, self.seed), jitter).images
        logits = []
        for lam in self._grid:
            lambdas = torch.full((len(rows),), lam, dtype=torch.float64)
            logits.append(twin.run(rows, lambdas, pool=self.weighting)[:, 0])  # type: ignore[arg-type]
        return torch.stack(logits), twin.distance

    def _weights(self, entropies: Tensor) -> Tensor:
        """Weights (K, N) from entropies (K, V, N) of the views, the image first."""
        if self.op == "top-k":
            return weigh("ent-topk", entropies[:, 0], self.topk)
        ballots = entropies.argmin(dim=0)  # (V, N)
        votes = torch.stack([(ballots == k).sum(dim=0) for k in range(len(entropies))])  # (K, N)
        votes = torch.where(entropies[:, 0].isfinite(), votes, -1)
        tied = votes == votes.amax(dim=0)  # of these, the one surest of the image itself
        winner = torch.where(tied, entropies[:, 0], torch.inf).argmin(dim=0)
        return torch.nn.functional.one_hot(winner, len(entropies)).T.to(entropies.dtype)
