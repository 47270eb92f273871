"""Uploads that mean harm, or look like it: name, content, and the status and words they get."""

import gzip
import io
import struct
import zipfile
import zlib

import nibabel
import numpy as np
import tifffile

from tests.data.files import WHOLE, chunk, dataset

PNG, JPEG, DICOM, TIFF = WHOLE["a.png"], WHOLE["a.jpg"], WHOLE["mr.dcm"], WHOLE["plain.tif"]
SCAN = nibabel.Nifti1Image(np.zeros((8, 8, 2), np.int16), np.eye(4)).to_bytes()


def png(side, pixels=b""):
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    data = zlib.compress(pixels)
    return PNG[:8] + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def nifti(**fields):
    """A NIfTI file whose header lies."""
    header = nibabel.Nifti1Header(SCAN[:348], check=False)
    for name, value in fields.items():
        header[name] = value
    return header.binaryblock + SCAN[348:]


def dicom(**fields):
    content = io.BytesIO()
    made = dataset(np.zeros((8, 8), np.int16))
    for name, value in fields.items():
        setattr(made, name, value)
    made.save_as(content, enforce_file_format=True)
    return content.getvalue()


def nested(depth):
    """DICOM sequences in sequences, of undefined length."""
    item = b"\x08\x00\x40\x11SQ\0\0\xff\xff\xff\xff" + b"\xfe\xff\x00\xe0\xff\xff\xff\xff"
    whole = dicom()
    start = whole.index(b"\x08\x00\x16\x00UI")
    return whole[:start] + item * depth


def tiff(**tags):
    """A TIFF file whose tags are overwritten: ImageWidth 256, ImageLength 257, offsets 273."""
    content = bytearray(TIFF)
    at = struct.unpack_from("<I", content, 4)[0]
    for n in range(struct.unpack_from("<H", content, at)[0]):
        place = at + 2 + 12 * n
        number, _, count = struct.unpack_from("<HHI", content, place)
        if f"t{number}" in tags:
            struct.pack_into("<HHII", content, place, number, 4, count, tags[f"t{number}"])
    return bytes(content)


def looped_tiff():
    """A page that is followed by itself."""
    content = bytearray(TIFF)
    at = struct.unpack_from("<I", content, 4)[0]
    number = struct.unpack_from("<H", content, at)[0]
    struct.pack_into("<I", content, at + 2 + 12 * number, at)
    return bytes(content)


def archive():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("a.png", PNG)
    return content.getvalue()


def extended(count, size=16, lie=None):
    """A NIfTI file with a chain of extensions."""
    extension = struct.pack("<ii", lie or size, 6) + b"x" * (size - 8)
    before = 352 + count * size
    return nifti(vox_offset=before)[:348] + b"\1\0\0\0" + extension * count + SCAN[352:]


def large_tiff():
    content = io.BytesIO()
    tifffile.imwrite(content, np.zeros((2000, 2000), np.uint8), compression="zlib")
    return content.getvalue()


ZEROS = gzip.compress(bytes(2**26))
UPLOADS = {
    "nothing at all": ("a.png", b"", 415, "empty"),
    "a bomb by its header": ("a.png", png(60_000), 413, "too large"),
    "a bomb by its content": ("a.png", png(8000, bytes(8001 * 8000)), 413, "too large"),
    "a picture cut short": ("a.png", PNG[: len(PNG) // 2], 422, "cut short|damaged"),
    "a picture with a broken checksum": ("a.png", PNG[:20] + b"\xff" + PNG[21:], 422, "damaged"),
    "an archive named as a picture": ("a.png", archive(), 415, "content is not"),
    "an archive named as a volume": ("a.nii.gz", archive(), 415, "content is not"),
    "a page named as a picture": ("a.jpg", b"<html><script>alert(1)</script>", 415, "is not"),
    "another format than the name says": ("a.png", JPEG, 415, "content is JPEG"),
    "a JPEG cut short": ("a.jpg", JPEG[:200], 422, "cut short|damaged"),
    "DICOM cut short": ("a.dcm", DICOM[: len(DICOM) // 2], 422, "cut short|damaged"),
    "DICOM that announces too much": ("a.dcm", dicom(Rows=65535, Columns=65535), 413, "65535"),
    "DICOM of a million frames": ("a.dcm", dicom(NumberOfFrames=10**6), 413, "1000000"),
    "DICOM without rows": ("a.dcm", dicom(Rows=0), 422, "no pixels"),
    "DICOM nested deeply": ("a.dcm", nested(3000), 422, "cut short|damaged|without"),
    "a gigabyte before the pixels": ("a.nii", nifti(vox_offset=1e9), 422, "1,000,000,000 bytes"),
    "minus a gigabyte before them": ("a.nii", nifti(vox_offset=-1e9), 422, "bytes between"),
    "a volume that announces too much": (
        "a.nii",
        nifti(dim=[3, 30000, 30000, 30000, 1, 1, 1, 1]),
        413,
        "30000",
    ),
    "a heap of extensions": ("a.nii", extended(70_000), 422, "bytes between"),
    "an extension that lies": ("a.nii", extended(2, lie=2**30), 422, "damaged|cut short"),
    "an affine of nothing": ("a.nii", nifti(sform_code=1, srow_x=[0, 0, 0, 0]), 422, "affine"),
    "too many slices": (
        "a.nii",
        nibabel.Nifti1Image(np.zeros((4, 4, 65), np.uint8), np.eye(4)).to_bytes(),
        413,
        "65 slices",
    ),
    "pixels that are no numbers": (
        "a.nii",
        nibabel.Nifti1Image(np.full((8, 8, 2), np.nan, np.float32), np.eye(4)).to_bytes(),
        422,
        "not finite",
    ),
    "too many channels": (
        "a.nii",
        nibabel.Nifti1Image(np.zeros((8, 8, 2, 7), np.uint8), np.eye(4)).to_bytes(),
        422,
        "7 channels",
    ),
    "a zipped volume cut short": ("a.nii.gz", gzip.compress(SCAN)[:40], 415, "cut short"),
    "a zipped bomb": ("a.nii.gz", ZEROS, 415, "content is not"),
    "a zipped bomb with a header": (
        "a.nii.gz",
        gzip.compress(nifti(dim=[3, 1000, 1000, 1000, 1, 1, 1, 1])) + ZEROS,
        413,
        "1000 x 1000 x 1000",
    ),
    "TIFF that announces too much": ("a.tif", tiff(t256=60000, t257=60000), 413, "60000"),
    "TIFF that unpacks to too much": ("a.tif", large_tiff(), 413, "2000 x 2000"),
    "TIFF with strips elsewhere": ("a.tif", tiff(t273=2**31), 422, "cut short|damaged"),
    "TIFF that goes in circles": ("a.tif", looped_tiff(), 422, "damaged|circle|page"),
    "a path for a name": ("../../../etc/passwd", b"root:x:0:0", 415, "^passwd is not an image"),
    "a name of nothing": (" ", b"junk", 415, "image is not an image"),
    "a program": ("a", b"\x7fELF\x02\x01\x01" + bytes(500), 415, "not an image"),
    "a drawing that is a script": ("a.svg", b"<svg><script/></svg>", 415, "not an image"),
    "a pickle": ("a.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '|O'}", 415, "not an image"),
    "an encrypted file": ("a.dcm", b"age-encryption.org/v1\n" + bytes(200), 415, "encrypted"),
}
