"""A folder of inputs that cannot be predicted, each for a reason of its own."""

import gzip

import nibabel as nib
import numpy as np
import tifffile
from PIL import Image as Pillow

from tests.data.files import STACK, VALUES, dataset, save, series, stack, tiff_bytes
from tests.data.test_bad_files import huge_nifti, huge_png

REASONS = {
    "empty.png": "is empty (0 bytes)",
    "cut.png": "cut short",
    "really.png": "named as PNG, but its content is JPEG",
    "text.png": "named as PNG, but its content is not",
    "page.dcm": "named as DICOM, but its content is not",
    "secret.nii.gz": "encrypted",
    "cut.nii.gz": "cut short",
    "letter.nii.gz": "named as NIfTI, but its content is not",
    "bomb.png": "too large",
    "bomb.nii": "too large",
    "nan.nii.gz": "not finite numbers",
    "five.nii.gz": "axes",
    "complex.nii.gz": "complex numbers",
    "two.nii.gz": "has 2 channels",
    "plan.dcm": "a DICOM file without pixels",
    "cut.dcm": "cut short",
    "cut.tif": "cut short",
    "pages.tif": "different sizes",
    "zip.jpg": "named as JPEG, but its content is not",
    "gap": "not evenly spaced",
    "twice": "several slices at one position",
}


def fill(folder):
    """Write them all; each is named in ``REASONS`` with a word of what is said about it."""
    folder.mkdir(parents=True, exist_ok=True)
    Pillow.fromarray(VALUES).save(folder / "whole.png")
    Pillow.fromarray(VALUES).save(folder / "really.jpg")
    (folder / "really.jpg").rename(folder / "really.png")
    png, tiff = (folder / "whole.png").read_bytes(), tiff_bytes()
    (folder / "whole.png").unlink()
    content = {
        "empty.png": b"",
        "cut.png": png[: len(png) // 2],
        "text.png": b"this is no picture, whatever its name",
        "page.dcm": b"<html>please log in</html>" * 20,
        "secret.nii.gz": b"Salted__" + bytes(200),
        "letter.nii.gz": gzip.compress(b"Dear colleague, " * 100),
        "cut.tif": tiff[: len(tiff) // 2],
        "zip.jpg": b"PK\x03\x04" + bytes(100),
        "bomb.png": huge_png(60_000),
        "bomb.nii": huge_nifti(dim=[3, 30000, 30000, 30000, 1, 1, 1, 1]),
    }
    for name, data in content.items():
        (folder / name).write_bytes(data)
    _volumes(folder)
    _films(folder)
    return folder


def _volumes(folder):
    arrays = {
        "nan.nii.gz": np.full((4, 4, 2), np.nan, np.float32),
        "five.nii.gz": np.zeros((4, 4, 2, 2, 2), np.uint8),
        "complex.nii.gz": np.zeros((4, 4, 2), np.complex64),
        "two.nii.gz": np.zeros((4, 4, 2, 2), np.uint8),
        "cut.nii.gz": np.random.default_rng(0).random((32, 32, 8)).astype(np.float32),
    }
    for name, values in arrays.items():
        nib.save(nib.Nifti1Image(values, np.eye(4)), folder / name)
    whole = (folder / "cut.nii.gz").read_bytes()
    (folder / "cut.nii.gz").write_bytes(whole[: len(whole) // 2])


def _films(folder):
    plan = dataset(VALUES)
    del plan.PixelData, plan.Rows, plan.Columns
    save(folder / "plan.dcm", plan)
    whole = save(folder / "cut.dcm", dataset(VALUES, series="1.2.99")).read_bytes()
    (folder / "cut.dcm").write_bytes(whole[:-100])
    with tifffile.TiffWriter(folder / "pages.tif") as file:
        file.write(VALUES)
        file.write(VALUES[:9])
    slices = stack(STACK.astype(np.int16))
    series(folder / "gap", [slices[0], slices[1], slices[3]])
    series(folder / "twice", [*slices, slices[2].copy()])
