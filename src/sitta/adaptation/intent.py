"""InTEnt: integrate predictions over batch-norm statistics, weighted by balanced entropy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sitta._util.settings import AT_ONCE, LAMBDA, MOST, STEP, option
from sitta.adaptation.base import Cost, Members, Needs
from sitta.adaptation.source import STATISTICS, VARIANCE, GridMethod
from sitta.core.calibrated_statistics import SHORT_GRID
from sitta.core.entropy import Activation, in_parts
from sitta.core.integration import STRATEGIES
from sitta.core.members import Statistics, grid
from sitta.core.twin import Twin


@dataclass(frozen=True, eq=False)
class InTEnt(GridMethod):
    r"""Integrated entropy weighting (Dong et al., arXiv 2402.09604), Algorithm 1.

    .. math:: \hat P = \sum_k w_k P_{\lambda_k},\quad
        w = \mathrm{softmax}\big(-H / (\max H - \min H)\big)

    over members whose batch-norm statistics are mixed between training and this image. All members
    and images go through the network in one pass.

    It helps where the image's statistics are off and the best lambda is not known. It can hurt
    where source statistics were right already, or where the entropy misleads: compare
    ``Source(model)`` and read the notes.

    Attributes:
        step: Grid step C; 0.2 gives 6 members.
        lambdas: The members' lambdas themselves, in place of the grid.
        strategy: How members are weighted; one of ``sitta.core.integration.STRATEGIES``.
        statistics: ``captured`` (the paper's) or ``in-layer``.
        variance: ``biased``, or ``unbiased`` for the numbers of the published code.
        members_at_once: Members in one pass; fewer save memory. None is as many as fit into it.
        topk: How many members ``ent-topk`` keeps.
        ties: Where a tied ``vote`` goes, ``background`` or ``foreground``.
        empty: ``as-is`` weighs a member that finds no foreground by its entropy like any other;
            ``uninformative`` takes it for one that knows nothing.
        rho: Radius of ``sharpness``.

    Example:
        >>> import sitta, torch
        >>> adapt = InTEnt(sitta.models.UNet(channels=4, multipliers=(1, 2)))
        >>> p = adapt(torch.rand(3, 1, 16, 16))  # three images, three adaptations
        >>> p.mask.shape, p.lambdas.tolist() == [1.0, 0.8, 0.6, 0.4, 0.2, 0.0]
        (torch.Size([3, 16, 16]), True)
    """

    description: ClassVar[str] = "all members between source and image, weighted by entropy"
    citation: ClassVar[str] = "Dong, Konz, Gu, Mazurowski, 2024 (arXiv 2402.09604)"
    needs: ClassVar[Needs] = "batch-norm"

    step: float = option(0.2, STEP, help="grid step C (Eq. 6)", main=True)
    lambdas: Sequence[float] | None = option(
        None, LAMBDA, help=f"instead of the grid: {LAMBDA.help}", optional=True, many=True
    )
    strategy: str = option("ent-baln", "how members weigh", choices=STRATEGIES.keys(), main=True)
    statistics: Statistics = option("captured", STATISTICS)
    variance: str = option("biased", VARIANCE)
    members_at_once: int | None = option(None, AT_ONCE)
    topk: int = option(2, "members that ent-topk keeps", low=1, high=MOST, whole=True)
    ties: str = option("background", "tied votes", choices=("background", "foreground"))
    empty: str = option(
        "as-is",
        "a member without foreground: as it is, or entropy 1",
        choices=("as-is", "uninformative"),
    )
    rho: float = option(0.1, "radius of the sharpness (Eq. 10)", above=0.0, high=1000)

    @property
    def grid(self) -> tuple[float, ...]:
        """The lambdas of the members; few near 0 where that is the model as trained."""
        if self.lambdas is not None:
            return tuple(self.lambdas)
        return SHORT_GRID if self.source_statistics else grid(self.step)

    @property
    def needs_own_passes(self) -> bool:
        """Whether the strategy's scores need more than the members' logits."""
        return STRATEGIES[self.strategy].needs_own_passes

    @property
    def cost(self) -> Cost:
        """As of the grid; a strategy may take passes of its own for each member."""
        if not self.needs_own_passes:
            return super().cost
        alone = self.variance == "unbiased" or 0 not in self.grid  # one more pass that captures
        forward, backward = (n * len(self.grid) for n in STRATEGIES[self.strategy].passes)
        return Cost(forward + (alone and self.statistics == "captured"), backward)

    def _adapt(self, twin: Twin, images: Tensor) -> Members:
        own_passes = STRATEGIES[self.strategy].own_passes
        if own_passes is None:
            return super()._adapt(twin, images)
        how = {"rho": self.rho, **self.how}
        return self.members(*own_passes(twin, images, self.grid, self.activation, **how))

    def members(self, logits: Tensor, distance: Tensor, scores: Tensor | None = None) -> Members:
        """Members that the strategy weighs, by its scores if they are not given."""
        if scores is None:
            scores = self.scores(logits, self._activation(logits.shape[2]))
        how: Any = {"strategy": self.strategy, "topk": self.topk, "ties": self.ties}
        return Members(self.grid, logits, distance, scores, **how)

    def scores(self, logits: Tensor, activation: Activation) -> Tensor:
        """What the strategy weighs, if it is an entropy: ``(K, N)`` of logits ``(K, N, C, *S)``."""
        strategy = STRATEGIES[self.strategy]
        scores: Tensor = in_parts(lambda z: strategy.score(z, activation), logits)
        if self.empty == "uninformative" or strategy.empty_last:
            scores = torch.where(_finds_something(logits, activation), scores, 1.0)
        return scores


def _finds_something(logits: Tensor, activation: Activation) -> Tensor:
    """Whether a member takes any pixel for foreground, ``(K, N)``."""
    foreground = logits > 0 if activation == "sigmoid" else logits.argmax(dim=2) > 0
    return foreground.flatten(2).any(dim=2)
