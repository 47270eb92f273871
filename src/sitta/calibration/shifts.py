"""Synthetic shifts: what another scanner may do to an image, drawn from a seed.

Values are brought to [0, 1], changed, and brought back to the range that the image had, so that a
shifted image is what the model's own preprocessing could have given. Geometry moves the mask along.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

MOST = 3  # kinds of shifts on one image
REGIONS = 3  # of opacity, at most
SOFT = 0.1  # share of its radius over which the edge of such a region fades
HIDING, HARD = "opacity", 0.6  # what every severe shift has, and its least strength
FRAMED = 0.5  # share of the images that are also framed differently
Shift = Callable[[Tensor, float, Generator], Tensor]


def _sign(draw: Generator) -> float:
    return 1.0 if _uniform(draw) < 0.5 else -1.0


def _uniform(draw: Generator) -> float:
    return float(torch.rand((), generator=draw))


def _gamma(x: Tensor, strength: float, draw: Generator) -> Tensor:
    return x.clamp(min=0) ** math.exp(_sign(draw) * 1.1 * strength)


def _contrast(x: Tensor, strength: float, draw: Generator) -> Tensor:
    factor = math.exp(_sign(draw) * 0.9 * strength)
    return ((x - x.mean()) * factor + x.mean()).clamp(0, 1)


def _blur(x: Tensor, strength: float, _: Generator) -> Tensor:
    sigma = 0.3 + 2.2 * strength * x.shape[-1] / 144
    reach = max(1, round(3 * sigma))
    near = torch.exp(-torch.arange(-reach, reach + 1.0).square() / (2 * sigma**2))
    near = (near / near.sum()).to(x)
    for axis in range(2, x.dim()):
        moved = x.movedim(axis, -1)
        flat = F.pad(moved.reshape(-1, 1, moved.shape[-1]), (reach, reach), mode="replicate")
        x = F.conv1d(flat, near.view(1, 1, -1)).view(moved.shape).movedim(-1, axis)
    return x


def _noise(x: Tensor, strength: float, draw: Generator) -> Tensor:
    return x + 0.15 * strength * torch.randn(x.shape, generator=draw).to(x)


def _bias_field(x: Tensor, strength: float, draw: Generator) -> Tensor:
    axes = torch.meshgrid(*(torch.linspace(-1, 1, n) for n in x.shape[2:]), indexing="ij")
    terms = [*axes, *(a.square() for a in axes), axes[-1] * axes[-2]]
    factors = torch.randn(len(terms), generator=draw)
    field = sum((f * term for f, term in zip(factors, terms, strict=True)), torch.zeros(()))
    return x * torch.exp(strength * field / field.abs().amax()).to(x)


def _clipping(x: Tensor, strength: float, draw: Generator) -> Tensor:
    sample = x.flatten()[:: max(1, x.numel() // 50_000)]
    low = torch.quantile(sample, 0.25 * strength * _uniform(draw))
    high = torch.quantile(sample, 1 - 0.35 * strength * _uniform(draw))
    return x.clamp(low, high) if high > low else x


def _resolution(x: Tensor, strength: float, _: Generator) -> Tensor:
    mode = {3: "linear", 4: "bilinear", 5: "trilinear"}[x.dim()]
    sides = [max(8, int(n * (1 - 0.75 * strength))) for n in x.shape[2:]]
    small = F.interpolate(x, size=sides, mode="area")
    return F.interpolate(small, size=x.shape[2:], mode=mode, align_corners=False)


def _opacity(x: Tensor, strength: float, draw: Generator) -> Tensor:
    """Soft-edged regions fade to one grey value, as lesions and devices do."""
    axes = [torch.linspace(-1, 1, n) for n in x.shape[2:]]
    for _ in range(1 + int(torch.randint(REGIONS, (), generator=draw))):
        radius = 0.1 + 0.3 * _uniform(draw)
        off = [a / radius - (_uniform(draw) * 2 - 1) * 0.8 / radius for a in axes]
        reach = sum(a.square() for a in torch.meshgrid(*off, indexing="ij")).sqrt()  # type: ignore[union-attr]
        cover = (strength * torch.sigmoid((1 - reach) / SOFT)).to(x)
        x = x + cover * (_uniform(draw) - x)
    return x


KINDS: dict[str, Shift] = {
    "gamma": _gamma,
    "contrast": _contrast,
    "blur": _blur,
    "noise": _noise,
    "bias field": _bias_field,
    "clipping": _clipping,
    "resolution": _resolution,
    "opacity": _opacity,
}


def shifted(
    image: Tensor, mask: Tensor, seed: int, severe: bool = False
) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """An image ``(C, *S)`` and its mask ``(F, *S)`` shifted, and the kinds of shifts it has.

    A severe shift hides a part of the anatomy besides, so that models that withstand all else fail
    too: without bad masks nothing can be learnt of how they look.
    """
    draw = Generator().manual_seed(seed)
    low, high = image.amin(), image.amax()
    values = _stretched(image[None])
    count = 1 + int(torch.randint(MOST, (), generator=draw))
    kinds = [list(KINDS)[i] for i in torch.randperm(len(KINDS), generator=draw)[:count].tolist()]
    least = HARD if severe else 0.0
    for kind in [*kinds, *[HIDING] * severe]:
        strength = least + (1 - least) * _uniform(draw)
        values = _stretched(KINDS[kind](values, strength, draw))
    if _uniform(draw) < FRAMED:
        values, mask = framed(values, mask[None].to(values), draw)
        values, mask = _stretched(values), mask[0] > 0.5
    return low + values[0] * (high - low), mask > 0, tuple(kinds)


def framed(images: Tensor, masks: Tensor, draw: Generator) -> tuple[Tensor, Tensor]:
    """Images and masks ``(N, C, *S)``, each turned, scaled and moved a little, both alike."""
    count, rank = len(images), images.dim() - 2
    place = torch.zeros(count, rank, rank + 1)
    turn = (torch.rand(count, generator=draw) * 2 - 1) * 0.12
    scale = torch.exp((torch.rand(count, generator=draw) * 2 - 1) * 0.15)
    for axis in range(rank):
        place[:, axis, axis] = scale
    place[:, 0, 0], place[:, 1, 1] = scale * turn.cos(), scale * turn.cos()
    place[:, 0, 1], place[:, 1, 0] = -scale * turn.sin(), scale * turn.sin()
    place[:, :, -1] = (torch.rand(count, rank, generator=draw) * 2 - 1) * 0.1
    grid = F.affine_grid(place, [count, 1, *images.shape[2:]], align_corners=False)
    moved = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
    return moved, F.grid_sample(masks, grid, align_corners=False)


def _stretched(x: Tensor) -> Tensor:
    low, high = x.amin(), x.amax()
    return (x - low) / (high - low).clamp(min=1e-6)
