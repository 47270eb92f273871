"""The model at one fixed lambda: no adaptation at 1, the statistics of this image at 0."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from sitta._util.settings import LAMBDA, Constraint, option
from sitta.adaptation.base import Cost, Members, Method, Needs
from sitta.core.members import Rows, Statistics, member_logits_chunked
from sitta.core.twin import Twin

STATISTICS = Constraint(
    "statistics of the image: captured in one pass at lambda 0, or in each layer as it is reached",
    choices=("captured", "in-layer"),
)
VARIANCE = Constraint(
    "variance of the image; unbiased equals the published code", choices=("biased", "unbiased")
)


class GridMethod(Method):
    """A method that runs the model at one or several lambdas and changes nothing else."""

    takes_statistics: ClassVar[bool] = True

    statistics: Statistics
    variance: str
    members_at_once: int | None = None

    @property
    @abstractmethod
    def grid(self) -> tuple[float, ...]:
        """The lambdas of the members."""

    @property
    def needs_own_passes(self) -> bool:
        """Whether the members' logits alone do not give what is weighed."""
        return False

    def depths(self, layers: int) -> None:
        """No member keeps a part of the layers at source statistics."""

    @property
    def how(self) -> dict[str, Any]:
        """How statistics are mixed, as keywords of ``member_logits``."""
        return {"statistics": self.statistics, "unbiased": self.variance == "unbiased"}

    @property
    def rows(self) -> Rows:
        """A row for each member, and one that captures unless a member of lambda 0 does it."""
        return Rows.of(self.grid, self.statistics == "captured", self.variance == "unbiased")

    @property
    def cost(self) -> Cost:
        """A pass for each row."""
        return Cost(forward=len(self.rows))

    def _adapt(self, twin: Twin, images: Tensor) -> Members:
        how = {"at_once": self.members_at_once, **self.how}
        return self.members(*member_logits_chunked(twin, images, self.grid, **how))

    def members(self, logits: Tensor, distance: Tensor) -> Members:
        """The members of this method, from logits ``(K, N, C, *S)`` and distances ``(N,)``."""
        return Members(self.grid, logits, distance)


@dataclass(frozen=True, eq=False)
class Source(GridMethod):
    """The model under ``lam * source + (1 - lam) * image`` statistics, with nothing else changed.

    ``Source(model)`` is the baseline: what ``model.eval()`` gives, with trust scores.

    Attributes:
        lam: Weight of the source statistics.
        statistics: ``captured`` or ``in-layer``; the same at lambda 0 and 1.
        variance: ``biased`` or ``unbiased``.

    Example:
        >>> import sitta, torch
        >>> model = sitta.models.UNet(channels=4, multipliers=(1, 2)).eval()
        >>> image = torch.rand(1, 16, 16)
        >>> p = Source(model)(image)
        >>> torch.allclose(p.probability, model(image[None]).sigmoid()[0])
        True
    """

    description: ClassVar[str] = "the model at one fixed lambda; at 1, no adaptation"
    citation: ClassVar[str] = "Schneider et al., NeurIPS 2020 (lambda < 1)"
    needs: ClassVar[Needs] = "nothing"

    lam: float = option(1.0, LAMBDA, main=True)
    statistics: Statistics = option("captured", STATISTICS)
    variance: str = option("biased", VARIANCE)

    @property
    def _needs(self) -> Needs:
        return "batch-norm" if self.lam < 1 else "nothing"

    @property
    def grid(self) -> tuple[float, ...]:
        """The one lambda."""
        return (self.lam,)
