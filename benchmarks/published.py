"""The procedure of the published code, written from its description: what our one pass replaces.

One pass in training mode with momentum 1 captures the image's statistics; then, for each lambda,
the statistics are mixed into the model, which predicts once, predicts once more for the gradient of
its entropy, is moved along that gradient, predicts again, and gets its weights back. The
published code always pays for the sharpness, whatever strategy is asked for. The one thing left
out: it never sets gradients to zero, so that they pile up from image to image.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

RHO = 0.1
Statistics = list[tuple[Tensor, Tensor]]


class Published:
    """The procedure on a copy of a network with one channel of logits.

    Args:
        net: The network; it is copied.
        lambdas: Weights of the source statistics.
    """

    def __init__(self, net: nn.Module, lambdas: tuple[float, ...]) -> None:
        self.net, self.lambdas = copy.deepcopy(net).eval(), lambdas
        self.norms = [m for m in self.net.modules() if isinstance(m, _BatchNorm)]
        for norm in self.norms:
            norm.momentum = 1.0
        self.saved = {name: t.clone() for name, t in self.net.state_dict().items()}

    def __call__(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities ``(K, 1, H, W)`` of an image ``(1, H, W)``, and sharpness ``(K,)``."""
        source = self._statistics()
        for norm in self.norms:  # the published network has no dropout at work
            norm.train()
        with torch.no_grad():
            self.net(image[None])
        self.net.eval()
        seen = self._statistics()
        found = [self._member(image[None], source, seen, lam) for lam in self.lambdas]
        maps, rises = zip(*found, strict=True)
        return torch.cat(maps), torch.stack(rises)

    def _statistics(self) -> Statistics:
        return [(n.running_mean.clone(), n.running_var.clone()) for n in self.norms]

    def _member(
        self, image: Tensor, source: Statistics, seen: Statistics, lam: float
    ) -> tuple[Tensor, Tensor]:
        for norm, theirs, own in zip(self.norms, source, seen, strict=True):
            norm.running_mean.copy_(lam * theirs[0] + (1 - lam) * own[0])
            norm.running_var.copy_(lam * theirs[1] + (1 - lam) * own[1])
        with torch.no_grad():
            probability = self.net(image).sigmoid()
        here = _entropy(self.net(image))
        self.net.zero_grad()
        here.backward()
        with torch.no_grad():
            self._climb()
            rise = _entropy(self.net(image)) - here
        self.net.load_state_dict(self.saved)
        return probability, rise.detach()

    def _climb(self) -> None:
        moved = [p for p in self.net.parameters() if p.grad is not None]
        norm = torch.stack([p.grad.norm() for p in moved]).norm()
        for p in moved:
            p.add_(p.grad * (RHO / (norm + 1e-12)))


def _entropy(logits: Tensor) -> Tensor:
    """Mean entropy in bits of a binary map."""
    p = logits.sigmoid()
    nats = torch.special.entr(p) + torch.special.entr(1 - p)
    return nats.mean() / math.log(2)
