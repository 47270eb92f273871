"""DICOM: values, order and place of slices, and what a folder may hold."""

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from monai.data import PydicomReader
from pydicom import dcmread
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate
from pydicom.pixels import get_decoder
from pydicom.uid import MPEG2MPML, JPEG2000Lossless, JPEGLSLossless, RLELossless
from scipy.spatial.transform import Rotation

from sitta.data.images import read
from sitta.errors import InvalidImage
from tests.data import files
from tests.data.files import DICOM, NIFTI

ORDER = [2, 0, 3, 1]


def shuffled(slices):
    return [slices[i] for i in ORDER]


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("MR_small.dcm", "MR_small.dcm"),
        ("MR_small_bigendian.dcm", "MR_small.dcm"),
        ("MR_small_implicit.dcm", "MR_small.dcm"),
        ("MR_small_expb.dcm", "MR_small.dcm"),
        ("MR_small_padded.dcm", "MR_small.dcm"),
        ("MR_small_RLE.dcm", "MR_small.dcm"),
        ("MR_small_jp2klossless.dcm", "MR_small.dcm"),
        ("MR_small_jpeg_ls_lossless.dcm", "MR_small.dcm"),
        ("SC_rgb_rle_16bit.dcm", "SC_rgb_rle_16bit.dcm"),
        ("image_dfl.dcm", "image_dfl.dcm"),
        ("liver_1frame.dcm", "liver_1frame.dcm"),
        ("SC_rgb_small_odd_big_endian.dcm", "SC_rgb_small_odd.dcm"),
        ("examples_rgb_color.dcm", "examples_rgb_color.dcm"),
    ],
)
def test_samples_of_pydicom_hold_what_pydicom_says(name, same):
    found = read(DICOM / name)
    expected = dcmread(DICOM / same).pixel_array
    colour = np.moveaxis(expected, -1, 0) if expected.ndim == 3 else expected[None]
    np.testing.assert_array_equal(found.pixels, colour)
    assert found.kind == "DICOM"
    assert found.pixels.dtype.isnative
    assert found.pixels.flags.writeable


def test_a_ct_is_in_hounsfield_units():
    source = dcmread(DICOM / "CT_small.dcm")
    np.testing.assert_array_equal(read(DICOM / "CT_small.dcm").pixels[0], source.pixel_array - 1024)


def test_a_sequence_of_colours_keeps_its_frames_and_has_no_place():
    found = read(DICOM / "examples_ybr_color.dcm")
    assert found.pixels.shape == (3, 30, 240, 320)
    assert found.geometry.affine is None
    assert found.geometry.spacing is None


def test_a_palette_becomes_colours_and_its_numbers_are_kept():
    source = dcmread(DICOM / "examples_palette.dcm")
    found = read(DICOM / "examples_palette.dcm")
    assert found.pixels.shape == (3, 350, 800)
    np.testing.assert_array_equal(found.indices, source.pixel_array)
    red = np.frombuffer(source.RedPaletteColorLookupTableData, np.uint16)
    np.testing.assert_array_equal(found.pixels[0], red[source.pixel_array])


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16])
def test_monochrome1_is_inverted_within_its_bits(tmp_path, dtype):
    info = np.iinfo(dtype)
    values = np.array([[info.min, info.min + 1], [7, info.max]], dtype)
    made = files.dataset(values, PhotometricInterpretation="MONOCHROME1")
    found = read(files.save(tmp_path / "film.dcm", made)).pixels[0]
    np.testing.assert_array_equal(found, int(info.min) + int(info.max) - values.astype(int))


def test_monochrome1_of_12_bits_is_inverted_within_12_bits_and_then_rescaled(tmp_path):
    made = files.dataset(np.array([[0, 4095], [1, 100]], np.uint16))
    made.PhotometricInterpretation, made.BitsStored, made.HighBit = "MONOCHROME1", 12, 11
    made.RescaleSlope, made.RescaleIntercept = 2, -10
    found = read(files.save(tmp_path / "film.dcm", made)).pixels[0]
    np.testing.assert_array_equal(found, [[8180, -10], [8178, 7980]])


def test_a_table_takes_the_place_of_slope_and_intercept(tmp_path):
    made = files.dataset(np.array([[0, 1], [2, 3]], np.uint8))
    table = Dataset()
    table.LUTDescriptor, table.LUTData = [4, 0, 16], [9, 50, 7, 1000]
    table["LUTDescriptor"].VR = table["LUTData"].VR = "US"
    made.ModalityLUTSequence = [table]
    path = files.save(tmp_path / "a.dcm", made)
    np.testing.assert_array_equal(read(path).pixels[0], [[9, 50], [7, 1000]])
    made.PhotometricInterpretation = "MONOCHROME1"
    np.testing.assert_array_equal(
        read(files.save(path, made)).pixels[0], [[65526, 65485], [65528, 64535]]
    )


