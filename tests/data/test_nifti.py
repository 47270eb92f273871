"""NIfTI: any shape, type, orientation and scaling, and masks in the same geometry."""

import gzip
import itertools

import nibabel as nib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitta.data import reading
from sitta.data.images import read, read_mask, write_map, write_mask
from sitta.errors import InvalidImage
from tests.data import files
from tests.data.files import NIFTI

AFFINE = np.array([[-2.0, 0.1, 0, 30], [0.1, 1.5, 0, -20], [0, 0, 4, 5], [0, 0, 0, 1]])
TURNS = [
    (axes, signs)
    for axes in itertools.permutations(range(3))
    for signs in itertools.product([1, -1], repeat=3)
]


def saved(path, values, affine=AFFINE, kind=nib.Nifti1Image, **header):
    file = kind(values, affine, dtype=values.dtype)
    for name, value in header.items():
        file.header[name] = value
    nib.save(file, path)
    return path


@pytest.mark.parametrize(
    "name",
    [
        "anatomical.nii",
        "functional.nii",
        "example4d.nii.gz",
        "example_nifti2.nii.gz",
        "standard.nii.gz",
        "reoriented_anat_moved.nii",
    ],
)
def test_samples_of_nibabel_are_read_as_nibabel_does_and_masks_keep_their_header(name, tmp_path):
    source = nib.load(NIFTI / name)
    values = source.get_fdata()
    found = read(NIFTI / name)
    expected = np.moveaxis(values, 3, 0) if values.ndim == 4 else values[None]
    np.testing.assert_array_equal(found.pixels, expected)
    np.testing.assert_array_equal(found.geometry.affine, source.affine)
    np.testing.assert_allclose(found.geometry.spacing, source.header.get_zooms()[:3], rtol=1e-5)
    assert found.pixels.dtype.isnative
    mask = (np.arange(expected[0].size) % 3).reshape(found.geometry.shape)
    write_mask(mask, tmp_path / "mask.nii.gz", like=found)
    written = nib.load(tmp_path / "mask.nii.gz")
    assert type(written) is type(source)
    assert written.header.endianness == source.header.endianness
    np.testing.assert_array_equal(np.asarray(written.dataobj), mask)
    np.testing.assert_array_equal(written.affine, source.affine)
    for field in ("pixdim", "qform_code", "sform_code", "quatern_b", "srow_x", "xyzt_units"):
        kept = slice(4) if field == "pixdim" else ...
        np.testing.assert_array_equal(written.header[field][kept], source.header[field][kept])
    np.testing.assert_array_equal(read_mask(tmp_path / "mask.nii.gz", found, classes=3), mask)


@pytest.mark.parametrize(
    ("shape", "pixels"),
    [
        ((4, 5), (1, 4, 5)),
        ((4, 5, 1), (1, 4, 5)),
        ((4, 5, 1, 1), (1, 4, 5)),
        ((4, 5, 6), (1, 4, 5, 6)),
        ((1, 5, 6), (1, 1, 5, 6)),
        ((4, 5, 6, 3), (3, 4, 5, 6)),
        ((4, 5, 1, 3), (3, 4, 5, 1)),
        ((4, 5, 6, 1, 3), (3, 4, 5, 6)),
    ],
)
def test_any_number_of_axes(tmp_path, shape, pixels):
    values = files.volume(shape)
    found = read(saved(tmp_path / "a.nii", values))
    assert found.pixels.shape == pixels
    channels = values.reshape(*pixels[1:], pixels[0])
    np.testing.assert_array_equal(found.pixels, np.moveaxis(channels, -1, 0))
    mask = found.pixels[0] % 2
    write_mask(mask, tmp_path / "mask.nii", like=found)
    assert nib.load(tmp_path / "mask.nii").shape == shape[:3]
    np.testing.assert_array_equal(read_mask(tmp_path / "mask.nii", found), mask)


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4, 5, 6), (2, 3, 4, 2, 2, 2)])
def test_too_few_or_too_many_axes_are_refused(tmp_path, shape):
    with pytest.raises(InvalidImage, match=rf"{len(shape)} axes"):
        read(saved(tmp_path / "a.nii", files.volume(shape)))


