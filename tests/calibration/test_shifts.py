"""Synthetic shifts: the same from the same seed, in the range of the image, masks along."""

import pytest
import torch

from sitta.calibration.shifts import KINDS, framed, shifted
from sitta.data import phantom


def scene(low=0.0, high=1.0):
    image, mask = phantom.draw("alder", size=(32, 32))
    image = (image - image.min()) / (image.max() - image.min())
    return low + image * (high - low), mask[None] > 0


@pytest.mark.parametrize("span", [(0.0, 1.0), (-1000.0, 400.0), (-2.5, 3.1)])
def test_an_image_keeps_its_range_and_shape(span):
    image, mask = scene(*span)
    for seed in range(30):
        one, moved, kinds = shifted(image, mask, seed)
        assert one.shape == image.shape
        assert moved.shape == mask.shape
        assert moved.dtype == torch.bool
        assert 1 <= len(kinds) <= 3
        assert set(kinds) <= set(KINDS)
        assert one.isfinite().all()
        torch.testing.assert_close(one.amin(), image.amin(), atol=1e-2, rtol=1e-5)
        torch.testing.assert_close(one.amax(), image.amax(), atol=1e-2, rtol=1e-5)


def test_a_seed_decides_all_and_the_global_generator_is_left_alone():
    image, mask = scene()
    state = torch.get_rng_state()
    one, other, third = shifted(image, mask, 5), shifted(image, mask, 5), shifted(image, mask, 6)
    assert torch.equal(one[0], other[0])
    assert torch.equal(one[1], other[1])
    assert one[2] == other[2]
    assert not torch.equal(one[0], third[0])
    assert torch.equal(torch.get_rng_state(), state)


def test_every_kind_occurs_and_changes_the_image():
    image, mask = scene()
    seen = {kind for seed in range(60) for kind in shifted(image, mask, seed)[2]}
    assert seen == set(KINDS)
    for name, shift in KINDS.items():
        draw = torch.Generator().manual_seed(1)
        changed = shift(image[None].clone(), 0.8, draw)
        assert (changed - image).abs().max() > 0.05, name


def test_masks_move_along_with_their_images():
    """A mask as its own image: after the move both are still the same."""
    mask = scene()[1][None].float()
    draw = torch.Generator().manual_seed(0)
    for _ in range(5):
        image, moved = framed(mask, mask, draw)
        torch.testing.assert_close(image, moved, atol=1e-5, rtol=0)
        assert not torch.equal(moved > 0.5, mask > 0.5)


@pytest.mark.parametrize("shape", [(1, 12, 12, 12), (3, 20, 16)])
def test_volumes_and_colours(shape):
    image = torch.rand(shape)
    mask = torch.zeros(2, *shape[1:], dtype=torch.bool)
    mask[0, 4:8, 4:8] = True
    for seed in range(6):
        one, moved, _ = shifted(image, mask, seed)
        assert one.shape == image.shape
        assert one.isfinite().all()
        assert not moved[1].any()


def test_severe_shifts_hide_a_part_and_are_stronger():
    images = image, _ = scene()
    plain = [shifted(*images, seed)[0] for seed in range(20)]
    severe = [shifted(*images, seed, severe=True)[0] for seed in range(20)]
    moved = (
        [float((x - image).abs().mean()) for x in plain],
        [float((x - image).abs().mean()) for x in severe],
    )
    assert sum(moved[1]) > 1.15 * sum(moved[0])


def test_opacity_hides_a_region_and_leaves_the_rest():
    image = torch.rand(1, 2, 40, 40, generator=torch.Generator().manual_seed(0))
    hidden = KINDS["opacity"](image, 1.0, torch.Generator().manual_seed(1))
    change = (hidden - image).abs().amax(dim=1)[0]
    assert (change > 0.05).float().mean() > 0.02
    assert (change < 0.05).float().mean() > 0.2
    assert torch.equal(KINDS["opacity"](image, 0.0, torch.Generator().manual_seed(1)), image)
    volume = KINDS["opacity"](torch.zeros(1, 1, 8, 16, 16), 1.0, torch.Generator().manual_seed(2))
    assert volume.max() > 0
