"""Views: exact inverses, seeded by the image, in the image's range."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sitta.core import views as operations
from sitta.core.views import Turn, augmix, draw_turn, generator, jitter, views

SHAPES = [(1, 8, 8), (3, 8, 6), (1, 5, 6, 6), (2, 4, 4, 4), (1, 3, 4, 5)]


@given(st.sampled_from(SHAPES), st.integers(0, 10**6))
def test_turns_are_undone_exactly_and_keep_the_shape(shape, seed):
    x = torch.rand(shape)
    turn = draw_turn(x, torch.Generator().manual_seed(seed))
    assert turn(x).shape == x.shape
    assert torch.equal(turn.undo(turn(x)), x)


def test_every_turn_of_a_square_is_drawn():
    x = torch.arange(9.0).view(1, 3, 3)
    chance = torch.Generator().manual_seed(0)
    found = {tuple(draw_turn(x, chance)(x).flatten().tolist()) for _ in range(200)}
    assert len(found) == 8  # the whole symmetry group of the square


def test_a_cube_is_turned_in_every_plane():
    x = torch.rand(1, 4, 4, 4)
    chance = torch.Generator().manual_seed(0)
    assert {draw_turn(x, chance).plane for _ in range(60)} == {(-3, -2), (-3, -1), (-2, -1)}
    flat = torch.rand(1, 3, 4, 4)
    assert {draw_turn(flat, chance).plane for _ in range(30)} == {(-2, -1)}


@pytest.mark.parametrize("recolour", [jitter, augmix])
@pytest.mark.parametrize("shape", SHAPES)
def test_views(recolour, shape):
    image = torch.rand(shape) * 300 - 100  # no assumption on the range
    found = views(image, 6, generator(image, 0), recolour)
    assert found.images.shape == (6, *shape)
    assert torch.equal(found.images[0], image)
    assert found.turns[0] == Turn()
    assert found.images.isfinite().all()
    spread = image.max() - image.min()
    assert found.images.min() > image.min() - spread
    assert found.images.max() < image.max() + spread
    back = found.undo(found.images)
    assert all(not torch.allclose(v, image, atol=1e-3) for v in back[1:])
    for v in back[1:]:  # recoloured, not moved: still correlated with the image, pixel by pixel
        a, b = v.flatten() - v.mean(), image.flatten() - image.mean()
        assert (a @ b) / (a.norm() * b.norm()) > 0.3


@pytest.mark.parametrize("recolour", [jitter, augmix])
def test_seeded_by_content_and_seed(recolour):
    image = torch.rand(1, 8, 8)

    def draw(x, seed):
        return views(x, 4, generator(x, seed), recolour).images

    assert torch.equal(draw(image, 0), draw(image.clone(), 0))
    assert not torch.equal(draw(image, 0), draw(image, 1))
    assert not torch.allclose(draw(image, 0)[1:], draw(image + 1e-6, 0)[1:], atol=1e-3)
    state = torch.random.get_rng_state()
    draw(image, 0)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("recolour", [jitter, augmix])
def test_constant_image(recolour):
    image = torch.full((1, 8, 8), 3.0)
    found = views(image, 4, generator(image, 0), recolour).images
    torch.testing.assert_close(found, image.expand(4, 1, 8, 8))


def test_effects():
    u = torch.linspace(0, 1, 64).view(1, 8, 8)
    torch.testing.assert_close(operations.gamma(u, 2.0), u**2)
    torch.testing.assert_close(operations.contrast(u, 0.5).std(), u.std() / 2)
    torch.testing.assert_close(operations.autocontrast(u * 0.3 + 0.2, 1.0), u)
    torch.testing.assert_close(operations.solarize(u, 1.0)[u >= 0.9], 1 - u[u >= 0.9])
    assert torch.equal(operations.solarize(u, 1.0)[u < 0.9], u[u < 0.9])
    assert len(operations.posterize(u, 1.0).unique()) == 16
    flat = operations.equalize(u**3, 1.0)
    torch.testing.assert_close(flat.sort().values, flat)  # order is kept
    assert (flat - u).abs().max() < 0.3
    assert (u**3 - u).abs().max() > 0.3


@pytest.mark.parametrize("shape", SHAPES)
def test_blur_keeps_the_mean_of_a_constant_and_equals_a_loop(shape):
    u = torch.rand(shape, dtype=torch.float64)
    torch.testing.assert_close(operations.blur(torch.ones_like(u), 0.8), torch.ones_like(u))
    found = operations.blur(u, 0.7)
    at = torch.arange(-2, 3, dtype=torch.float64)
    kernel = torch.exp(-0.5 * (at / 0.7) ** 2)
    kernel /= kernel.sum()
    expected = u
    for axis in range(1, u.dim()):
        n = u.shape[axis]
        rows = [
            sum(kernel[j] * expected.select(axis, min(max(i + j - 2, 0), n - 1)) for j in range(5))
            for i in range(n)
        ]
        expected = torch.stack(rows, axis)
    torch.testing.assert_close(found, expected)
