"""The shape prior: alignment, torch against NumPy, and what it takes for plausible."""

import numpy as np
import pytest
import torch

from sitta.core.prior import GRIDS, REACH, ShapePrior, aligned


def blob(sides, centre, radii):
    """A smooth ellipse, 1 inside and 0 outside, with an edge of about a pixel."""
    axes = np.meshgrid(*(np.arange(n) + 0.5 for n in sides), indexing="ij")
    far = sum(((a - c) / r) ** 2 for a, c, r in zip(axes, centre, radii, strict=True))
    return np.clip((1 - np.sqrt(far)) * min(radii) + 0.5, 0, 1).astype(np.float32)


def discs(sides=(48, 48), count=6):
    return np.stack([blob(sides, [n / 2 for n in sides], [9 + i, 6 + i]) for i in range(count)])


def by_hand(image, grid, size):
    """Aligned by sampling each cell at 16 x 16 points; no code in common."""
    sides = image.shape
    inside = np.where(image > 0.5, image, 0)
    axes = np.meshgrid(*(np.arange(n) + 0.5 for n in sides), indexing="ij")
    centre = [(a * inside).sum() / inside.sum() for a in axes]
    variances = [
        (np.square(a - c) * inside).sum() / inside.sum() + 1 / 12
        for a, c in zip(axes, centre, strict=True)
    ]
    usual = size * np.sqrt(np.prod(sides))
    half = REACH * np.clip(np.sqrt(np.mean(variances)), 0.7 * usual, 1.43 * usual)
    fine = (np.arange(16) + 0.5) / 16
    places = [
        np.floor(c - half + 2 * half * (np.arange(g)[:, None] + fine).ravel() / g).astype(int)
        for c, g in zip(centre, grid, strict=True)
    ]
    rows, columns = np.meshgrid(*places, indexing="ij")
    known = (rows >= 0) & (rows < sides[0]) & (columns >= 0) & (columns < sides[1])
    values = np.where(known, image[rows.clip(0, sides[0] - 1), columns.clip(0, sides[1] - 1)], 0)
    return values.reshape(grid[0], 16, grid[1], 16).mean(axis=(1, 3))


@pytest.mark.parametrize("sides", [(48, 48), (40, 64), (97, 33)])
def test_alignment_against_sampling_by_hand(sides):
    image = blob(sides, (sides[0] * 0.4, sides[1] * 0.5), (11, 7))
    found = aligned(image[None], (32, 32), 0.1)[0]
    assert np.abs(found - by_hand(image, (32, 32), 0.1)).mean() < 4e-3


@pytest.mark.parametrize("move", [(5, 0), (0, -8), (-7, 9)])
def test_moving_a_mask_changes_nothing(move):
    here = blob((64, 64), (32, 32), (12, 8))[None]
    there = np.roll(here, move, (1, 2))
    np.testing.assert_allclose(
        aligned(here, (32, 32), 0.15), aligned(there, (32, 32), 0.15), atol=1e-5
    )


def test_scale_does_not_matter_within_limits():
    size = 0.15
    usual = aligned(blob((96, 96), (48, 48), (28, 20))[None], (32, 32), size)
    near = aligned(blob((96, 96), (48, 48), (23.3, 16.7))[None], (32, 32), size)
    far = aligned(blob((96, 96), (48, 48), (9.3, 6.7))[None], (32, 32), size)
    assert np.abs(usual - near).mean() < 0.01
    assert np.abs(usual - far).mean() > 0.1  # a third of the usual size is another shape


def test_the_size_of_the_image_does_not_matter():
    small = blob((48, 48), (20, 26), (12, 8))
    large = np.kron(small, np.ones((3, 3), np.float32))
    one, other = (aligned(image[None], (32, 32), 0.15) for image in (small, large))
    np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("sides", [(48, 48), (21, 50), (14, 12, 13)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torch_equals_numpy(sides, dtype):
    rng = np.random.default_rng(0)
    masks = rng.random((5, *[16] * len(sides))) > 0.5
    prior = ShapePrior.fit(masks, masks, components=3)
    maps = torch.from_numpy(rng.random((4, *sides))).to(dtype)
    found = prior.plausibility(maps)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.numpy(), prior.plausibility(maps.numpy()), atol=1e-5)


@pytest.mark.parametrize("dims", [2, 3])
def test_training_masks_are_reconstructed_when_components_suffice(dims):
    masks = (
        discs() > 0.5
        if dims == 2
        else np.stack([blob((20, 22, 18), (10, 11, 9), (5 + i, 4, 6)) for i in range(4)]) > 0.5
    )
    prior = ShapePrior.fit(masks, masks, components=len(masks))
    assert prior.grid == GRIDS[dims]
    np.testing.assert_allclose(prior.plausibility(masks.astype(np.float32)), 1, atol=1e-5)
    fewer = ShapePrior.fit(masks, masks, components=1)
    assert fewer.plausibility(masks.astype(np.float32)).min() < 1 - 1e-4


def test_components_are_those_of_the_covariance():
    masks = discs() > 0.5
    prior = ShapePrior.fit(masks, masks, components=2)
    cells = aligned(masks.astype(np.float32), prior.grid, prior.size).reshape(len(masks), -1)
    values, vectors = np.linalg.eigh(np.cov(cells.T))
    for mine, theirs in zip(prior.components, vectors.T[::-1], strict=False):
        assert abs(mine @ theirs) == pytest.approx(1, abs=1e-3)
    assert values[-1] > 0


def test_other_shapes_are_less_plausible():
    masks = discs() > 0.5
    prior = ShapePrior.fit(masks, masks, components=4)
    disc = blob((48, 48), (20, 26), (11, 8))
    two = np.maximum(blob((48, 48), (10, 10), (5, 5)), blob((48, 48), (38, 38), (5, 5)))
    bar = blob((48, 48), (24, 24), (23, 2))
    scores = prior.plausibility(np.stack([disc, two, bar]))
    assert scores[0] > 0.95
    assert scores[1:].max() < 0.85


def test_what_finds_nothing_has_no_shape():
    masks = discs() > 0.5
    prior = ShapePrior.fit(masks, masks)
    nothing = np.stack([np.zeros((48, 48)), np.full((48, 48), 0.5)]).astype(np.float32)
    assert prior.plausibility(nothing).max() < 0.2
    assert np.isfinite(prior.plausibility(nothing)).all()