def test_real_numbers_are_read(tmp_path):
    values = np.array([[0.5, -3], [1e6, 0]], np.float32)
    made = files.dataset(values.view(np.uint32), FloatPixelData=values.tobytes())
    del made.PixelData
    np.testing.assert_array_equal(read(files.save(tmp_path / "a.dcm", made)).pixels[0], values)


def test_colours_of_a_single_file(tmp_path):
    values = files.volume((4, 5, 3), np.uint8)
    for planar in (0, 1):
        stored = values if planar == 0 else np.moveaxis(values, -1, 0)
        made = files.dataset(values, SamplesPerPixel=3, PhotometricInterpretation="RGB")
        made.PlanarConfiguration = planar
        made.PixelData = stored.tobytes()
        found = read(files.save(tmp_path / f"{planar}.dcm", made))
        np.testing.assert_array_equal(found.pixels, np.moveaxis(values, -1, 0))


@pytest.mark.parametrize("cosines", [files.AXIAL, files.OBLIQUE])
def test_a_series_is_sorted_by_position_whatever_its_names_and_numbers(tmp_path, cosines):
    values = files.volume()
    normal = np.cross(cosines[:3], cosines[3:])
    slices = files.stack(values, step=2.5 * normal, cosines=cosines)
    for i, made in enumerate(slices):
        made.InstanceNumber = 99 - i
    found = read(files.series(tmp_path, shuffled(slices)))
    np.testing.assert_array_equal(found.pixels[0], values)
    np.testing.assert_allclose(found.geometry.spacing, (2.5, 0.5, 0.75))
    assert found.path == tmp_path


STRAIGHT = [(files.AXIAL, (0, 0, 2.5)), (files.OBLIQUE, (-1.5, 2.0, 0.0))]
TILTED = (files.AXIAL, (0, 0.3, 2.4))  # the gantry: slices are shifted against each other


@pytest.mark.parametrize(("cosines", "step"), [*STRAIGHT, TILTED])
def test_each_voxel_lies_where_the_equation_of_the_standard_puts_it(tmp_path, cosines, step):
    values = files.volume()
    slices = files.stack(values, step=step, cosines=cosines)
    found = read(files.series(tmp_path, shuffled(slices)))
    for index in np.ndindex(found.geometry.shape):
        plane = slices[int(np.argwhere(values == found.pixels[0][index])[0, 0])]
        lps = np.array(plane.ImagePositionPatient, float)
        lps += np.multiply(cosines[3:], index[1] * 0.5) + np.multiply(cosines[:3], index[2] * 0.75)
        there = files.world(found.geometry.affine, index)
        np.testing.assert_allclose(there, lps * [-1, -1, 1], atol=1e-5)


@pytest.mark.parametrize(("cosines", "step"), STRAIGHT)  # MONAI leaves tilts to the user
def test_each_corner_lies_where_monai_puts_it(tmp_path, cosines, step):
    values = files.volume()
    slices = files.stack(values, step=step, cosines=cosines)
    found = read(files.series(tmp_path, shuffled(slices)))
    reader = PydicomReader()
    theirs, meta = reader.get_data(reader.read(str(tmp_path)))
    for corner in np.ndindex(2, 2, 2):
        index = tuple(np.multiply(corner, np.subtract(values.shape, 1)))
        its = tuple(int(i[0]) for i in np.where(theirs == found.pixels[0][index]))
        expected = files.world(np.asarray(meta["affine"]), its)
        np.testing.assert_allclose(files.world(found.geometry.affine, index), expected, atol=1e-4)


def test_a_sample_series_lies_where_nibabel_puts_it():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nibabel calls its own readers experimental
        from nibabel.nicom.dicomwrappers import wrapper_from_file

    folder = DICOM / "dicomdirtests" / "98892001" / "CT5N"
    found = read(folder)
    assert found.pixels.shape == (1, 5, 16, 16)
    for path in folder.iterdir():
        wrapped = wrapper_from_file(path)
        plane = wrapped.get_data()
        number = int(np.argwhere((found.pixels[0] == plane).all((1, 2)))[0, 0])
        for row, column in [(0, 0), (15, 0), (0, 15)]:
            lps = files.world(wrapped.affine, (row, column, 0))
            there = files.world(found.geometry.affine, (number, row, column))
            np.testing.assert_allclose(there, lps * [-1, -1, 1], atol=1e-3)


def test_a_mosaic_is_refused():
    with pytest.raises(InvalidImage, match=r"a mosaic.*NIfTI"):
        read(NIFTI / "0.dcm")


