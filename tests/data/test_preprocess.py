"""What a model takes, and the way back: sizes, orientations, intensities, degenerate images."""

from itertools import permutations, product
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from nibabel.orientations import axcodes2ornt, inv_ornt_aff, ornt_transform

import sitta
from sitta.data.images import Geometry, Image, read, read_mask, write_mask
from sitta.data.preprocess import TASKS, Preprocess

AXES = ["".join(code) for order in permutations(("LR", "AP", "IS")) for code in product(*order)]


def picture(pixels, affine=None, column_major=False, spacing=None):
    pixels = np.asarray(pixels)
    geometry = Geometry(pixels.shape[1:], affine, spacing, column_major)
    return Image(pixels, geometry, "test", Path("test.png"))


def body(codes="SPL", spacing=(3.0, 0.5, 0.5), shape=(4, 10, 8)):
    """A volume as a scanner would store it along these axes, and the same along S, P, L."""
    values = np.arange(np.prod(shape), dtype=float).reshape(shape)
    affine = np.zeros((4, 4))
    affine[3, 3] = 1
    affine[:3, :3] = np.array([[0, 0, -1], [0, -1, 0], [1, 0, 0]]) @ np.diag(spacing)
    affine[:3, 3] = [5, -7, 11]
    turn = ornt_transform(axcodes2ornt(tuple("SPL")), axcodes2ornt(tuple(codes)))
    stored = nib.apply_orientation(values, turn)
    return values, picture(stored[None], affine @ inv_ornt_aff(turn, shape), column_major=True)


@pytest.mark.parametrize("codes", AXES)
def test_all_48_orientations_give_the_same_slices_and_go_back(codes):
    values, image = body(codes)
    keep = Preprocess(size=None, fit="none", scale="none")
    ready = keep.apply(image)
    assert np.array_equal(ready.values[:, 0], values)
    assert np.array_equal(ready.inverse.restore(ready.values)[0], image.pixels[0])
    mask = (image.pixels[0] % 7 == 0).astype(np.uint8)
    assert np.array_equal(ready.inverse.restore_mask(ready.inverse.masks(mask)), mask)


@pytest.mark.parametrize(
    ("plane", "code"), [("axial", "SPL"), ("coronal", "PIL"), ("sagittal", "LIP")]
)
def test_planes(plane, code):
    _, image = body("LAS")
    turn = ornt_transform(axcodes2ornt(tuple("LAS")), axcodes2ornt(tuple(code)))
    ready = Preprocess(size=None, fit="none", scale="none", plane=plane).apply(image)
    assert np.array_equal(ready.values[:, 0], nib.apply_orientation(image.pixels[0], turn))


def test_an_image_of_one_slice_is_cut_along_that_slice():
    _, image = body("LAS", shape=(1, 10, 8))  # one axial slice, but coronal ones are asked for
    ready = Preprocess(size=None, fit="none", plane="coronal").apply(image)
    assert ready.values.shape == (1, 1, 10, 8)


def test_spacing_is_resampled_in_the_plane_of_the_slices():
    _, image = body("ASL", spacing=(3.0, 0.5, 1.0))  # rows 10 of 0.5 mm, columns 8 of 1 mm
    ready = Preprocess(size=(12, 6), fit="crop", spacing=(0.25, 2.0)).apply(image)
    assert ready.inverse.resized == (20, 4)
    assert ready.values.shape == (4, 1, 12, 6)
    assert ready.inverse.restore(ready.values).shape == image.pixels.shape


def test_a_file_that_does_not_tell_its_spacing():
    pre = Preprocess(size=(8, 8), fit="crop", spacing=(0.5, 0.5))
    with pytest.raises(sitta.InvalidImage, match="does not say how large its pixels are"):
        pre.apply(picture(np.ones((1, 16, 16))))
    assert pre.apply(picture(np.ones((1, 16, 16))), spacing=(1, 1)).inverse.resized == (32, 32)
    told = picture(np.ones((1, 16, 8)), spacing=(0.25, 1.0))
    assert pre.apply(told).inverse.resized == (8, 16)


def test_a_point_stays_where_it_is_through_resize_and_back():
    image = picture(np.zeros((1, 200, 120)))
    mask = np.zeros((200, 120), dtype=np.uint8)
    mask[60:100, 30:90] = 1
    place = Preprocess(size=(50, 60)).apply(image).inverse
    back = place.restore_mask(place.masks(mask))
    assert 2 * (back & mask).sum() / (back.sum() + mask.sum()) > 0.98
    assert np.abs(np.argwhere(back).mean(0) - np.argwhere(mask).mean(0)).max() < 0.5


def test_a_mask_of_several_classes_goes_there_and_back():
    labels = np.zeros((40, 40), dtype=np.uint8)
    labels[:20, :20], labels[20:, 10:30] = 1, 2
    place = Preprocess(size=(20, 20)).place(picture(np.zeros((1, 40, 40))))
    small = place.masks(labels, classes=3)
    assert np.unique(small).tolist() == [0, 1, 2]
    assert (place.restore_mask(small, classes=3) == labels).mean() > 0.98


