"""Masks and maps: exact round trips in every format, and refusals of what does not fit."""

import sys
import threading

import highdicom
import nibabel as nib
import numpy as np
import pytest
import tifffile
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from sitta.data import masks
from sitta.data.images import read, read_mask, write_map, write_mask
from sitta.errors import InvalidImage, InvalidSetting, MissingExtra
from tests.data import files
from tests.data.files import DICOM

ENDINGS = [".png", ".tif", ".nii", ".nii.gz"]


def picture(folder, shape=(6, 7)):
    Pillow.fromarray(files.volume(shape, np.uint8)).save(folder / "image.png")
    return read(folder / "image.png")


def stacked(folder, shape=(4, 6, 5), **where):
    return read(files.series(folder / "series", files.stack(files.volume(shape), **where)))


def scan(folder, shape=(4, 6, 5)):
    affine = nib.affines.from_matvec(np.diag([-2.0, 3, 1]), [9, 8, 7])
    nib.save(nib.Nifti1Image(files.volume(shape), affine), folder / "image.nii")
    return read(folder / "image.nii")


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("source", [picture, lambda folder: scan(folder, (6, 7))])
@pytest.mark.parametrize("classes", [2, 3, 300])
def test_masks_of_images_come_back_as_they_were(tmp_path, ending, source, classes):
    image = source(tmp_path)
    mask = files.volume(image.geometry.shape, np.int64) * 7 % classes
    path = tmp_path / f"mask{ending}"
    write_mask(mask, path, like=image, labels=[f"{i}" for i in range(1, classes)])
    found = read_mask(path, image, classes)
    np.testing.assert_array_equal(found, mask)
    assert found.dtype == (np.uint16 if classes > 256 else np.uint8)


@pytest.mark.parametrize(
    ("source", "ending"),
    [*((s, e) for s in (stacked, scan) for e in ENDINGS[1:]), (stacked, ".dcm")],
)
@pytest.mark.parametrize("shape", [(4, 6, 5), (3, 4, 3), (2, 2, 4)])
def test_masks_of_volumes_come_back_as_they_were(tmp_path, ending, source, shape):
    image = source(tmp_path, shape)
    mask = files.volume(shape, np.uint8) % 3
    write_mask(mask, tmp_path / f"mask{ending}", like=image, labels=["cord", "grey matter"])
    np.testing.assert_array_equal(read_mask(tmp_path / f"mask{ending}", image, 3), mask)


@settings(max_examples=40)
@given(shape=st.tuples(*[st.integers(1, 5)] * 3), ending=st.sampled_from([".tif", ".nii.gz"]))
def test_volumes_with_sides_of_one_come_back_too(tmp_path_factory, shape, ending):
    folder = tmp_path_factory.mktemp("thin")
    image = scan(folder, shape)
    mask = files.volume(image.geometry.shape, np.uint8) % 2
    write_mask(mask, folder / f"mask{ending}", like=image)
    np.testing.assert_array_equal(read_mask(folder / f"mask{ending}", image), mask)


@pytest.mark.parametrize(
    ("cosines", "step"),
    [
        (files.AXIAL, (0, 0, 2.5)),
        (files.OBLIQUE, (-1.5, 2.0, 0)),
        (files.AXIAL, (0, 0.3, 2.4)),
    ],
)
def test_a_mask_of_a_series_written_as_nifti_lies_on_the_series(tmp_path, cosines, step):
    slices = files.stack(files.volume(), cosines=cosines, step=step)
    image = read(files.series(tmp_path / "series", slices))
    mask = np.zeros(image.geometry.shape, np.uint8)
    mask[3, 1, 2] = 1
    write_mask(mask, tmp_path / "mask.nii.gz", like=image)
    written = nib.load(tmp_path / "mask.nii.gz")
    marked = np.argwhere(np.asarray(written.dataobj))
    assert marked.tolist() == [[2, 1, 3]]
    lps = np.array(slices[3].ImagePositionPatient, float)
    lps += np.multiply(cosines[3:], 1 * 0.5) + np.multiply(cosines[:3], 2 * 0.75)
    np.testing.assert_allclose(files.world(written.affine, marked[0]), lps * [-1, -1, 1], atol=1e-4)
    np.testing.assert_allclose(written.header.get_zooms(), image.geometry.spacing[::-1], rtol=1e-6)
    np.testing.assert_array_equal(read_mask(tmp_path / "mask.nii.gz", image), mask)