def test_slope_and_intercept_of_each_slice_are_its_own(tmp_path):
    values = files.volume()
    slices = files.stack(values)
    for i, made in enumerate(slices):
        made.RescaleSlope, made.RescaleIntercept = 1 + i, -5 * i
    expected = values * (1 + np.arange(4))[:, None, None] - 5 * np.arange(4)[:, None, None]
    found = read(files.series(tmp_path / "series", slices))
    np.testing.assert_array_equal(found.pixels[0], expected)
    path = files.save(tmp_path / "multi.dcm", files.enhanced(slices, ORDER))
    np.testing.assert_array_equal(read(path).pixels[0], expected)


def test_a_series_of_colours(tmp_path):
    values = files.volume((3, 4, 5, 3), np.uint8)
    slices = files.stack(values[..., 0])
    for made, plane in zip(slices, values, strict=True):
        made.SamplesPerPixel, made.PhotometricInterpretation, made.PlanarConfiguration = 3, "RGB", 0
        made.PixelData = plane.tobytes()
    found = read(files.series(tmp_path, slices))
    np.testing.assert_array_equal(found.pixels, np.moveaxis(values, -1, 0))


def test_frames_of_an_enhanced_file_are_sorted_and_placed_as_a_series(tmp_path):
    slices = files.stack(files.volume(), step=(-1.5, 2.0, 0.0), cosines=files.OBLIQUE)
    apart = read(files.series(tmp_path / "series", slices))
    path = files.save(tmp_path / "multi" / "all.dcm", files.enhanced(slices, ORDER))
    for found in (read(path), read(path.parent)):
        np.testing.assert_array_equal(found.pixels, apart.pixels)
        np.testing.assert_allclose(found.geometry.affine, apart.geometry.affine)


def test_a_single_frame_described_by_functional_groups_is_placed(tmp_path):
    slices = files.stack(files.volume((1, 4, 5)))
    plain = read(files.save(tmp_path / "a.dcm", slices[0]))
    found = read(files.save(tmp_path / "b.dcm", files.enhanced(slices, [0])))
    assert found.pixels.shape == (1, 4, 5)
    np.testing.assert_array_equal(found.geometry.affine, plain.geometry.affine)


def test_a_palette_of_several_frames_is_sorted_with_its_numbers(tmp_path):
    values = files.volume()
    made = files.enhanced(files.stack(values), ORDER)
    made.PhotometricInterpretation, made.PixelRepresentation = "PALETTE COLOR", 0
    for i, colour in enumerate(("Red", "Green", "Blue")):
        setattr(made, f"{colour}PaletteColorLookupTableDescriptor", [120, 0, 16])
        table = np.arange(120, dtype=np.uint16) * (i + 1)
        setattr(made, f"{colour}PaletteColorLookupTableData", table.tobytes())
    found = read(files.save(tmp_path / "a.dcm", made))
    np.testing.assert_array_equal(found.indices, values)
    np.testing.assert_array_equal(found.pixels, [values, values * 2, values * 3])


def test_frames_that_share_one_position_are_a_sequence_without_a_place(tmp_path):
    made = files.dataset(files.volume())
    for name in ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing"):
        setattr(made, name, getattr(files.stack(files.volume())[0], name))
    found = read(files.save(tmp_path / "a.dcm", made))
    np.testing.assert_array_equal(found.pixels[0], files.volume())
    assert found.geometry.affine is None


def test_directions_that_are_rounded_do_not_change_the_spacing(tmp_path):
    rounded = np.multiply(files.OBLIQUE, 0.995)
    made = files.stack(files.volume((1, 6, 5)), cosines=rounded)[0]
    spacing = read(files.save(tmp_path / "a.dcm", made)).geometry.spacing
    np.testing.assert_allclose(spacing, (0.5, 0.75), rtol=1e-12)


def test_the_planes_of_a_dose_are_placed_by_their_offsets():
    found = read(DICOM / "rtdose.dcm")
    source = dcmread(DICOM / "rtdose.dcm")
    assert found.geometry.shape == (15, 10, 10)
    start = np.array(source.ImagePositionPatient, float) * [-1, -1, 1]
    np.testing.assert_allclose(found.geometry.affine[:3, 3], start)
    step = source.GridFrameOffsetVector[1]
    np.testing.assert_allclose(found.geometry.affine[:3, 0], [0, 0, step])


def test_slices_without_a_place_go_by_number(tmp_path):
    values = files.volume()
    slices = [files.dataset(v, InstanceNumber=i) for i, v in enumerate(values, start=1)]
    found = read(files.series(tmp_path, shuffled(slices)))
    np.testing.assert_array_equal(found.pixels[0], values)
    assert found.geometry.affine is None


