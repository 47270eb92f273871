"""A corrected mask lies on its image for a reader that shares no code with the package."""

import nibabel
import numpy as np
import pytest

from tests.data.files import OBLIQUE, save, stack

itk = pytest.importorskip("SimpleITK", reason="SimpleITK is not installed")
BRIGHT = 600
SIDES = (5, 20, 16)  # slices, rows and columns
# Columns run to the back, rows to the left, slices down: not as they are shown.
TURNED = np.array([[0, -2.0, 0, 12], [-1.5, 0, 0, -7], [0, 0, -3.0, 40], [0, 0, 0, 1]])


def scene():
    """Dark, with a bright block that lies in no middle, and looks like no mirror of itself."""
    volume = np.random.default_rng(0).integers(0, 200, SIDES).astype(np.int16)
    volume[1:4, 3:9, 2:7] = 1000
    volume[2, 3:5, 7:11] = 1000
    return volume


def corrected(small, files, folder):
    """Paint what is bright on the page's own slices; the file of that mask."""
    sent = [("file", (path.name, path.read_bytes(), "application/octet-stream")) for path in files]
    answer = small.ask("POST", "/api/predict", files=sent).json()
    address = f"/api/results/{answer['id']}"
    for n in range(answer["slices"]):
        got = small.get(f"{address}/image.raw", params={"slice": n})
        image = np.frombuffer(got.content, got.headers["X-Values"])
        drawn = (image > BRIGHT).astype(np.uint8)
        said = small.ask("PUT", f"{address}/corrected?slice={n}", content=drawn.tobytes())
        assert said.status_code == 204, said.text
    got = small.get(f"{address}/mask.nii.gz", params={"mask": "corrected"})
    path = folder / "mask.nii.gz"
    path.write_bytes(got.content)
    return itk.ReadImage(str(path))


def overlaps(image, mask):
    """Whether the mask marks what is bright, voxel by voxel, where both lie in the patient."""
    onto = itk.Resample(mask, image, itk.Transform(), itk.sitkNearestNeighbor, 0, itk.sitkUInt8)
    bright = itk.GetArrayFromImage(image) > BRIGHT
    assert bright.sum() == (scene() > BRIGHT).sum()
    np.testing.assert_array_equal(itk.GetArrayFromImage(onto) > 0, bright)


def test_a_nifti_volume(small, tmp_path):
    path = tmp_path / "scan.nii.gz"
    nibabel.save(nibabel.Nifti1Image(scene().transpose(2, 1, 0), TURNED), path)
    mask, image = corrected(small, [path], tmp_path), itk.ReadImage(str(path))
    for side in ("Size", "Spacing", "Origin", "Direction"):
        one, other = (getattr(each, f"Get{side}")() for each in (image, mask))
        np.testing.assert_allclose(one, other, atol=1e-4)
    overlaps(image, mask)


@pytest.mark.parametrize("cosines", [(1, 0, 0, 0, 1, 0), OBLIQUE])
def test_a_dicom_series(small, tmp_path, cosines):
    step = 2.5 * np.cross(cosines[:3], cosines[3:])
    made = stack(scene(), step, cosines)
    folder = tmp_path / "series"
    files = [save(folder / f"{n}.dcm", one) for n, one in enumerate(made)]
    mask = corrected(small, files, tmp_path)
    reader = itk.ImageSeriesReader()
    reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(folder)))
    overlaps(reader.Execute(), mask)