def test_a_mask_of_a_single_slice_written_as_nifti_lies_on_the_slice(tmp_path):
    image = read(DICOM / "MR_small.dcm")
    mask = np.zeros(image.geometry.shape, np.uint8)
    mask[10, 50] = 1
    write_mask(mask, tmp_path / "mask.nii", like=image)
    written = nib.load(tmp_path / "mask.nii")
    column, row = np.argwhere(np.asarray(written.dataobj))[0]
    np.testing.assert_allclose(
        files.world(written.affine, (column, row, 0)),
        files.world(image.geometry.affine, (10, 50, 0)),
        atol=1e-3,
    )
    np.testing.assert_array_equal(read_mask(tmp_path / "mask.nii", image), mask)


@pytest.mark.parametrize("frames", [None, [2, 0, 3, 1]])
def test_highdicom_finds_each_segment_at_its_slice(tmp_path, frames):
    slices = files.stack(files.volume(), step=(-1.5, 2.0, 0), cosines=files.OBLIQUE)
    files.series(tmp_path / "series", slices)
    image = read(tmp_path / "series")
    if frames:
        image = read(files.save(tmp_path / "multi.dcm", files.enhanced(slices, frames)))
    mask = files.volume(seed=3).astype(np.uint8) % 3
    mask[1] = 0
    write_mask(mask, tmp_path / "seg.dcm", like=image, labels=["cord", "grey matter"])
    seg = highdicom.seg.segread(tmp_path / "seg.dcm")
    assert [seg.get_segment_description(n).segment_label for n in (1, 2)] == ["cord", "grey matter"]
    assert str(seg.PatientName) == files.PATIENT
    found = seg.get_volume(combine_segments=True)
    for index in np.ndindex(found.array.shape):
        lps = found.affine[:3, :3] @ index + found.affine[:3, 3]
        there = np.linalg.solve(image.geometry.affine, [*(lps * [-1, -1, 1]), 1])[:3]
        np.testing.assert_allclose(there, np.round(there), atol=1e-3)
        assert found.array[index] == mask[tuple(np.round(there).astype(int))]
    sources = {ds.SOPInstanceUID for ds in image.header.datasets}
    assert {uid for _, _, uid in seg.get_source_image_uids()} == sources


def test_an_empty_mask_is_a_dicom_seg_too(tmp_path):
    image = stacked(tmp_path)
    write_mask(np.zeros(image.geometry.shape, bool), tmp_path / "seg.dcm", like=image)
    found = read_mask(tmp_path / "seg.dcm", image)
    assert found.shape == image.geometry.shape
    assert not found.any()


def test_slices_without_a_segment_are_kept_in_a_dicom_seg(tmp_path):
    image = stacked(tmp_path)
    mask = np.zeros(image.geometry.shape, np.uint8)
    mask[2, 1, 1] = 1
    write_mask(mask, tmp_path / "seg.dcm", like=image)
    np.testing.assert_array_equal(read_mask(tmp_path / "seg.dcm", image), mask)


def test_a_dicom_seg_of_one_image(tmp_path):
    image = read(DICOM / "CT_small.dcm")
    mask = image.pixels[0] > 0
    write_mask(mask, tmp_path / "seg.dcm", like=image)
    np.testing.assert_array_equal(read_mask(tmp_path / "seg.dcm", image), mask)
    seg = highdicom.seg.segread(tmp_path / "seg.dcm")
    np.testing.assert_array_equal(np.squeeze(seg.pixel_array), mask)


def test_segments_that_overlap_are_no_mask(tmp_path):
    image = stacked(tmp_path)
    write_mask(files.volume() % 3, tmp_path / "seg.dcm", like=image, labels=["cord", "grey matter"])
    seg = highdicom.seg.segread(tmp_path / "seg.dcm")
    seg.PixelData = b"\xff" * len(seg.PixelData)
    seg.save_as(tmp_path / "seg.dcm")
    with pytest.raises(InvalidImage, match="segments overlap"):
        read_mask(tmp_path / "seg.dcm", image, 3)