def test_volumes_for_a_model_of_volumes():
    _, image = body("LAS")
    ready = Preprocess(size=(4, 16, 16), fit="crop", dims=3, spacing=(3, 0.5, 0.5)).apply(image)
    assert ready.values.shape == (1, 1, 4, 16, 16)
    assert ready.inverse.restore(ready.values).shape == image.pixels.shape


def test_each_slice_is_scaled_on_its_own_after_the_crop():
    volume = np.stack([np.full((8, 8), 5.0), np.full((8, 8), 50.0), np.full((8, 8), 7.0)])
    volume[0, 4, 4], volume[1, 0, 0] = 9.0, 1e6  # inside the crop, outside of it
    ready = Preprocess(size=(4, 4), fit="crop").apply(picture(volume[None]))
    assert ready.values.min(axis=(1, 2, 3)).tolist() == [0, 0, 0]
    assert ready.values.max(axis=(1, 2, 3)).tolist() == [1, 0, 0]


def test_channels():
    red = np.zeros((3, 4, 4))
    red[0, :2] = 255
    grey = Preprocess(size=None, fit="none", scale="none").apply(picture(red)).values
    assert grey[0, 0, 0, 0].item() == pytest.approx(0.299 * 255)
    colour = Preprocess(size=None, fit="none", channels=3).apply(picture(red)).values
    assert colour[0, :, 0, 0].tolist() == [1, 0, 0]
    repeated = Preprocess(size=None, fit="none", channels=3).apply(picture(red[:1])).values
    assert np.array_equal(repeated[0, 0], repeated[0, 2])
    with pytest.raises(sitta.InvalidImage, match=r"has 2 channels.*1, or 3"):
        Preprocess().apply(picture(red[:2]))


finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
sides = st.tuples(st.just(1), st.integers(1, 12), st.integers(1, 12))


@given(hnp.arrays(np.float64, sides, elements=finite), st.sampled_from(["min-max", "z-score"]))
@settings(max_examples=150)
def test_no_finite_image_gives_anything_but_finite_inputs(pixels, scale):
    values = Preprocess(size=(7, 9), scale=scale).apply(picture(pixels)).values
    assert np.isfinite(values).all()
    if scale == "min-max":
        assert values.min() >= 0
        assert values.max() <= 1


@pytest.mark.parametrize("value", [0, -3.7, 1e300, 65535])
@pytest.mark.parametrize("fit", ["resize", "crop"])
def test_a_constant_image_becomes_zero(value, fit):
    pre = Preprocess(size=(9, 5), fit=fit)
    assert not pre.apply(picture(np.full((1, 6, 7), value))).values.any()


def test_a_large_offset_costs_no_contrast():
    pixels = np.random.default_rng(0).random((1, 16, 16))
    plain = Preprocess(size=(8, 8)).apply(picture(pixels)).values
    lifted = Preprocess(size=(8, 8)).apply(picture(pixels * 1e-3 + 1e6)).values
    np.testing.assert_allclose(plain, lifted, atol=1e-5)


def test_it_survives_a_checkpoint():
    for pre in TASKS.values():
        assert Preprocess.from_dict(pre.as_dict()) == pre
    with pytest.raises(sitta.InvalidSetting, match="no setting 'sizes'"):
        Preprocess.from_dict({"sizes": (1, 2)})


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": (0, 5)},
        {"size": (5,)},
        {"size": None},
        {"fit": "none"},
        {"fit": "squash"},
        {"spacing": (1.0,)},
        {"spacing": (0.0, 1.0)},
        {"channels": 0},
        {"plane": "oblique"},
        {"dims": 4},
    ],
)
def test_settings_that_make_no_sense(wrong):
    with pytest.raises(sitta.InvalidSetting):
        Preprocess(**wrong)


def test_the_paper_defaults():
    assert (TASKS["spinal"].size, TASKS["spinal"].fit) == ((144, 144), "crop")
    assert (TASKS["retina"].size, TASKS["retina"].channels) == ((256, 256), 3)
    assert (TASKS["chest"].size, TASKS["chest"].channels) == ((128, 128), 1)


def test_real_masks_come_back_in_their_own_geometry(real_data, tmp_path):
    folder = real_data / "spinal" / "philips"  # stored the other way round than its neighbours
    image = read(next((folder / "images").iterdir()))
    mask = read_mask(next((folder / "masks_cord").iterdir()), like=image)
    ready = TASKS["spinal"].apply(image)
    back = ready.inverse.restore_mask(ready.inverse.masks(mask))
    assert 2 * (back & mask).sum() / (back.sum() + mask.sum()) > 0.98
    write_mask(back, tmp_path / "mask.nii.gz", like=image)
    again = nib.load(tmp_path / "mask.nii.gz")
    assert np.array_equal(again.affine, image.geometry.affine)
    assert np.array_equal(np.asarray(again.dataobj), back)


def test_values_that_overflow_are_left_to_the_model_to_refuse_without_a_warning():
    pixels = np.zeros((1, 64, 64))
    pixels[0, 5, 5] = 1e300
    values = Preprocess(size=(32, 32), scale="none").apply(picture(pixels)).values
    assert not np.isfinite(values).all()
