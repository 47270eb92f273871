"""Files to read in tests: made here, or samples that pydicom and nibabel bring along."""

import gzip
import io
import resource
import struct
import time
import zlib
from pathlib import Path

import nibabel
import numpy as np
import pydicom
import tifffile
from PIL import Image as Pillow
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import (
    CTImageStorage,
    EnhancedMRImageStorage,
    ExplicitVRLittleEndian,
    generate_uid,
)

DICOM = Path(pydicom.__file__).parent / "data" / "test_files"
NIFTI = Path(nibabel.__file__).parent / "tests" / "data"
PATIENT = "Doe^Jane"  # who must never be named in a message
AXIAL = (1, 0, 0, 0, 1, 0)
OBLIQUE = (0.8, 0.6, 0, 0, 0, -1)  # column and row number grow along these


def dataset(pixels, series="1.2.3", **fields):
    """A DICOM image of (H, W), (H, W, 3), or frames of the former, with fields as given."""
    pixels = np.asarray(pixels)
    colour = pixels.ndim > 2 and pixels.shape[-1] == 3 and fields.get("SamplesPerPixel") == 3
    sides = pixels.shape[:-1] if colour else pixels.shape
    made = Dataset()
    made.file_meta = FileMetaDataset()
    made.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    made.SOPClassUID = made.file_meta.MediaStorageSOPClassUID = CTImageStorage
    made.SOPInstanceUID = made.file_meta.MediaStorageSOPInstanceUID = generate_uid()
    made.StudyInstanceUID, made.SeriesInstanceUID, made.FrameOfReferenceUID = "1.2", series, "1.4"
    made.PatientName = made.PatientID = made.SeriesDescription = made.StudyDescription = PATIENT
    made.PatientBirthDate, made.PatientSex, made.StudyDate, made.StudyTime = "", "", "", ""
    made.AccessionNumber = made.ReferringPhysicianName = made.StudyID = ""
    made.Modality, made.Manufacturer, made.SeriesNumber, made.InstanceNumber = "CT", "", 1, 1
    made.Rows, made.Columns = sides[-2:]
    made.SamplesPerPixel, made.PhotometricInterpretation = 1, "MONOCHROME2"
    made.BitsAllocated = made.BitsStored = 8 * pixels.dtype.itemsize
    made.HighBit = made.BitsStored - 1
    made.PixelRepresentation = int(pixels.dtype.kind == "i")
    if len(sides) == 3:
        made.NumberOfFrames = sides[0]
    made.PixelData = pixels.tobytes() + b"\0" * (pixels.nbytes % 2)
    made["PixelData"].VR = "OW" if pixels.dtype.itemsize > 1 else "OB"
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def save(path, made):
    """To disk, with preamble and meta group."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pydicom.dcmwrite(path, made, enforce_file_format=True)
    return path


def stack(volume, step=(0, 0, 2.5), cosines=AXIAL, spacing=(0.5, 0.75), start=(-10, 20, 30)):
    """The slices (D, H, W) of a series, each with its position."""
    return [
        dataset(
            plane,
            InstanceNumber=i + 1,
            ImagePositionPatient=[round(float(v), 4) for v in np.add(start, np.multiply(i, step))],
            ImageOrientationPatient=list(cosines),
            PixelSpacing=list(spacing),
            SliceThickness=2.5,
        )
        for i, plane in enumerate(volume)
    ]


def series(folder, slices, names=None):
    """A folder of slices, whose names say nothing of their order."""
    names = names or [f"{(7 * i + 3) % 101:03d}.dcm" for i in range(len(slices))]
    for name, made in zip(names, slices, strict=True):
        save(folder / name, made)
    return folder


def enhanced(slices, order):
    """One file of several frames, in any order, each described by functional groups."""
    frames = np.stack([np.frombuffer(slices[i].PixelData, np.int16) for i in order])
    first = slices[0]
    made = dataset(frames.reshape(len(order), first.Rows, first.Columns))
    made.SOPClassUID = made.file_meta.MediaStorageSOPClassUID = EnhancedMRImageStorage
    shared, made.PerFrameFunctionalGroupsSequence = Dataset(), []
    for group, names in {
        "PlaneOrientationSequence": ("ImageOrientationPatient",),
        "PixelMeasuresSequence": ("PixelSpacing", "SliceThickness"),
    }.items():
        setattr(shared, group, [_part(first, names)])
    made.SharedFunctionalGroupsSequence = [shared]
    for i in order:
        own = Dataset()
        own.PlanePositionSequence = [_part(slices[i], ("ImagePositionPatient",))]
        scaling = _part(slices[i], ("RescaleSlope", "RescaleIntercept"))
        if scaling:
            own.PixelValueTransformationSequence = [scaling]
        made.PerFrameFunctionalGroupsSequence.append(own)
    return made


def _part(source, names):
    part = Dataset()
    for name in names:
        if name in source:
            setattr(part, name, getattr(source, name))
    return part


def volume(shape=(4, 6, 5), dtype=np.int16, seed=0):
    """Numbers that differ from voxel to voxel."""
    count = int(np.prod(shape))
    return np.random.default_rng(seed).permutation(count).reshape(shape).astype(dtype)


def world(affine, index):
    """Where a voxel lies, in millimetres."""
    return affine[:3, :3] @ np.asarray(index) + affine[:3, 3]


def chunk(kind, content):
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)


class bounded:  # noqa: N801  (reads as a word in a with statement)
    """Neither much memory nor much time is taken."""

    def __enter__(self):
        self.start = time.process_time()  # whatever else the machine does
        self.before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def __exit__(self, *_):
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self.before
        assert grown < 300_000  # kB
        assert time.process_time() - self.start < 20


VALUES = volume((16, 20), np.uint8)
STACK = volume((4, 16, 20), np.uint16)
AFFINE = np.diag([1.0, 2, 3, 1])


def _pillow(kind, **options):
    content = io.BytesIO()
    Pillow.fromarray(VALUES).save(content, kind, **options)
    return content.getvalue()


def tiff_bytes(**options):
    content = io.BytesIO()
    tifffile.imwrite(content, STACK, photometric="minisblack", **options)
    return content.getvalue()


_SCAN = nibabel.Nifti1Image(STACK, AFFINE).to_bytes()
WHOLE = {
    "a.png": _pillow("PNG"),
    "a.jpg": _pillow("JPEG"),
    "a.gif": _pillow("GIF"),
    "a.bmp": _pillow("BMP"),
    "plain.tif": tiff_bytes(),
    "zlib.tif": tiff_bytes(compression="zlib"),
    "lzma.tif": tiff_bytes(compression="lzma", metadata=None),
    "strips.tif": tiff_bytes(rowsperstrip=3),
    "big.tif": tiff_bytes(bigtiff=True),
    "lzw.tif": _pillow("TIFF", compression="tiff_lzw"),
    "a.nii": _SCAN,
    "a.nii.gz": gzip.compress(_SCAN),
    "two.nii": nibabel.Nifti2Image(STACK, AFFINE).to_bytes(),
    "mr.dcm": (DICOM / "MR_small.dcm").read_bytes(),
    "rle.dcm": (DICOM / "MR_small_RLE.dcm").read_bytes(),
    "j2k.dcm": (DICOM / "MR_small_jp2klossless.dcm").read_bytes(),
    "deflated.dcm": (DICOM / "image_dfl.dcm").read_bytes(),
}
