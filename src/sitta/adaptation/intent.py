"""InTEnt: integrate predictions over batch-norm statistics, weighted by balanced entropy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sitta.adaptation.base import Cost, Method, Needs
from sitta.adaptation.source import STATISTICS, VARIANCE
from sitta.entropy import Activation, balanced_entropy, in_parts, mean_entropy, resolve
from sitta.integration import STRATEGIES
from sitta.members import Statistics, fitting_logits, grid
from sitta.prediction import Outcome
from sitta.settings import LAMBDA, Rule, setting
from sitta.sharpness import member_sharpness
from sitta.twin import Twin


@dataclass(frozen=True, eq=False)
class InTEnt(Method):
    r"""Integrated entropy weighting (Dong et al., ICML 2024), Algorithm 1.

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
        strategy: How members are weighted; one of ``sitta.integration.STRATEGIES``.
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

    name: ClassVar[str] = "intent"
    description: ClassVar[str] = "all members between source and image, weighted by entropy"
    citation: ClassVar[str] = "Dong, Konz, Gu, Mazurowski, ICML 2024"
    needs: ClassVar[Needs] = "batch-norm"

    step: float = setting(0.2, Rule("grid step C (Eq. 6)", above=0.0, high=1.0))
    lambdas: Sequence[float] | None = setting(
        None, Rule(f"instead of the grid: {LAMBDA.help}", low=0, high=1, optional=True, many=True)
    )
    strategy: str = setting("ent-baln", Rule("how members weigh", choices=tuple(STRATEGIES)))
    statistics: Statistics = setting("captured", STATISTICS)
    variance: str = setting("biased", VARIANCE)
    members_at_once: int | None = setting(
        None,
        Rule("members in one pass, as many as fit if not given", low=1, optional=True, whole=True),
    )
    topk: int = setting(2, Rule("members that ent-topk keeps", low=1, whole=True))
    ties: str = setting("background", Rule("tied votes", choices=("background", "foreground")))
    empty: str = setting(
        "as-is",
        Rule(
            "a member without foreground: as it is, or entropy 1",
            choices=("as-is", "uninformative"),
        ),
    )
    rho: float = setting(0.1, Rule("radius of the sharpness (Eq. 10)", above=0.0))

    @property
    def grid(self) -> tuple[float, ...]:
        """The lambdas of the members."""
        return grid(self.step) if self.lambdas is None else tuple(self.lambdas)

    @property
    def cost(self) -> Cost:
        """A pass for each member, and one that captures unless a member of lambda 0 does it."""
        captured = self.statistics == "captured"
        if STRATEGIES[self.strategy].figure == "sharpness":
            alone = captured and (self.variance == "unbiased" or 0 not in self.grid)
            return Cost(forward=2 * len(self.grid) + alone, backward=len(self.grid))
        if not captured or all(lam == 1 for lam in self.grid):
            return Cost(forward=len(self.grid))
        rows = [lam for lam in self.grid if lam != 0 or self.variance == "unbiased"]
        return Cost(forward=1 + len(rows))

    def _adapt(self, twin: Twin, images: Tensor) -> Outcome:
        return self._integrated(twin, images, *self._members(twin, images))

    def _integrated(
        self,
        twin: Twin,
        images: Tensor,
        logits: Tensor,
        figures: Tensor | None = None,
        distance: Tensor | None = None,
    ) -> Outcome:
        """Weigh the members and integrate them; what to weigh is computed if it is not given."""
        activation = resolve(self.activation, logits.shape[2])
        if figures is None:
            figures = self.figures(logits, activation)
        return self._outcome(
            twin,
            images,
            self.grid,
            logits,
            figures,
            activation,
            strategy=self.strategy,
            topk=self.topk,
            ties=self.ties,
            distance=distance,
        )

    def figures(self, logits: Tensor, activation: Activation) -> Tensor:
        """What the strategy weighs, if it is an entropy: ``(K, N)`` of logits ``(K, N, C, *S)``."""
        balanced = STRATEGIES[self.strategy].figure == "balanced"
        measure = balanced_entropy if balanced else mean_entropy
        figures: Tensor = in_parts(lambda z: measure(z, activation), logits)
        if self.empty == "uninformative":
            figures = torch.where(_finds_something(logits, activation), figures, 1.0)
        return figures

    def _members(self, twin: Twin, images: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Logits of the members; and what takes passes of its own: figures and distances."""
        unbiased = self.variance == "unbiased"
        if STRATEGIES[self.strategy].figure == "sharpness":
            return member_sharpness(
                twin,
                images,
                self.grid,
                self.activation,
                statistics=self.statistics,
                unbiased=unbiased,
                rho=self.rho,
            )
        logits, distance = fitting_logits(
            twin,
            images,
            self.grid,
            statistics=self.statistics,
            unbiased=unbiased,
            at_once=self.members_at_once,
        )
        return logits, None, distance


def _finds_something(logits: Tensor, activation: Activation) -> Tensor:
    """Whether a member takes any pixel for foreground, ``(K, N)``."""
    found = logits > 0 if activation == "sigmoid" else logits.argmax(dim=2) > 0
    return found.flatten(2).any(dim=2)