def test_a_dicom_seg_refers_to_dicom_that_can_be_referred_to(tmp_path):
    with pytest.raises(InvalidImage, match=r"refers to DICOM images.*is PNG.*NIfTI"):
        write_mask(np.zeros((6, 7), bool), tmp_path / "seg.dcm", like=picture(tmp_path))
    made = files.dataset(files.volume((6, 7)))
    del made.StudyInstanceUID
    image = read(files.save(tmp_path / "image.dcm", made))
    with pytest.raises(InvalidImage, match=r"image\.dcm lacks what a DICOM SEG needs") as caught:
        write_mask(np.zeros((6, 7), bool), tmp_path / "seg.dcm", like=image)
    assert "Doe" not in str(caught.value)
    assert not (tmp_path / "seg.dcm").exists()


def test_each_class_of_a_dicom_seg_has_a_name(tmp_path):
    image = stacked(tmp_path)
    with pytest.raises(InvalidSetting, match=r"has a name.*Allowed: 2 labels.*Got: 1"):
        write_mask(files.volume() % 3, tmp_path / "seg.dcm", like=image)


def test_without_highdicom_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "highdicom", None)
    image = read(DICOM / "CT_small.dcm")
    with pytest.raises(MissingExtra, match=r"pip install -e '\.\[dicom-seg\]'"):
        write_mask(np.zeros((128, 128), bool), tmp_path / "seg.dcm", like=image)


@pytest.mark.parametrize("ending", ENDINGS)
def test_maps_come_back(tmp_path, ending):
    image = picture(tmp_path)
    values = np.random.default_rng(0).random((6, 7), dtype=np.float32)
    values[0, :2] = 0, 1
    write_map(torch.from_numpy(values), tmp_path / f"map{ending}", like=image)
    found = read(tmp_path / f"map{ending}")
    pixels = found.pixels[0].T if found.geometry.column_major else found.pixels[0]
    if ending == ".png":
        assert pixels.dtype == np.uint16
        np.testing.assert_array_equal(pixels, np.round(values * 65535).astype(np.uint16))
    else:
        np.testing.assert_array_equal(pixels, values)


def test_a_mask_of_two_classes_can_be_seen_on_a_screen(tmp_path):
    image = picture(tmp_path)
    write_mask(np.ones((6, 7), bool), tmp_path / "mask.png", like=image)
    assert np.asarray(Pillow.open(tmp_path / "mask.png")).max() == 255
    write_mask(torch.ones(6, 7, dtype=torch.long), tmp_path / "mask.tif", like=image)
    assert tifffile.imread(tmp_path / "mask.tif").max() == 255


@pytest.mark.parametrize(
    ("mask", "name", "error", "message"),
    [
        (np.zeros((7, 6), int), "a.png", InvalidImage, r"another size.*6 x 7.*7 x 6"),
        (np.zeros((6, 7)), "a.png", InvalidImage, r"whole numbers.*float64"),
        (np.full((6, 7), -1), "a.png", InvalidImage, r"0 to 65535.*-1 to -1"),
        (np.full((6, 7), 70000), "a.nii", InvalidImage, r"0 to 65535.*70000"),
        (np.zeros((6, 7), int), "a.jpg", InvalidSetting, r"holds masks.*\.png"),
        (np.zeros((6, 7), int), "a", InvalidSetting, r"holds masks"),
    ],
)
def test_what_is_no_mask_of_this_image_is_not_written(tmp_path, mask, name, error, message):
    image = picture(tmp_path)
    with pytest.raises(error, match=message):
        write_mask(mask, tmp_path / name, like=image)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["image.png"]