@pytest.mark.parametrize(
    "dtype", [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.int64, np.float32, np.float64]
)
@pytest.mark.parametrize("kind", [nib.Nifti1Image, nib.Nifti2Image])
def test_values_keep_their_type(tmp_path, dtype, kind):
    values = files.volume(dtype=dtype)
    found = read(saved(tmp_path / "a.nii.gz", values, kind=kind))
    assert found.pixels.dtype == dtype
    np.testing.assert_array_equal(found.pixels[0], values)


def test_numbers_too_wide_for_pytorch_are_narrowed():
    assert reading._native(files.volume(dtype=np.longdouble)).dtype == np.float64


def test_big_endian_files_come_in_the_order_of_this_machine(tmp_path):
    values = files.volume()
    header = nib.Nifti1Header(endianness=">")
    header.set_data_dtype(np.int16)
    nib.save(nib.Nifti1Image(values, AFFINE, header), tmp_path / "a.nii")
    assert nib.load(tmp_path / "a.nii").header.endianness == ">"
    found = read(tmp_path / "a.nii")
    assert found.pixels.dtype.isnative
    np.testing.assert_array_equal(found.pixels[0], values)


def test_scaled_values_are_scaled(tmp_path):
    file = nib.Nifti1Image(files.volume(), AFFINE)
    file.header.set_slope_inter(0.5, -3)
    nib.save(file, tmp_path / "a.nii")
    stored = np.asarray(nib.load(tmp_path / "a.nii").dataobj.get_unscaled())
    found = read(tmp_path / "a.nii")
    np.testing.assert_allclose(found.pixels[0], stored * 0.5 - 3)
    write_mask(stored > 60, tmp_path / "mask.nii", like=found)
    np.testing.assert_array_equal(nib.load(tmp_path / "mask.nii").get_fdata(), stored > 60)


@pytest.mark.parametrize("bands", ["RGB", "RGBA"])
def test_colours_become_three_channels(tmp_path, bands):
    values = files.volume((4, 5, 3, len(bands)), np.uint8)
    packed = values.view([(band, "u1") for band in bands])[..., 0]
    found = read(saved(tmp_path / "a.nii", packed))
    np.testing.assert_array_equal(found.pixels, np.moveaxis(values, -1, 0)[:3])


def test_complex_numbers_and_surfaces_are_refused(tmp_path):
    with pytest.raises(InvalidImage, match=r"complex numbers.*magnitude"):
        read(saved(tmp_path / "a.nii", files.volume(dtype=np.complex64)))
    with pytest.raises(InvalidImage, match="surface"):
        read(NIFTI / "row_major.dconn.nii")


@settings(max_examples=48)
@given(turn=st.sampled_from(TURNS), shape=st.tuples(*[st.integers(1, 4)] * 3))
def test_a_mask_in_any_of_the_48_orientations_is_brought_into_that_of_its_image(
    tmp_path_factory, turn, shape
):
    folder = tmp_path_factory.mktemp("turns")
    image = read(saved(folder / "image.nii", files.volume(shape)))
    labels = files.volume(shape, np.uint8, seed=1) % 2
    ornt = np.array([turn[0], turn[1]]).T.astype(float)
    turned = nib.Nifti1Image(labels, AFFINE).as_reoriented(ornt)
    nib.save(turned, folder / "mask.nii")
    if all(n > 1 for n in shape):
        assert nib.aff2axcodes(read(folder / "mask.nii").geometry.affine) == nib.aff2axcodes(
            turned.affine
        )
    found = read_mask(folder / "mask.nii", image)
    np.testing.assert_array_equal(found, labels.reshape(image.geometry.shape))


def test_the_affine_agrees_with_the_codes_of_nibabel(tmp_path):
    base = nib.Nifti1Image(files.volume(), np.diag([2.0, 3, 4, 1]))
    for axes, signs in TURNS:
        turned = base.as_reoriented(np.array([axes, signs]).T.astype(float))
        nib.save(turned, tmp_path / "a.nii")
        geometry = read(tmp_path / "a.nii").geometry
        assert geometry.column_major
        assert nib.aff2axcodes(geometry.affine) == nib.aff2axcodes(turned.affine)
        np.testing.assert_allclose(geometry.spacing, turned.header.get_zooms())
        slices = geometry.raster()
        assert slices.shape == geometry.shape[::-1]
        assert nib.aff2axcodes(slices.affine) == nib.aff2axcodes(turned.affine)[::-1]