def test_a_film_without_a_place_has_its_spacing(tmp_path):
    made = files.dataset(files.volume((4, 5)), ImagerPixelSpacing=[0.2, 0.3])
    geometry = read(files.save(tmp_path / "film.dcm", made)).geometry
    assert geometry.affine is None
    assert geometry.spacing == (0.2, 0.3)


def test_files_without_preamble_are_read_by_their_name(tmp_path):
    values = files.volume((4, 5))
    for implicit in (True, False):
        path = tmp_path / f"{implicit}.dcm"
        made = files.dataset(values)
        del made.file_meta
        made.save_as(path, implicit_vr=implicit, little_endian=True)
        assert path.read_bytes()[128:132] != b"DICM"
        np.testing.assert_array_equal(read(path).pixels[0], values)


@settings(max_examples=30)
@given(
    angles=st.tuples(*[st.floats(-3.1, 3.1)] * 3),
    start=st.tuples(*[st.floats(-500, 500)] * 3),
    gap=st.floats(0.3, 9),
)
def test_any_direction_is_placed_by_the_equation_of_the_standard(angles, start, gap):
    turn = Rotation.from_euler("xyz", angles).as_matrix().round(6)
    with TemporaryDirectory() as folder:
        slices = files.stack(
            files.volume((3, 2, 2)), gap * turn[:, 2], (*turn[:, 0], *turn[:, 1]), start=start
        )
        found = read(files.series(Path(folder), slices)).geometry
    for i, made in enumerate(slices):
        lps = np.array(made.ImagePositionPatient, float) + turn[:, 1] * 0.5 + turn[:, 0] * 0.75
        np.testing.assert_allclose(
            files.world(found.affine, (i, 1, 1)), lps * [-1, -1, 1], atol=2e-3
        )


def test_a_missing_decoder_gives_the_line_for_pip(monkeypatch):
    with pytest.raises(InvalidImage, match=r"pip install pylibjpeg pylibjpeg-libjpeg") as caught:
        read(DICOM / "JPGExtended.dcm")  # of 12 bits: Pillow alone cannot
    assert "JPEG Extended" in str(caught.value)
    decoder = get_decoder(JPEG2000Lossless)
    monkeypatch.setattr(decoder, "_available", {})
    with pytest.raises(InvalidImage, match=r"no decoder.*pip install .*pylibjpeg-openjpeg"):
        read(DICOM / "MR_small_jp2klossless.dcm")
    monkeypatch.setattr(get_decoder(JPEGLSLossless), "_available", {})
    with pytest.raises(InvalidImage, match=r"JPEG-LS.*no decoder.*pip install pyjpegls"):
        read(DICOM / "MR_small_jpeg_ls_lossless.dcm")


@pytest.mark.parametrize(("syntax", "name"), [(MPEG2MPML, "MPEG2"), ("1.2.3.4.5", "unknown")])
def test_a_compression_that_nothing_decodes_is_refused(tmp_path, syntax, name):
    made = files.dataset(files.volume((4, 5)), PixelData=encapsulate([b"\0" * 8]))
    made["PixelData"].is_undefined_length = True
    made.file_meta.TransferSyntaxUID = syntax
    path = tmp_path / "a.dcm"
    made.save_as(path, implicit_vr=False, little_endian=True, enforce_file_format=True)
    with pytest.raises(InvalidImage, match=rf"compressed \({name}.*uncompressed"):
        read(path)


def test_a_damaged_stream_is_not_taken_for_a_missing_decoder():
    with pytest.raises(InvalidImage, match="damaged") as caught:
        read(DICOM / "JPEG2000-embedded-sequence-delimiter.dcm")
    assert "pip" not in str(caught.value)


def test_run_lengths_of_a_made_file(tmp_path):
    values = files.volume((8, 9))
    made = files.dataset(values)
    made.compress(RLELossless)
    np.testing.assert_array_equal(read(files.save(tmp_path / "a.dcm", made)).pixels[0], values)


def test_frames_that_are_not_all_described_are_refused(tmp_path):
    made = files.enhanced(files.stack(files.volume()), ORDER)
    del made.PerFrameFunctionalGroupsSequence[-1]
    with pytest.raises(InvalidImage, match="4 frames, and describes 3"):
        read(files.save(tmp_path / "a.dcm", made))


@pytest.mark.parametrize(
    "name", ["rtplan.dcm", "test-SR.dcm", "waveform_ecg.dcm", "dicomdirtests/DICOMDIR"]
)
def test_dicom_without_an_image_is_refused(name):
    with pytest.raises(InvalidImage, match="DICOM file without an image"):
        read(DICOM / name)
