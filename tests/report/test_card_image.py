"""Pictures: outlines that give the mask back exactly, and thumbnails that are small and right."""

import base64
import io
import itertools
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from sitta.report.card_image import LEVELS, card_image, nearest, outline
from tests.report.sample import disc


def filled(path, shape):
    """Pixels inside a path of M, h, v and z, by the even-odd rule along each row."""
    crossings = np.zeros((shape[0], shape[1] + 1), dtype=int)

    def cross(x, y, to):
        crossings[min(y, to) : max(y, to), x] += 1

    for loop in re.findall(r"M[^Mz]*z", path):
        x, y = start = tuple(map(int, re.match(r"M(\d+) (\d+)", loop).groups()))
        for sign, length in re.findall(r"([hv])(-?\d+)", loop):
            if sign == "v":
                cross(x, y, y + int(length))
            x, y = (x + int(length), y) if sign == "h" else (x, y + int(length))
        assert x == start[0]  # z closes along the column
        cross(x, y, start[1])
    return crossings.cumsum(axis=1)[:, :-1] % 2


def decoded(uri):
    kind, data = uri.split(";base64,")
    assert kind.startswith("data:image/")
    return Image.open(io.BytesIO(base64.b64decode(data)))


@given(
    arrays.arrays(
        np.int64,
        arrays.array_shapes(min_dims=2, max_dims=2, max_side=12),
        elements=st.integers(0, 3),
    )
)
def test_the_outline_gives_the_mask_back(classes):
    path = outline(classes)
    assert re.fullmatch(r"(M\d+ \d+(h-?\d+v-?\d+)+h-?\d+z)*", path)
    np.testing.assert_array_equal(filled(path, classes.shape), classes > 0)


def test_every_small_mask():
    for bits in itertools.product([0, 1], repeat=9):
        mask = np.reshape(bits, (3, 3))
        np.testing.assert_array_equal(filled(outline(mask), (3, 3)), mask)


def test_simple_outlines():
    assert outline(np.zeros((4, 4), dtype=int)) == ""
    assert outline(np.eye(1, dtype=int)) == "M0 0h1v1h-1z"
    assert outline(np.array([[0, 1, 1], [0, 0, 1]])) == "M1 0h2v2h-1v-1h-1z"
    assert outline(np.ones((2, 3), dtype=int)) == "M0 0h3v2h-3z"
    ring = np.pad(np.zeros((1, 1), dtype=int), 1, constant_values=1)
    assert outline(ring).count("M") == 2


def test_two_classes_show_the_border_between_them():
    assert outline(np.array([[1, 2]])) == "M0 0h1v1h-1zM1 0h1v1h-1z"


def test_a_rough_outline_is_drawn_coarser():
    mask = np.random.default_rng(0).integers(0, 2, (97, 130))
    path = outline(mask, most=500)
    assert path.count("h") + path.count("v") <= 500
    assert 0 <= filled(path, mask.shape).mean() <= 1
    np.testing.assert_array_equal(filled(outline(mask, most=10**6), mask.shape), mask)
    assert outline(np.ones((1, 50), dtype=int) * (np.arange(50) % 2), most=4)


@pytest.mark.parametrize("shape", [(256, 256), (700, 300), (60, 500), (1, 400), (33, 20), (1, 1)])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_round_trip(shape, channels):
    chance = np.random.default_rng(0)
    mask = disc(shape, radius=0.4)
    members = np.stack([mask, 1 - mask])
    image = 1000 * chance.standard_normal((channels, *shape))
    shown = card_image(image, mask, mask, members, chance.random(shape))
    json.dumps(shown, allow_nan=False)
    small = (shown["height"], shown["width"])
    assert max(small) == min(256, max(shape))
    assert small[0] / small[1] == pytest.approx(shape[0] / shape[1], rel=0.05, abs=0.01)
    for name in ("image", "uncertainty"):
        assert decoded(shown[name]).size == (shown["width"], shown["height"])
    for path, wanted in zip(
        [shown["source"], shown["mask"], *shown["members"]], [mask, mask, *members], strict=True
    ):
        np.testing.assert_array_equal(filled(path, small), nearest(wanted, small))


def test_colours_stay():
    image = np.zeros((3, 40, 40))
    image[0, :, :20], image[2, :, 20:] = 1, 1
    flat = disc((40, 40))
    pixels = np.asarray(
        decoded(card_image(image, None, flat, [flat], 0.0 * flat)["image"]).convert("RGB")
    )
    np.testing.assert_allclose(pixels[20, 5], [255, 0, 0], atol=30)
    np.testing.assert_allclose(pixels[20, 35], [0, 0, 255], atol=30)


def test_the_heat_map_is_magma():
    import matplotlib

    empty, bits = np.zeros((4, 64), dtype=int), np.tile(np.linspace(0, 1, 64), (4, 1))
    shown = card_image(empty[None], None, empty, [], bits)
    pixels = np.asarray(decoded(shown["uncertainty"]).convert("RGB"))
    wanted = matplotlib.colormaps["magma"](np.linspace(0, 1, LEVELS), bytes=True)[:, :3]
    np.testing.assert_array_equal(pixels[0], wanted)
    assert shown["source"] is None
    assert shown["mask"] == ""


@pytest.mark.parametrize("value", [0.0, -3.5, np.nan, np.inf, 1e38])
def test_constant_images(value):
    image, empty = np.full((1, 20, 20), value), np.zeros((20, 20), dtype=int)
    shown = card_image(image, empty, empty, [empty], np.full((20, 20), np.nan))
    assert np.ptp(np.asarray(decoded(shown["image"]).convert("L"))) == 0
    assert shown["members"] == [""]


def test_outliers_and_holes_do_not_blacken_the_image():
    image = np.random.default_rng(0).random((1, 64, 64))
    image[0, 0, 0], image[0, 1, 1], image[0, 2, 2] = 1e6, np.nan, -np.inf
    flat = disc((64, 64))
    pixels = np.asarray(
        decoded(card_image(image, None, flat, [], 0.0 * flat)["image"]).convert("L")
    )
    assert 90 < pixels.mean() < 165
    sparse = np.zeros((1, 64, 64))
    sparse[0, 30, 30] = 5
    pixels = np.asarray(
        decoded(card_image(sparse, None, flat, [], 0.0 * flat)["image"]).convert("L")
    )
    assert pixels.max() > 128


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_a_thumbnail_is_small(noise):
    mask = disc((512, 512))
    image = mask + noise * np.random.default_rng(0).standard_normal((1, 512, 512))
    shown = card_image(image, mask, mask, [mask] * 6, np.abs(mask - 0.3))
    assert len(shown["image"]) <= 24_000
    assert len(json.dumps(shown)) <= 40_000