def test_other_units_become_millimetres_and_the_header_keeps_them(tmp_path):
    file = nib.Nifti1Image(files.volume(), np.diag([2000.0, 2000, 3000, 1]))
    file.header.set_xyzt_units("micron")
    nib.save(file, tmp_path / "a.nii")
    found = read(tmp_path / "a.nii")
    np.testing.assert_allclose(found.geometry.spacing, (2, 2, 3))
    write_mask(found.pixels[0] > 9, tmp_path / "mask.nii", like=found)
    written = nib.load(tmp_path / "mask.nii")
    assert written.header.get_xyzt_units()[0] == "micron"
    np.testing.assert_array_equal(written.affine, file.affine)


def test_the_meaning_and_window_of_the_image_are_not_those_of_its_mask(tmp_path):
    path = saved(tmp_path / "a.nii", files.volume(), cal_max=900, intent_code=3, descrip=b"T2")
    write_mask(files.volume() > 9, tmp_path / "mask.nii", like=read(path))
    header = nib.load(tmp_path / "mask.nii").header
    assert (header["cal_max"], header["intent_code"], header["descrip"].item()) == (0, 0, b"T2")


def test_maps_are_exact(tmp_path):
    image = read(saved(tmp_path / "a.nii.gz", files.volume()))
    values = np.random.default_rng(0).random(image.geometry.shape, dtype=np.float32)
    write_map(values, tmp_path / "map.nii.gz", like=image)
    np.testing.assert_array_equal(read(tmp_path / "map.nii.gz").pixels[0], values)
    assert nib.load(tmp_path / "map.nii.gz").get_data_dtype() == np.float32


@pytest.mark.parametrize("name", ["A.NII.GZ", "B.NII", "no suffix", "ünïcode — scan.nii.gz"])
def test_names_do_not_matter_to_reading_and_writing(tmp_path, name):
    values = files.volume()
    content = nib.Nifti1Image(values, AFFINE).to_bytes()
    (tmp_path / name).write_bytes(gzip.compress(content) if "g" in name.lower() else content)
    image = read(tmp_path / name)
    np.testing.assert_array_equal(image.pixels[0], values)
    target = tmp_path / "masks" / (name if "." in name else "mask.nii")
    write_mask(values > 9, target, like=image)
    np.testing.assert_array_equal(read_mask(target, image), values > 9)
    assert (target.read_bytes()[:2] == b"\x1f\x8b") == target.name.lower().endswith(".gz")


def test_writing_twice_gives_the_same_bytes(tmp_path):
    image = read(saved(tmp_path / "a.nii.gz", files.volume()))
    for name in ("b.nii.gz", "c.nii.gz"):
        write_mask(image.pixels[0] > 9, tmp_path / name, like=image)
    assert (tmp_path / "b.nii.gz").read_bytes() == (tmp_path / "c.nii.gz").read_bytes()


def test_a_slice_without_a_direction_across_is_read(tmp_path):
    flat = AFFINE.copy()
    flat[:3, 2] = 0
    file = nib.Nifti1Image(files.volume((4, 5, 1)), AFFINE)
    file.header["qform_code"], file.header["sform_code"] = 0, 1
    for row, name in enumerate(("srow_x", "srow_y", "srow_z")):
        file.header[name] = flat[row]
    nifti = nib.Nifti1Image(np.asarray(file.dataobj), None, file.header)
    nib.save(nifti, tmp_path / "a.nii")
    found = read(tmp_path / "a.nii").geometry
    np.testing.assert_allclose(found.affine[:3, :2], flat[:3, :2], rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found.affine[:3, 2]), 1)


def test_a_volume_that_does_not_say_where_it_lies_is_refused(tmp_path):
    file = nib.Nifti1Image(files.volume(), AFFINE)
    file.header["sform_code"], file.header["srow_z"] = 1, 0
    nib.save(nib.Nifti1Image(np.asarray(file.dataobj), None, file.header), tmp_path / "a.nii")
    with pytest.raises(InvalidImage, match="affine is degenerate"):
        read(tmp_path / "a.nii")
