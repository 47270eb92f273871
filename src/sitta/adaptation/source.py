"""The model at one fixed lambda: no adaptation at 1, the statistics of this image at 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from sitta.adaptation.base import Cost, Method, Needs
from sitta.entropy import mean_entropy, resolve
from sitta.members import Statistics, fitting_logits
from sitta.prediction import Outcome
from sitta.settings import LAMBDA, Rule, setting
from sitta.twin import Twin

STATISTICS = Rule(
    "statistics of the image: captured in one pass at lambda 0, or in each layer as it is reached",
    choices=("captured", "in-layer"),
)
VARIANCE = Rule(
    "variance of the image; unbiased equals the published code", choices=("biased", "unbiased")
)


@dataclass(frozen=True, eq=False)
class Source(Method):
    """The model under ``lam * source + (1 - lam) * image`` statistics, with nothing else changed.

    ``Source(model)`` is the baseline: what ``model.eval()`` gives, with trust figures.

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

    name: ClassVar[str] = "source"
    description: ClassVar[str] = "the model at one fixed lambda; at 1, no adaptation"
    citation: ClassVar[str] = "Schneider et al., NeurIPS 2020 (lambda < 1)"
    needs: ClassVar[Needs] = "nothing"

    lam: float = setting(1.0, LAMBDA)
    statistics: Statistics = setting("captured", STATISTICS)
    variance: str = setting("biased", VARIANCE)

    @property
    def _needs(self) -> Needs:
        return "batch-norm" if self.lam < 1 else "nothing"

    @property
    def cost(self) -> Cost:
        """One pass, or two if the statistics must be captured first."""
        alone = self.statistics == "in-layer" or self.lam == 1
        own = self.lam == 0 and self.variance == "biased"  # the pass that captures is the answer
        return Cost(forward=1 if alone or own else 2)

    def _adapt(self, twin: Twin, images: Tensor) -> Outcome:
        logits, distance = fitting_logits(
            twin,
            images,
            [self.lam],
            statistics=self.statistics,
            unbiased=self.variance == "unbiased",
        )
        return self._integrated(twin, images, logits, distance=distance)

    def _integrated(
        self, twin: Twin, images: Tensor, logits: Tensor, *, distance: Tensor | None = None
    ) -> Outcome:
        activation = resolve(self.activation, logits.shape[2])
        figures = mean_entropy(logits[0], activation)[None]
        return self._outcome(
            twin, images, [self.lam], logits, figures, activation, distance=distance
        )