def test_what_is_no_map_of_this_image_is_not_written(tmp_path):
    image = picture(tmp_path)
    with pytest.raises(InvalidImage, match="not finite"):
        write_map(np.full((6, 7), np.nan), tmp_path / "a.nii", like=image)
    with pytest.raises(InvalidSetting, match="masks only"):
        write_map(np.zeros((6, 7)), tmp_path / "a.dcm", like=image)
    with pytest.raises(InvalidSetting, match=r"PNG holds no volume.*\.tif"):
        write_map(np.zeros((4, 6, 5)), tmp_path / "a.png", like=scan(tmp_path))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_mask_of_another_size_is_refused(tmp_path, ending):
    small = picture(tmp_path, (5, 4))
    write_mask(np.zeros((5, 4), bool), tmp_path / f"mask{ending}", like=small)
    image = picture(tmp_path)
    with pytest.raises(InvalidImage, match=r"another size than its image image\.png.*6 x 7.*5 x 4"):
        read_mask(tmp_path / f"mask{ending}", image)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((np.eye(3), (0, 0, 3)), r"lies up to 3\.00 mm away"),
        ((np.diag([1, 1, 1.5]), (0, 0, 0)), r"mm away"),
        ((np.array([[1, 0.2, 0], [-0.2, 1, 0], [0, 0, 1]]), (0, 0, 0)), r"mm away"),
        ((np.array([[0.7, 0.7, 0], [-0.7, 0.7, 0], [0, 0, 1]]), (0, 0, 0)), r"other directions"),
    ],
)
def test_a_mask_that_lies_elsewhere_is_refused(tmp_path, change, message):
    image = scan(tmp_path)
    affine = nib.affines.from_matvec(*change) @ image.geometry.affine
    nib.save(nib.Nifti1Image(np.zeros((4, 6, 5), np.uint8), affine), tmp_path / "mask.nii")
    with pytest.raises(InvalidImage, match=message):
        read_mask(tmp_path / "mask.nii", image)


def test_a_mask_that_lies_elsewhere_by_rounding_is_taken(tmp_path):
    image = scan(tmp_path)
    affine = image.geometry.affine + 1e-4
    affine[3] = 0, 0, 0, 1
    nib.save(nib.Nifti1Image(np.ones((4, 6, 5), np.uint8), affine), tmp_path / "mask.nii")
    assert read_mask(tmp_path / "mask.nii", image).all()


@pytest.mark.parametrize(
    ("values", "classes", "message"),
    [
        ([[0, 1, 2]], 2, r"two classes: it has 3 values \(0, 1, 2\)"),
        ([[1, 2, 2]], 2, r"two classes: it has 2 values \(1, 2\)"),
        ([[0, 1, 3]], 3, r"3 classes: its values are 0, 1, 3.*0 to 2"),
        ([[0, 1, 0.5]], 3, r"3 classes: its values are 0, 0\.5, 1"),
        ([[0, 1, -1]], 3, r"3 classes: its values are -1, 0, 1"),
        ([[0, 1, np.nan]], 3, r"1 pixels that are not finite"),
        ([range(9)], 2, r"9 values \(0, 1, 2, 3, 4, 5, \.\.\.\)"),
    ],
)
def test_values_that_are_no_classes_are_refused(tmp_path, values, classes, message):
    tifffile.imwrite(tmp_path / "mask.tif", np.array(values, np.float32))
    with pytest.raises(InvalidImage, match=message):
        read_mask(tmp_path / "mask.tif", classes=classes)


@pytest.mark.parametrize("value", [1, 7, 255])
def test_any_one_value_stands_for_the_foreground(tmp_path, value):
    Pillow.fromarray(np.array([[0, value]], np.uint8)).save(tmp_path / "mask.png")
    assert read_mask(tmp_path / "mask.png").tolist() == [[0, 1]]


def test_colours_are_no_mask_unless_all_are_grey(tmp_path):
    Pillow.new("RGB", (5, 4), (0, 0, 9)).save(tmp_path / "mask.png")
    with pytest.raises(InvalidImage, match="3 channels that differ"):
        read_mask(tmp_path / "mask.png")
    Pillow.new("RGBA", (5, 4), (9, 9, 9, 3)).save(tmp_path / "mask.png")
    assert read_mask(tmp_path / "mask.png").all()


def test_one_class_is_no_mask(tmp_path):
    with pytest.raises(InvalidSetting, match=r"two classes or more.*1"):
        read_mask(tmp_path / "mask.png", classes=1)


def test_half_a_file_is_never_seen(tmp_path, monkeypatch):
    image = picture(tmp_path)
    write_mask(np.ones((6, 7), bool), tmp_path / "mask.png", like=image)
    before = (tmp_path / "mask.png").read_bytes()

    def broken(self, target, **_):
        target.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Pillow.Image, "save", broken)
    with pytest.raises(OSError, match="No space"):
        write_mask(np.zeros((6, 7), bool), tmp_path / "mask.png", like=image)
    assert (tmp_path / "mask.png").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_threads_may_write_the_same_file(tmp_path):
    image = picture(tmp_path)
    failed = []

    def many():
        try:
            for _ in range(20):
                masks.write_mask(np.ones((6, 7), bool), tmp_path / "mask.png", like=image)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert read_mask(tmp_path / "mask.png", image).all()
