"""Resizing against a slow re-derivation, and cropping against its own inverse."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from sitta.data.resample import crop, overlaps, resize, resize_mask

SIDES = st.integers(1, 17)


def slow_area(mask, size):
    """The share of each new pixel that is inside, by a fine grid that both divide."""
    fine = [a * b for a, b in zip(mask.shape, size, strict=True)]
    for axis, (old, n) in enumerate(zip(mask.shape, fine, strict=True)):
        mask = np.repeat(mask, n // old, axis=axis)
    blocks = [k for n, f in zip(size, fine, strict=True) for k in (n, f // n)]
    return mask.reshape(blocks).mean(axis=tuple(range(1, 2 * len(size), 2)))


@given(st.integers(1, 7), st.integers(1, 7), SIDES, SIDES, st.integers(0, 10**6))
def test_a_mask_is_resized_by_exact_area_and_cut_at_one_half(h, w, new_h, new_w, seed):
    mask = np.random.default_rng(seed).random((h, w)) < 0.5
    found = resize_mask(torch.from_numpy(mask[None]).long(), (new_h, new_w))[0]
    share = slow_area(mask.astype(float), (new_h, new_w))
    assert np.array_equal(found.numpy() > 0, share >= 0.5 - 1e-9)


def test_of_several_classes_the_largest_area_wins():
    labels = torch.tensor([[[0, 0, 1, 2], [0, 1, 2, 2]]])
    assert resize_mask(labels, (1, 2), classes=3).tolist() == [[[0, 2]]]


def test_a_volume_mask_is_resized_along_all_sides():
    labels = torch.zeros(1, 4, 4, 4, dtype=torch.long)
    labels[0, :2, :2, 2:] = 1
    assert resize_mask(labels, (2, 2, 2))[0].nonzero().tolist() == [[0, 0, 1]]


@given(SIDES, SIDES)
def test_every_new_pixel_is_covered_once(old, new):
    found = overlaps(old, new)
    torch.testing.assert_close(found.sum(1), torch.ones(new, dtype=torch.float64))
    torch.testing.assert_close(found.sum(0), torch.full((old,), new / old, dtype=torch.float64))


def test_the_same_size_is_bit_for_bit():
    image = torch.rand(1, 3, 9, 7)
    assert resize(image, (9, 7)) is image
    labels = torch.randint(0, 2, (1, 9, 7))
    assert resize_mask(labels, (9, 7)) is labels


@given(SIDES, SIDES, SIDES, SIDES, st.integers(0, 10**6))
def test_pillow_agrees_on_images(h, w, new_h, new_w, seed):
    image = np.random.default_rng(seed).random((h, w)).astype(np.float32)
    drawn = Pillow.fromarray(image).resize((new_w, new_h), Pillow.Resampling.BILINEAR)
    ours = resize(torch.from_numpy(image)[None, None], (new_h, new_w))[0, 0].numpy()
    np.testing.assert_allclose(ours, np.asarray(drawn), atol=2e-6)


def test_a_volume_is_antialiased_along_each_side():
    ramp = torch.linspace(0, 1, 16).view(1, 1, 16, 1, 1).expand(1, 1, 16, 12, 8)
    small = resize(ramp, (4, 3, 2))
    assert small.shape == (1, 1, 4, 3, 2)
    flat = resize(torch.linspace(0, 1, 16).view(1, 1, 16, 1), (4, 1))
    torch.testing.assert_close(small[0, 0, :, 0, 0], flat[0, 0, :, 0])
    checks = torch.zeros(1, 1, 8, 8, 8)
    checks[..., ::2] = 1  # one pixel wide: without antialiasing this would alias to 0 or 1
    assert resize(checks, (8, 8, 2)).sub(0.5).abs().max() < 0.1


@given(st.lists(SIDES, min_size=2, max_size=3), st.data())
def test_cropping_is_undone_exactly_where_both_overlap(old, data):
    new = [data.draw(SIDES) for _ in old]
    values = torch.rand(2, *old)
    back = crop(crop(values, new), old)
    there = crop(crop(torch.ones(2, *old), new), old) > 0
    assert torch.equal(back[there], values[there])
    assert not back[~there].any()
    assert int(there[0].sum()) == int(np.prod(np.minimum(old, new)))


def test_a_crop_keeps_the_middle_and_pads_with_what_is_asked():
    row = torch.arange(1.0, 6.0)[None]
    assert crop(row, (3,)).tolist() == [[2, 3, 4]]
    assert crop(row, (7,)).tolist() == [[0, 1, 2, 3, 4, 5, 0]]
    assert crop(row, (7,), fill=None).tolist() == [[1, 1, 2, 3, 4, 5, 1]]
