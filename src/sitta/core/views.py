"""Views of an image: photometric ones, and geometric ones with an exact inverse.

Chance is separate from effect: small functions apply what is drawn, and everything is drawn from a
``torch.Generator`` seeded by the image itself, so that neither order nor batch changes a view.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor
from torch.nn import functional as F

LEVELS = 256  # grey levels of AugMix, which is defined on 8-bit images


def generator(image: Tensor, seed: int) -> torch.Generator:
    """A generator that depends on the seed and the content of the image, and on nothing else."""
    content = image.detach().to("cpu", torch.float32).contiguous().numpy().tobytes()
    digest = hashlib.sha256(f"{seed} {tuple(image.shape)} ".encode() + content).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


@dataclass(frozen=True)
class Turn:
    """Flips along some axes, then quarter turns in a plane; axes are counted from the end."""

    flips: tuple[int, ...] = ()
    quarters: int = 0
    plane: tuple[int, int] = (-2, -1)

    def __call__(self, x: Tensor) -> Tensor:
        """Turn a map ``(..., *S)``."""
        x = x.flip(self.flips) if self.flips else x
        return x.rot90(self.quarters, self.plane) if self.quarters else x

    def undo(self, x: Tensor) -> Tensor:
        """Turn back, exactly."""
        x = x.rot90(-self.quarters, self.plane) if self.quarters else x
        return x.flip(self.flips) if self.flips else x


@dataclass(frozen=True)
class Views:
    """Views of one image, of which the first is the image itself."""

    images: Tensor  # (V, C, *S)
    turns: Sequence[Turn]

    def undo(self, maps: Tensor) -> Tensor:
        """Maps ``(V, C, *S)`` of the views, turned back so that their pixels correspond."""
        return torch.stack([turn.undo(m) for turn, m in zip(self.turns, maps, strict=True)])


Recolour = Callable[[Tensor, torch.Generator], Tensor]


def views(image: Tensor, count: int, chance: torch.Generator, recolour: Recolour) -> Views:
    """The image ``(C, *S)`` and ``count - 1`` views of it, each recoloured and turned."""
    turns = [Turn(), *[draw_turn(image, chance) for _ in range(count - 1)]]
    rows = [image, *[turn(recolour(image, chance)) for turn in turns[1:]]]
    return Views(torch.stack(rows), turns)


def draw_turn(image: Tensor, chance: torch.Generator) -> Turn:
    """A turn that keeps the shape: flips of any axis, quarter turns in planes of equal sides."""
    dims = image.dim() - 1
    flips = tuple(a for a in range(-dims, 0) if _uniform(chance) < 0.5)
    planes = [p for p in combinations(range(-dims, 0), 2) if image.shape[p[0]] == image.shape[p[1]]]
    if not planes:
        return Turn(flips)
    plane = planes[_integer(chance, 0, len(planes))]
    return Turn(flips, _integer(chance, 0, 4), plane)


def jitter(image: Tensor, chance: torch.Generator) -> Tensor:
    """Gamma, contrast, brightness, blur and noise, each drawn mildly, within the image's range.

    Values outside that range, which training never showed, spoil the statistics of a whole image.
    """
    u, restore = _to_unit(image)
    u = gamma(u, 2.0 ** _uniform(chance, -0.3, 0.3))
    u = contrast(u, _uniform(chance, 0.85, 1.15))
    u = u * _uniform(chance, 0.9, 1.1)
    u = blur(u, _uniform(chance, 0.0, 1.0))
    u = u + _uniform(chance, 0.0, 0.03) * torch.randn(u.shape, generator=chance).to(u)
    return restore(u.clamp(0, 1))


def augmix(image: Tensor, chance: torch.Generator) -> Tensor:
    """AugMix of intensities alone: three chains of one to three operations, mixed (MEMO's recipe).

    What moves pixels (rotation, shear, translation) is left out, because superimposed copies that
    are warped differently could not be turned back.
    """
    u, restore = _to_unit(image)
    shares = -torch.rand(3, generator=chance).clamp(min=1e-9).log()  # Dirichlet(1, 1, 1)
    mixture = torch.zeros_like(u)
    for share in (shares / shares.sum()).tolist():
        chain = u
        for _ in range(_integer(chance, 1, 4)):
            operation = OPERATIONS[_integer(chance, 0, len(OPERATIONS))]
            chain = operation(chain, _uniform(chance, 0.1, 1.0))
        mixture = mixture + share * chain
    kept = _uniform(chance)  # Beta(1, 1)
    return restore(kept * u + (1 - kept) * mixture)


def gamma(u: Tensor, exponent: float) -> Tensor:
    """Intensities in [0, 1] to a power."""
    return u.clamp(min=0) ** exponent


def contrast(u: Tensor, factor: float) -> Tensor:
    """Distance to the mean times a factor."""
    mean = u.mean()
    return mean + factor * (u - mean)


def blur(u: Tensor, sigma: float) -> Tensor:
    """Gaussian blur of every channel, sigma in pixels; edges are repeated."""
    radius = min(int(3 * sigma + 0.5), min(u.shape[1:]) - 1)
    if radius < 1:
        return u
    at = torch.arange(-radius, radius + 1, device=u.device, dtype=u.dtype)
    kernel = torch.exp(-0.5 * (at / sigma) ** 2)
    kernel = (kernel / kernel.sum()).view(1, 1, -1)
    for axis in range(1, u.dim()):
        moved = u.movedim(axis, -1)
        lines = F.pad(moved.reshape(-1, 1, moved.shape[-1]), (radius, radius), mode="replicate")
        u = F.conv1d(lines, kernel).view(moved.shape).movedim(-1, axis)
    return u


def autocontrast(u: Tensor, _severity: float) -> Tensor:
    """Each channel stretched to [0, 1]."""
    flat = u.flatten(1)
    low, high = flat.amin(dim=1), flat.amax(dim=1)
    shape = (-1, *[1] * (u.dim() - 1))
    return (u - low.view(shape)) / (high - low).clamp(min=1e-6).view(shape)


def equalize(u: Tensor, _severity: float) -> Tensor:
    """Each channel with a flat histogram."""
    rows = []
    for channel in _levels(u):
        share = torch.bincount(channel.flatten(), minlength=LEVELS).cumsum(0).to(u.dtype)
        rows.append(((share - share[0]) / (share[-1] - share[0]).clamp(min=1))[channel])
    return torch.stack(rows)


def solarize(u: Tensor, severity: float) -> Tensor:
    """Intensities above a threshold inverted; a mild threshold is close to 1."""
    return torch.where(u >= 1 - severity * 0.1, 1 - u, u)


def posterize(u: Tensor, _severity: float) -> Tensor:
    """Sixteen grey levels (4 bits, whatever the severity, as in MEMO)."""
    return (_levels(u) // 16 * 16).to(u.dtype) / (LEVELS - 1)


OPERATIONS = (autocontrast, equalize, solarize, posterize)


def _levels(u: Tensor) -> Tensor:
    return (u * (LEVELS - 1)).round().clamp(0, LEVELS - 1).long()


def _to_unit(image: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The image scaled to [0, 1], and the way back."""
    low, width = image.min(), (image.max() - image.min()).clamp(min=1e-12)
    return (image - low) / width, lambda u: u * width + low


def _uniform(chance: torch.Generator, low: float = 0.0, high: float = 1.0) -> float:
    return low + (high - low) * float(torch.rand((), generator=chance, dtype=torch.float64))


def _integer(chance: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high, (), generator=chance))
