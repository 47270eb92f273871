"""Phantoms: anatomy-like images drawn by a procedure, with exact masks, seen by different sites.

A scene is a body with fat, a spine, organs and a lesion-free target organ. A site is a scanner: it
bends intensities, adds a bias field, blur and noise. The same scene can be had from every site.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sitta.data.images import Geometry, Image, write_map, write_mask
from sitta.data.resample import resize
from sitta.errors import InvalidSetting

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Site:
    """A scanner: how it renders a scene."""

    about: str  # one line for people
    gamma: float = 1.0  # exponent of the intensities
    contrast: float = 1.0  # factor between tissues, about their middle; below 0 it inverts them
    bias: float = 0.05  # strength of a slow multiplicative field
    noise: float = 0.02  # standard deviation
    blur: float = 0.004  # standard deviation, as a share of the image's side
    resolution: float = 1.0  # share of the pixels that are really resolved along a side


SITES: dict[str, Site] = {
    "alder": Site("the reference scanner"),
    "birch": Site("dark: a high gamma", gamma=2.2),
    "cedar": Site("bright: a low gamma", gamma=0.45),
    "elm": Site("weak contrast between tissues", contrast=0.45, noise=0.03),
    "fir": Site("a strong bias field", bias=0.45),
    "hazel": Site("noisy", noise=0.12),
    "larch": Site("blurred", blur=0.02),
    "maple": Site("low resolution", resolution=0.25, noise=0.03),
    "rowan": Site("old: dark, noisy, uneven", gamma=1.6, bias=0.3, noise=0.07, blur=0.01),
}


def draw(
    site: str = "alder", index: int = 0, size: Sequence[int] = (128, 128), seed: int = 0
) -> tuple[Tensor, Tensor]:
    """One image and its mask.

    Args:
        site: One of ``SITES``.
        index: Number of the scene; the same for every site.
        size: Two sides for an image, three for a volume.
        seed: Another seed, another set of scenes.

    Returns:
        Image ``(1, *size)``, float32 in [0, 1], and mask ``(*size)``, 0 or 1.

    Example:
        >>> image, mask = draw("birch", index=3, size=(64, 64))
        >>> image.shape, mask.shape, mask.unique().tolist()
        (torch.Size([1, 64, 64]), torch.Size([64, 64]), [0, 1])
    """
    import torch  # here, so that files of phantoms are written without it

    image, mask = _drawn(site, index, size, seed)
    return torch.from_numpy(image)[None], torch.from_numpy(mask)


def batch(
    site: str, count: int, size: Sequence[int] = (128, 128), seed: int = 0, start: int = 0
) -> tuple[Tensor, Tensor]:
    """Images ``(count, 1, *size)`` and masks ``(count, *size)`` of scenes from ``start`` on."""
    import torch

    images, masks = zip(*(draw(site, start + i, size, seed) for i in range(count)), strict=True)
    return torch.stack(images), torch.stack(masks)


def write(
    root: str | Path, site: str, count: int, size: Sequence[int] = (128, 128), seed: int = 0
) -> None:
    """Write images and masks of a site to ``root/phantom/<site>``: PNG, or NIfTI for volumes."""
    folder = Path(root) / "phantom" / site
    suffix, name = (".png" if len(size) == 2 else ".nii.gz"), "scene-{:04d}{}".format
    for index in range(count):
        image, mask = _drawn(site, index, size, seed)
        like = Image(image[None], Geometry(tuple(size)), "phantom", folder)
        write_map(image, folder / "images" / name(index, suffix), like)
        write_mask(mask, folder / "masks" / name(index, suffix), like)


def _drawn(
    site: str, index: int, size: Sequence[int], seed: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Image and mask ``(*size)``."""
    if site not in SITES:
        raise InvalidSetting("There is no such site.", allowed=", ".join(SITES), got=repr(site))
    if len(size) not in (2, 3) or min(size) < 8:
        raise InvalidSetting("size is out of range.", allowed="2 or 3 sides >= 8", got=str(size))
    scene, mask = _scene(np.random.default_rng([seed, index]), tuple(size))
    chance = np.random.default_rng([seed, index, 1 + list(SITES).index(site)])
    seen = _scan(SITES[site], scene, chance)
    image = (seen - seen.min()) / max(float(np.ptp(seen)), 1e-12)
    return image.astype(np.float32), mask.astype(np.int64)


