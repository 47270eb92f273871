"""Scales against their closed forms: the file's true values, any depth, colour, alpha, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image as Pillow

import sitta
from sitta.cli.options import Preprocessing
from sitta.data.images import read
from sitta.data.preprocess import Preprocess
from sitta.data.scaling import SCALES, like_inputs, merged
from tests.data.test_preprocess import body, picture

KEEP = {"size": None, "fit": "none"}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
FULL = {
    "percentile": {"percentiles": (1, 90)},
    "divide": {"divisor": 1000},
    "standardise": {"divisor": 1000, "mean": MEAN, "std": STD},
    "window": {"bounds": (-160, 240)},
}
values = hnp.arrays(
    np.float64,
    st.tuples(st.just(3), st.integers(1, 9), st.integers(1, 9)),
    elements=st.floats(-3000, 3000, width=32),
)


def expected(pixels, scale, percentiles=None, divisor=None, mean=None, std=None, bounds=None):
    if scale == "percentile":
        low, high = (np.quantile(pixels, p / 100) for p in percentiles)
        flat = high - low <= 1e-6 * np.ptp(pixels)
        return np.zeros_like(pixels) if flat else np.clip((pixels - low) / (high - low), 0, 1)
    if scale == "divide":
        return pixels / divisor
    if scale == "standardise":
        return np.stack([(pixels[c] / divisor - mean[c]) / std[c] for c in range(3)])
    return np.clip((pixels - bounds[0]) / (bounds[1] - bounds[0]), 0, 1)


@pytest.mark.parametrize("scale", FULL)
@given(pixels=values)
@settings(max_examples=60, deadline=None)
def test_closed_forms(scale, pixels):
    pre = Preprocess(**KEEP, channels=3, scale=scale, **FULL[scale])
    inputs = pre.apply(picture(pixels))
    wanted = expected(pixels, scale, **FULL[scale])
    atol = 1e-3 if scale == "percentile" else 1e-5  # a small spread magnifies rounding
    spread = np.ptp(np.percentile(pixels, (1, 90)))
    if scale != "percentile" or spread == 0 or spread > 1e-3 * np.ptp(pixels):
        np.testing.assert_allclose(inputs.values[0], wanted, atol=atol)
    assert inputs.inverse == Preprocess(**KEEP, channels=3).apply(picture(pixels)).inverse


@pytest.mark.parametrize("scale", FULL)
def test_resampling_sees_the_true_values_and_the_way_back_is_the_same(scale):
    _, image = body("LAS", shape=(4, 12, 10))
    how = {**FULL[scale]} | ({"mean": (0.4,), "std": (0.2,)} if scale == "standardise" else {})
    pre = Preprocess(size=(6, 5), scale=scale, **how)
    plain = Preprocess(size=(6, 5), scale="none").apply(image)
    found = pre.apply(image)
    for n, one in enumerate(plain.values.astype(float)):
        standard = scale == "standardise"
        wanted = (one / 1000 - 0.4) / 0.2 if standard else expected(one, scale, **FULL[scale])
        np.testing.assert_allclose(found.values[n], wanted, atol=2e-5)
    assert np.array_equal(found.inverse.restore(plain.values), plain.inverse.restore(plain.values))


def test_each_slice_is_scaled_by_its_own_percentiles():
    volume = np.random.default_rng(0).random((1, 3, 20, 20)) * [[[[1]], [[10]], [[100]]]]
    found = Preprocess(**KEEP, scale="percentile").apply(picture(volume)).values
    assert found.min(axis=(1, 2, 3)).tolist() == [0, 0, 0]
    assert found.max(axis=(1, 2, 3)).tolist() == [1, 1, 1]
    low, high = np.percentile(volume[0, 1], (0.5, 99.5))
    np.testing.assert_allclose(
        found[1, 0], np.clip((volume[0, 1] - low) / (high - low), 0, 1), atol=1e-5
    )
    one = np.zeros((1, 20, 20))
    one[0, 0, 0] = 5.0  # less than half a percent: no contrast between the percentiles
    assert not Preprocess(**KEEP, scale="percentile").apply(picture(one)).values.any()


def write(path, values, mode=None):
    Pillow.fromarray(values, mode).save(path)
    return read(path)


@pytest.mark.filterwarnings("ignore:.*mode.*:DeprecationWarning")
def test_files_of_every_kind(tmp_path):
    grey = np.arange(0, 240, 20, dtype=np.uint8).reshape(3, 4)
    colour = np.stack([grey, grey // 2, 255 - grey], axis=-1)
    alpha = np.dstack([colour, np.full_like(grey, 7)])
    third = Preprocess(**KEEP, channels=3, scale="divide")
    one = Preprocess(**KEEP, scale="divide")
    for name, pixels in {"rgb": colour, "rgba": alpha}.items():
        image = write(tmp_path / f"{name}.png", pixels)
        wanted = colour.transpose(2, 0, 1) / 255
        np.testing.assert_allclose(third.apply(image).values[0], wanted, atol=1e-6)
        luma = np.tensordot([0.299, 0.587, 0.114], wanted, 1)
        np.testing.assert_allclose(one.apply(image).values[0, 0], luma, atol=1e-6)
    image = write(tmp_path / "la.png", np.dstack([grey, grey]))
    np.testing.assert_allclose(one.apply(image).values[0, 0], grey / 255, atol=1e-6)
    imagenet = Preprocess(**KEEP, channels=3, scale="standardise", mean=MEAN, std=STD)
    for c, found in enumerate(imagenet.apply(image).values[0]):
        np.testing.assert_allclose(found, (grey / 255 - MEAN[c]) / STD[c], atol=1e-5)
    deep = write(tmp_path / "deep.png", grey.astype(np.uint16) * 257)
    sixteen = Preprocess(**KEEP, scale="divide", divisor=65535)
    np.testing.assert_allclose(sixteen.apply(deep).values[0, 0], grey / 255, atol=1e-6)
    for pre in (one, imagenet):
        with pytest.raises(sitta.InvalidImage, match=r"divides by 255.*up to 56540.*65535"):
            pre.apply(deep)
    with pytest.raises(sitta.InvalidImage, match=r"uint8, up to 220.*by 255"):
        sixteen.apply(image)
    with pytest.raises(sitta.InvalidImage, match=r"float64, up to 1\b.*divisor=1"):
        one.apply(picture(np.eye(4)[None]))
    assert (
        Preprocess(**KEEP, scale="divide", divisor=1).apply(picture(np.eye(4)[None])).values.any()
    )


SAID = {
    "no mean": (
        {"scale": "standardise", "std": (1,)},
        r"needs mean.*1 number, one per.*mean=0.485",
    ),
    "no std": ({"scale": "standardise", "mean": (1,)}, "needs std"),
    "no bounds": ({"scale": "window"}, r"needs bounds.*lower one first.*bounds=-160,240"),
    "channels": (
        {"scale": "standardise", "channels": 3, "mean": (0.5,), "std": STD},
        r"mean needs one number per channel.*3 numbers.*0\.5",
    ),
    "no std at all": ({"scale": "standardise", "mean": (0,), "std": (0,)}, "std is out of range"),
    "order": ({"scale": "window", "bounds": (3, 3)}, "bounds is no range"),
    "three": ({"scale": "percentile", "percentiles": (0, 1, 2)}, "percentiles is no range"),
    "hundred": ({"scale": "percentile", "percentiles": (0, 101)}, "percentiles is out of range"),
    "nothing": ({"scale": "divide", "divisor": 0}, "divisor is out of range"),
    "stray": ({"divisor": 255}, r'"min-max" takes no divisor.*"divide" or scale="standardise"'),
    "near": ({"scale": "windowed"}, "Did you mean"),
}


@pytest.mark.parametrize("case", SAID)
def test_settings_that_make_no_sense_are_told(case):
    given_, said = SAID[case]
    with pytest.raises(sitta.InvalidSetting, match=said):
        Preprocess(**given_)


@pytest.mark.parametrize("scale", SCALES)
def test_a_card_holds_the_settings_of_its_scale_and_no_others(scale):
    pre = Preprocess(scale=scale, **({"channels": 3} | FULL.get(scale, {})))
    kept = pre.as_dict()
    assert Preprocess.from_dict(kept) == pre
    extra = set(kept) - set(Preprocess(scale="min-max").as_dict())
    assert extra == set(SCALES[scale].settings)
    assert Preprocess(**merged(kept, {"scale": "z-score"})).as_dict()["scale"] == "z-score"
    assert Preprocess(**merged(kept, {"size": (8, 8)})).scale == scale


def test_on_the_command_line():
    def changes(scale):
        return Preprocessing(scale=scale).changes

    assert changes("window bounds=-160,240") == {"scale": "window", "bounds": (-160, 240)}
    assert changes("z-score") == {"scale": "z-score"}
    asked = changes("standardise mean=0.5,0.4,0.3 std=0.2,0.2,0.1 divisor=65535")
    pre = Preprocess(channels=3, **asked)
    assert (pre.mean, pre.std, pre.divisor) == ((0.5, 0.4, 0.3), (0.2, 0.2, 0.1), 65535)
    with pytest.raises(sitta.InvalidSetting, match=r"no setting 'meen'.*mean"):
        changes("standardise meen=1")
    with pytest.raises(sitta.InvalidSetting, match="divisor is out of range"):
        changes("divide divisor=much")


def test_values_like_a_models_inputs():
    unit = np.random.default_rng(1).random((2, 3, 8, 8))
    for scale, how in FULL.items():
        pre = Preprocess(channels=3, scale=scale, **how)
        shown = (unit - np.reshape(MEAN, (1, 3, 1, 1))) / np.reshape(STD, (1, 3, 1, 1))
        wanted = shown if scale == "standardise" else unit
        np.testing.assert_allclose(like_inputs(unit, pre), wanted, rtol=1e-5)
    scored = like_inputs(unit, Preprocess(scale="z-score"))
    np.testing.assert_allclose(scored.std(axis=(1, 2, 3)), 1, rtol=1e-5)
