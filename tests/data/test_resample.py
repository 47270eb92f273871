"""Resizing against a slow re-derivation, torch and Pillow; cropping against its own inverse."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow
from torch.nn import functional as F

from sitta.data.resample import crop, overlaps, resize, resize_mask, tents

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
    found = resize_mask(mask[None].astype(np.int64), (new_h, new_w))[0]
    share = slow_area(mask.astype(float), (new_h, new_w))
    assert np.array_equal(found > 0, share >= 0.5 - 1e-9)


def test_of_several_classes_the_largest_area_wins():
    labels = np.array([[[0, 0, 1, 2], [0, 1, 2, 2]]])
    assert resize_mask(labels, (1, 2), classes=3).tolist() == [[[0, 2]]]


def test_a_volume_mask_is_resized_along_all_sides():
    labels = np.zeros((1, 4, 4, 4), dtype=np.int64)
    labels[0, :2, :2, 2:] = 1
    assert np.argwhere(resize_mask(labels, (2, 2, 2))[0]).tolist() == [[0, 0, 1]]


@given(SIDES, SIDES)
def test_every_new_pixel_is_covered_once(old, new):
    found = overlaps(old, new)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(found.sum(axis=0), new / old)
    np.testing.assert_allclose(tents(old, new).sum(axis=1), 1)


def test_the_same_size_is_bit_for_bit():
    image = np.random.default_rng(0).random((1, 3, 9, 7))
    assert resize(image, (9, 7)) is image
    labels = np.ones((1, 9, 7), dtype=np.int64)
    assert resize_mask(labels, (9, 7)) is labels


@given(SIDES, SIDES, SIDES, SIDES, st.integers(0, 10**6))
def test_pillow_agrees_on_images(h, w, new_h, new_w, seed):
    image = np.random.default_rng(seed).random((h, w)).astype(np.float32)
    drawn = Pillow.fromarray(image).resize((new_w, new_h), Pillow.Resampling.BILINEAR)
    ours = resize(image[None, None], (new_h, new_w))[0, 0]
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, np.asarray(drawn), atol=2e-6)


def torch_resize(values, size):
    """By torch, which antialiases images alone: one side of a volume at a time."""
    found = torch.from_numpy(values)
    for axis, new in enumerate(size, start=2):
        lines = found.movedim(axis, -1)
        flat = lines.reshape(1, 1, -1, lines.shape[-1]).repeat(1, 1, 2, 1)  # torch wants rows
        sized = F.interpolate(flat, (flat.shape[2], new), mode="bilinear", antialias=True)
        half = sized[0, 0, : flat.shape[2] // 2]
        found = half.reshape(*lines.shape[:-1], new).movedim(-1, axis)
    return found.numpy()


SIZES = [((300, 411), (64, 40)), ((40, 64), (411, 300)), ((517, 33), (97, 130)), ((90, 1), (7, 5))]
SIZES += [((40, 51), (1, 1)), ((19, 60, 45), (33, 17, 45)), ((3, 100, 5), (1, 200, 1))]


@pytest.mark.parametrize(("old", "new"), SIZES)
def test_torch_agrees_on_images_and_volumes_of_many_blocks(old, new):
    values = np.random.default_rng(0).random((2, 3, *old)).astype(np.float32)
    np.testing.assert_allclose(resize(values, new), torch_resize(values, new), atol=1e-5)
    if len(old) == 2 and 1 not in (*old, *new):  # torch 2.13 repeats a row if a side becomes 1
        whole = F.interpolate(torch.from_numpy(values), new, mode="bilinear", antialias=True)
        np.testing.assert_allclose(resize(values, new), whole.numpy(), atol=1e-5)


def test_a_volume_is_antialiased_along_each_side():
    ramp = np.linspace(0, 1, 16).reshape(1, 1, 16, 1, 1)
    small = resize(np.broadcast_to(ramp, (1, 1, 16, 12, 8)), (4, 3, 2))
    assert small.shape == (1, 1, 4, 3, 2)
    flat = resize(ramp[..., 0], (4, 1))
    np.testing.assert_allclose(small[0, 0, :, 0, 0], flat[0, 0, :, 0])
    checks = np.zeros((1, 1, 8, 8, 8))
    checks[..., ::2] = 1  # one pixel wide: without antialiasing this would alias to 0 or 1
    assert np.abs(resize(checks, (8, 8, 2)) - 0.5).max() < 0.1


@given(st.lists(SIDES, min_size=2, max_size=3), st.data())
def test_cropping_is_undone_exactly_where_both_overlap(old, data):
    new = [data.draw(SIDES) for _ in old]
    values = np.random.default_rng(0).random((2, *old))
    back = crop(crop(values, new), old)
    there = crop(crop(np.ones((2, *old)), new), old) > 0
    assert np.array_equal(back[there], values[there])
    assert not back[~there].any()
    assert int(there[0].sum()) == int(np.prod(np.minimum(old, new)))


def test_a_crop_keeps_the_middle_and_pads_with_what_is_asked():
    row = np.arange(1.0, 6.0)[None]
    assert crop(row, (3,)).tolist() == [[2, 3, 4]]
    assert crop(row, (7,)).tolist() == [[0, 1, 2, 3, 4, 5, 0]]
    assert crop(row, (7,), fill=None).tolist() == [[1, 1, 2, 3, 4, 5, 1]]