def _scene(chance: np.random.Generator, size: tuple[int, ...]) -> tuple[Array, NDArray[np.bool_]]:
    """Tissue intensities in [0, 1] and where the target organ is."""
    axes = [np.linspace(-1, 1, n) for n in size]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"))  # (dims, *S)
    tissue = 1 + 0.10 * _smooth(chance, size, 0.05) + 0.05 * _smooth(chance, size, 0.012)
    body = 0.78 + 0.1 * chance.random(len(size))
    scene = np.full(size, 0.03)
    middle = np.zeros(len(size))
    scene[_inside(grid, chance, middle, body)] = 0.80  # fat
    scene[_inside(grid, chance, middle, body - 0.09)] = 0.45  # muscle
    for _ in range(chance.integers(3, 6)):
        where = chance.uniform(-0.42, 0.42, len(size))
        organ = _inside(grid, chance, where, chance.uniform(0.1, 0.2, len(size)))
        scene[organ] = chance.choice([0.26, 0.36, 0.72]) + 0.03 * chance.standard_normal()
    spine = np.zeros(len(size))
    spine[-2] = 0.52
    scene[_inside(grid, chance, spine, np.full(len(size), 0.13))] = 0.95
    centre = chance.uniform(-0.12, 0.12, len(size))
    centre[-1] -= 0.22
    target = _inside(grid, chance, centre, chance.uniform(0.22, 0.34, len(size)), wobble=0.14)
    scene[target] = 0.58 + 0.02 * chance.standard_normal()
    scene[_inside(grid, chance, centre, np.full(len(size), 0.05))] = 0.68  # a vessel inside it
    return np.clip(scene * tissue, 0, 1), target


def _inside(
    grid: Array, chance: np.random.Generator, centre: Array, radii: Array, wobble: float = 0.05
) -> NDArray[np.bool_]:
    """Points inside an ellipsoid with an uneven surface."""
    spread = (-1, *[1] * (len(grid)))
    away = (grid - centre.reshape(spread)) / radii.reshape(spread)  # (dims, *S)
    angle = np.arctan2(away[-2], away[-1])
    surface = np.ones_like(angle)
    for order in (2, 3, 5):
        surface += wobble / order * np.sin(order * angle + chance.uniform(0, 2 * np.pi))
    return np.asarray((away**2).sum(axis=0) < surface**2)


def _scan(site: Site, scene: Array, chance: np.random.Generator) -> Array:
    """The image of a scene by a site."""
    field = np.exp(site.bias * _smooth(chance, scene.shape, 0.25))
    seen = np.clip(0.5 + site.contrast * (scene - 0.5), 0, 1) ** site.gamma * field
    seen = _blurred(seen, site.blur)
    if site.resolution < 1:
        seen = _coarse(seen, site.resolution)
    noise = np.hypot(*(site.noise * chance.standard_normal((2, *scene.shape))))  # magnitude noise
    return np.asarray(np.hypot(seen, noise) if site.noise else seen)


def _blurred(values: Array, sigma: float) -> Array:
    """Gaussian blur, sigma as a share of the side; the image is taken as periodic."""
    frequencies = np.meshgrid(*[np.fft.fftfreq(n) * n for n in values.shape], indexing="ij")
    gain = np.exp(-2 * (np.pi * sigma) ** 2 * sum(f**2 for f in frequencies))
    return np.asarray(np.fft.ifftn(np.fft.fftn(values) * gain).real)


def _smooth(chance: np.random.Generator, size: tuple[int, ...], sigma: float) -> Array:
    """A smooth random field of mean 0 and standard deviation 1."""
    field = _blurred(chance.standard_normal(size), sigma)
    return np.asarray((field - field.mean()) / field.std())


def _coarse(values: Array, share: float) -> Array:
    """Averaged down to a share of the pixels along each side, and interpolated back."""
    low = values
    for axis, n in enumerate(values.shape):
        small = max(2, round(n * share))
        starts = np.arange(small) * n // small
        ends = -(-np.arange(1, small + 1) * n // small)  # neighbours share a pixel that both cut
        means = [low.take(range(a, b), axis).mean(axis) for a, b in zip(starts, ends, strict=True)]
        low = np.stack(means, axis)
    return np.asarray(resize(low[None, None], values.shape)[0, 0])
