"""The input check on phantoms: what it stops, what it lets through, and what it says."""

import functools

import numpy as np
import pytest

from sitta.calibration.inputs import fit_inputs
from sitta.data import phantom
from sitta.errors import InvalidSetting
from sitta.prediction.input_check import SIDE, InputModel, _cells, luma, normalised, saturations
from sitta.prediction.notes import NOTES, REMEDIES


@functools.cache
def scenes(site="alder", count=24, seed=7):
    """Scenes with an anatomy above and below that are not alike: a ramp and a bright corner."""
    images = phantom.batch(site, count, (48, 48), seed=seed)[0].numpy()
    rows, columns = np.meshgrid(*[np.linspace(0, 1, images.shape[-1])] * 2, indexing="ij")
    frame = 0.5 * (rows**2 < 0.1) + 0.8 * ((rows > 0.7) & (columns > 0.75))
    return (0.6 * images + frame).astype(np.float32)


@pytest.fixture(scope="module")
def known():
    return fit_inputs(scenes(), keep_image=True)


WRONG = {
    "looks-inverted": lambda x: x.max() - x,
    "looks-rotated-left": lambda x: np.rot90(x, 1, (-2, -1)),
    "looks-upside-down": lambda x: np.rot90(x, 2, (-2, -1)),
    "looks-rotated-right": lambda x: np.rot90(x, -1, (-2, -1)),
}


@pytest.mark.parametrize("code", WRONG)
@pytest.mark.parametrize("site", ["alder", "cedar"])
def test_wrong_images_are_told_apart(known, code, site):
    images = np.stack([WRONG[code](x) for x in scenes(site, 10, seed=3)])
    found = [codes for (*codes,) in known.codes(images)]
    assert sum(codes == [code] for codes in found) >= 9, found


def test_false_alarms_are_few(known):
    alarms = sum(
        bool(codes)
        for site in ("alder", "cedar", "fir", "rowan")
        for codes in known.codes(scenes(site, 15, seed=11))
    )
    assert alarms <= 1


def test_the_remedy_of_a_note_undoes_what_it_saw(known):
    """Turning by the offered angle, or inverting, gives an image without any note."""
    for code, spoil in WRONG.items():
        settings = REMEDIES[NOTES[code].remedy]
        for image in scenes(count=4, seed=5):
            wrong = spoil(image)
            if settings.get("invert"):
                mended = wrong.max() + wrong.min() - wrong
            else:
                mended = np.rot90(wrong, -settings["rotate"] // 90, (-2, -1))
            assert known.codes(mended[None]) == [()], code
            np.testing.assert_allclose(mended - mended.min(), image - image.min(), atol=1e-5)


def test_another_world_is_unlike(known):
    noise = np.random.default_rng(0).random((10, 1, 48, 48)).astype(np.float32)
    checks = [((np.indices((48, 48)).sum(0) // n) % 2)[None] for n in (5, 9, 13)]
    found = known.codes(np.concatenate([noise, np.stack(checks)]).astype(np.float32))
    assert sum(codes != () for codes in found) >= 10


def test_brightness_contrast_and_size_do_not_matter(known):
    images = scenes(count=6, seed=2)
    for other in (0.2 * images + 0.5, images**0.7, images[..., ::2, ::2], 1000 * images - 300):
        assert known.codes(other) == [()] * 6


def test_colour_images_for_a_grey_model_and_the_other_way_round():
    rng = np.random.default_rng(0)
    grey = np.repeat(rng.random((12, 1, 32, 32)), 3, axis=1)
    colour = rng.random((12, 3, 32, 32)) * np.array([1, 0.4, 0.1])[:, None, None]
    for_grey, for_colour = (fit_inputs(x, keep_image=False) for x in (grey, colour))
    assert for_grey.codes(colour) == [("colour-image",)] * 12
    assert for_colour.codes(grey) == [("grey-image",)] * 12
    assert for_grey.codes(grey) == for_colour.codes(colour) == [()] * 12
    # Of a file whose colours became grey on the way to the model.
    one_channel = fit_inputs(grey[:, :1], keep_image=False)
    assert one_channel.codes(grey[:1, :1], 0.4) == [("colour-image",)]
    assert one_channel.codes(grey[:1, :1], 0.0) == one_channel.codes(grey[:1, :1]) == [()]


def test_saturation_is_the_range_over_channels():
    red = np.zeros((1, 3, 4, 4))
    red[:, 0] = 1
    assert saturations(red) == 1
    assert saturations(np.ones((2, 3, 4, 4))).tolist() == [0, 0]
    assert saturations(np.ones((2, 1, 4, 4))).tolist() == [0, 0]


@pytest.mark.parametrize("sides", [(16, 16), (64, 32), (37, 51), (9, 9)])
def test_cells_are_means_of_the_pixels_that_they_touch(sides):
    image = np.random.default_rng(0).random((1, *sides))
    found = _cells(_cells(image, 1), 2)[0]
    for i in range(SIDE):
        for j in range(SIDE):
            rows, columns = (
                slice(n * s // SIDE, max(-(-(n + 1) * s // SIDE), n * s // SIDE + 1))
                for n, s in zip((i, j), sides, strict=True)
            )
            assert found[i, j] == pytest.approx(image[0, rows, columns].mean())


def test_volumes_are_seen_along_their_slices():
    volume = np.random.default_rng(0).random((2, 1, 5, 32, 32))
    np.testing.assert_allclose(normalised(volume), normalised(volume.mean(axis=2)), atol=1e-5)


def test_luma_weighs_colours():
    rgb = np.stack([np.full((2, 2), v) for v in (1.0, 0.5, 0.25)])[None]
    assert luma(rgb)[0, 0, 0] == pytest.approx(0.299 + 0.587 / 2 + 0.114 / 4)


def test_it_comes_back_from_plain_values(known):
    again = InputModel.from_dict(known.as_dict())
    images = np.concatenate([scenes(count=4), np.rot90(scenes(count=4), 1, (-2, -1))])
    assert again.codes(images) == known.codes(images)
    without = fit_inputs(scenes(), keep_image=False)
    assert InputModel.from_dict(without.as_dict()).image is None


@pytest.mark.parametrize(
    "damage",
    [{"quantiles": [0, 1]}, {"saturation": [0, float("nan")]}, {"more": 1},
     {"image": {"shape": [2, 2], "float16": "ADwAPAA8ADw="}}, {"image": "x"}],
)  # fmt: skip
def test_damaged_checks_are_refused(known, damage):
    with pytest.raises(InvalidSetting):
        InputModel.from_dict({**known.as_dict(), **damage})
