"""Folders that are, or are not, one even stack of DICOM slices."""

import numpy as np
import pytest
from pydicom.uid import BasicTextSRStorage

from sitta.data.images import read
from sitta.errors import InvalidImage
from tests.data import files

ORDER = [2, 0, 3, 1]


def shuffled(slices):
    return [slices[i] for i in ORDER]


def missing(slices):
    return slices[:1] + slices[2:]


def twice(slices):
    again = files.stack(files.volume(seed=1))[1]
    return [*slices, again]


def two_series(slices):
    slices[0].SeriesInstanceUID = "1.2.3.99"
    return slices


def turned(slices):
    slices[2].ImageOrientationPatient = list(files.OBLIQUE)
    return slices


def other_size(slices):
    slices[1] = files.dataset(files.volume((9, 9)), InstanceNumber=2)
    return slices


def other_spacing(slices):
    slices[1].PixelSpacing = [0.7, 0.75]
    return slices


def sideways(slices):
    slices[1].ImagePositionPatient = [5, 20, 32.5]
    return slices


def homeless(slices):
    del slices[1].ImagePositionPatient
    return slices


def mixed(slices):
    colours = np.zeros((6, 5, 3), np.uint8)
    made = files.dataset(colours, SamplesPerPixel=3, PhotometricInterpretation="RGB")
    made.PlanarConfiguration = 0
    for name in ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing"):
        setattr(made, name, getattr(slices[1], name))
    slices[1] = made
    return slices


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (missing, r"not evenly spaced: 2.50 to 5.00 mm"),
        (twice, r"several slices at one position"),
        (two_series, r"holds 2 series \(of .* files\).*folder of its own"),
        (turned, r"not parallel"),
        (other_size, r"different sizes: 6 x 5 and 9 x 9"),
        (other_spacing, r"pixels of different sizes"),
        (sideways, r"one straight stack"),
        (homeless, r"1 of its 4 slices do not say where they lie"),
        (mixed, r"different numbers of frames or colours"),
    ],
)
def test_a_folder_that_is_no_even_stack_is_refused(tmp_path, change, message):
    slices = change(files.stack(files.volume()))
    with pytest.raises(InvalidImage, match=message) as caught:
        read(files.series(tmp_path, slices))
    assert "Doe" not in str(caught.value)


def test_what_lies_beside_the_slices_is_passed_over(tmp_path):
    values = files.volume()
    files.series(tmp_path, files.stack(values))
    (tmp_path / "notes.txt").write_text("read me")
    (tmp_path / "empty.log").write_bytes(b"")
    (tmp_path / ".hidden").write_bytes(b"x")
    (tmp_path / "DICOMDIR").write_bytes(b"x")
    (tmp_path / "more").mkdir()
    report = files.dataset(values[0], series="1.2.9", SOPClassUID=BasicTextSRStorage)
    del report.Rows, report.Columns, report.PixelData
    files.save(tmp_path / "report.dcm", report)
    np.testing.assert_array_equal(read(tmp_path).pixels[0], values)


@pytest.mark.parametrize("name", ["009.dcm", "IM0009", "1.2.840.9"])
@pytest.mark.parametrize("content", [b"", b"no slice at all", b"\0" * 500])
def test_a_broken_file_among_the_slices_is_not_passed_over(tmp_path, name, content):
    files.series(tmp_path, files.stack(files.volume()))
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidImage, match=f"{name}.*among the slices"):
        read(tmp_path)


def test_a_slice_that_was_cut_is_not_passed_over(tmp_path):
    files.series(tmp_path, files.stack(files.volume()))
    path = sorted(tmp_path.iterdir())[-1]
    content = path.read_bytes()
    for end in (300, 500, len(content) - 80, len(content) - 2):
        path.write_bytes(content[:end])
        with pytest.raises(InvalidImage, match=f"{path.name} is cut short"):
            read(tmp_path)


def test_a_folder_without_dicom_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(InvalidImage, match=r"holds no DICOM image.*one series"):
        read(tmp_path)
