"""A method that Sitta does not know: it needs this file, a line in the registry and a page."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from sitta._util.settings import option
from sitta.adaptation.gradient import GradientMethod, slope


@dataclass(frozen=True, eq=False)
class Toy(GradientMethod):
    """Raises the mean logit."""

    title: ClassVar[str] = "Toy story"
    description: ClassVar[str] = "the mean logit raised"
    citation: ClassVar[str] = "nobody, never"

    strength: float = option(0.5, "learning rate", above=0.0)

    def _optimiser(self, parameters):
        return torch.optim.SGD(parameters, lr=self.strength)

    def _gradients(self, episode, at):
        return slope(-episode.forward(at).mean(), at)
