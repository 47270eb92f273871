"""FSeg: a regional nuclear norm and contour regularisation, over normalisation layers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from sitta._util.settings import MOST, RATE, option
from sitta.adaptation.gradient import Episode, GradientMethod, Gradients, Parameters, slope
from sitta.core.entropy import Activation, full_precision

POOL: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
TINY = 1e-20  # under the roots, for a gradient where they are zero


def simplices(logits: Tensor, activation: Activation) -> Tensor:
    """Class probabilities ``(L, C, *S)`` of one image: for a sigmoid [1 - p, p] of each label."""
    if activation == "softmax":
        return logits.softmax(dim=1)
    z = logits.transpose(0, 1)  # (labels, 1, *S)
    return torch.cat([(-z).sigmoid(), z.sigmoid()], dim=1)


def nuclear_norm(a: Tensor) -> Tensor:
    """Sum of the singular values of matrices ``(L, N, C)``, with a gradient that is always finite.

    From the C x C Gram matrix; for two columns in closed form,
    ``sqrt(tr G + 2 sqrt(det G))``, without any decomposition.
    """
    with full_precision(a):
        gram: Tensor = a.transpose(-1, -2) @ a
    trace: Tensor = gram.diagonal(dim1=-2, dim2=-1).sum(-1)
    if a.shape[-1] == 2:
        # det G as a sum of squares: no cancellation where the columns are nearly parallel
        square = gram[..., 0, 0]
        along = gram[..., 0, 1] / square.clamp(min=TINY)
        rest = (a[..., 1] - along[..., None] * a[..., 0]).square().sum(-1)
        return (trace + 2 * (square * rest + TINY).sqrt() + TINY).sqrt()
    values: Tensor = torch.linalg.eigvalsh(gram.double()).clamp(min=0).to(a.dtype)
    return (values + TINY).sqrt().sum(-1)


def regions(p: Tensor, window: int) -> Tensor:
    """Largest probability in each window: ``(L, C, *S)`` to ``(L, regions, C)``."""
    size = [min(window, n) for n in p.shape[2:]]
    highest: Tensor = POOL[len(size)](p, size, size)
    return highest.flatten(2).transpose(1, 2)


def contours(p: Tensor, radius: int, dense: bool) -> Tensor:
    """Local maximum less local minimum, in windows of ``2 radius + 1``."""
    size = [min(2 * radius + 1, n) for n in p.shape[2:]]
    size = [n - (n + 1) % 2 for n in size] if dense else size  # an odd window has a centre
    stride, pad = (1, [n // 2 for n in size]) if dense else (size, 0)
    pool = POOL[len(size)]
    width: Tensor = pool(p, size, stride, pad) + pool(-p, size, stride, pad)
    return width


@dataclass(frozen=True, eq=False)
class FSeg(GradientMethod):
    """Fully test-time adaptation for segmentation (Hu et al., MICCAI 2021): RN and CR losses.

    ``alpha * -||regions||_* + mean ||contours||``: regions shall differ from each other, and
    contours shall be short. ``alpha`` depends on the resolution, because the nuclear norm grows
    with the root of the number of regions. There is no official code; defaults are those of a
    public port.

    Attributes:
        lam: Weight of the source statistics; 0 is the method's own.
        steps: How many updates.
        rate: Learning rate of Adam.
        alpha: Weight of the regional nuclear norm: 1e-3 or 1e-2 in public ports.
        window: Side of a region.
        radius: Radius of a contour.
        contour: ``strided`` windows as in the ports, or ``dense`` as the word says.
        length: Mean over ``positions`` of the norm over classes (port PASS), or sum over
            ``classes`` of the norm over positions (port DeTTA).
        scale: ``none``, or ``size`` to divide the nuclear norm by the root of the matrix's size, so
            that ``alpha`` no longer depends on the resolution.

    Example:
        >>> import sitta, torch
        >>> model = sitta.models.UNet(channels=4, multipliers=(1, 2))
        >>> FSeg(model)(torch.rand(1, 16, 16)).mask.shape
        torch.Size([16, 16])
    """

    description: ClassVar[str] = "regional nuclear norm and contour length over norm layers"
    citation: ClassVar[str] = "Hu et al., MICCAI 2021"

    rate: float = option(1e-3, RATE, help="learning rate of Adam (port PASS)")
    alpha: float = option(
        1e-3, "weight of the nuclear norm (1e-3 PASS, 1e-2 DeTTA)", low=0.0, high=1000
    )
    window: int = option(4, "side of a region in pixels (both ports)", low=1, high=MOST, whole=True)
    radius: int = option(
        4, "radius of a contour in pixels (both ports)", low=1, high=MOST, whole=True
    )
    contour: str = option("strided", "windows of contours", choices=("strided", "dense"))
    length: str = option(
        "positions", "norm of contours (PASS, DeTTA)", choices=("positions", "classes")
    )
    scale: str = option("none", "nuclear norm over sqrt(N C)", choices=("none", "size"))

    def _optimiser(self, parameters: list[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, lr=self.rate)

    def _gradients(self, episode: Episode, at: Parameters) -> Gradients:
        logits = episode.forward(at)
        p = simplices(logits, self._activation(logits.shape[1]))
        a = regions(p, self.window)  # (L, N, C)
        norm = nuclear_norm(a).mean()
        if self.scale == "size":
            norm = norm / math.sqrt(a[0].numel())
        edges = contours(p, self.radius, self.contour == "dense").flatten(2)  # (L, C, windows)
        if self.length == "positions":
            length = (edges.square().sum(dim=1) + TINY).sqrt().mean()
        else:
            length = (edges.square().sum(dim=2) + TINY).sqrt().sum(dim=1).mean()
        return slope(length - self.alpha * norm, at)
