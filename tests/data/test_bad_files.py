"""Files that are no image, or no longer: each kind has an error of its own."""

import ast
import gzip
import io
import os
import struct
import zipfile
import zlib
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import tifffile
from PIL import Image as Pillow
from pydicom import dcmread
from pydicom.encaps import encapsulate, generate_frames
from pydicom.uid import DeflatedExplicitVRLittleEndian

import sitta
from sitta.data.images import read, read_mask
from sitta.errors import InvalidImage
from sitta.inference.inputs import find_inputs
from tests.data import files
from tests.data.files import AFFINE, DICOM, STACK, VALUES, WHOLE, bounded, tiff_bytes


def put(folder, name, content):
    (folder / name).write_bytes(content)
    return folder / name


@pytest.mark.parametrize("name", [*WHOLE, "no suffix", "notes.txt"])
def test_a_file_of_zero_bytes(tmp_path, name):
    with pytest.raises(InvalidImage, match=r"is empty \(0 bytes\)"):
        read(put(tmp_path, name, b""))


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_cut_anywhere_is_refused_or_lacks_nothing(tmp_path, name):
    content = WHOLE[name]
    expected = read(put(tmp_path, name, content)).pixels
    ends = np.linspace(1, len(content) - 1, 60).astype(int)
    refused = 0
    for end in sorted({*ends, len(content) - 1, len(content) - 2}):
        try:
            found = read(put(tmp_path, name, content[:end])).pixels
        except InvalidImage:
            refused += 1
        else:
            np.testing.assert_array_equal(found, expected)
    assert refused > 45


@pytest.mark.parametrize("name", [n for n in WHOLE if n != "j2k.dcm"])
def test_half_a_file_is_called_cut_short_or_damaged(tmp_path, name):
    with pytest.raises(InvalidImage, match=r"is (cut short|damaged).*(again|announces)"):
        read(put(tmp_path, name, WHOLE[name][: len(WHOLE[name]) * 2 // 3]))


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "plain.tif", "zlib.tif", "a.nii", "a.nii.gz"])
def test_common_formats_that_end_early_are_called_cut_short(tmp_path, name):
    with pytest.raises(InvalidImage, match="is cut short"):
        read(put(tmp_path, name, WHOLE[name][: len(WHOLE[name]) * 4 // 5]))


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("a.png", "scan.jpg", r"named as JPEG, but its content is PNG.*PNG file"),
        ("a.jpg", "scan.dcm", r"named as DICOM, but its content is JPEG"),
        ("mr.dcm", "scan.png", r"named as PNG, but its content is DICOM"),
        ("a.nii.gz", "scan.tif", r"named as TIFF, but its content is NIfTI"),
        ("a.bmp", "scan.nii", r"named as NIfTI, but its content is BMP"),
        ("plain.tif", "scan.gif", r"named as GIF, but its content is TIFF"),
    ],
)
def test_a_mislabelled_file(tmp_path, content, name, message):
    with pytest.raises(InvalidImage, match=message):
        read(put(tmp_path, name, WHOLE[content]))


@pytest.mark.parametrize(
    "content",
    [b"<!DOCTYPE html>", b"version https://git-lfs.github.com/spec/v1", b"\0" * 600, b"BM is text"],
)
def test_what_is_no_image_at_all(tmp_path, content):
    with pytest.raises(InvalidImage, match=r"is not an image that can be read.*Allowed: PNG"):
        read(put(tmp_path, "notes.txt", content))
    for name in ("a.png", "a.jpg", "a.tif", "a.nii", "a.dcm", "a.bmp"):
        with pytest.raises(InvalidImage, match=r"named as .*, but its content is not"):
            read(put(tmp_path, name, content))
    with pytest.raises(InvalidImage, match=r"but its content is not"):
        read(put(tmp_path, "a.nii.gz", gzip.compress(content)))


def secret_zip():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("a.dcm", WHOLE["mr.dcm"])
    changed = bytearray(content.getvalue())
    changed[6] |= 1
    return bytes(changed)


@pytest.mark.parametrize(
    "content",
    [
        b"Salted__12345678" + bytes(64),
        b"age-encryption.org/v1\n",
        b"-----BEGIN PGP MESSAGE-----\n",
        b"\x85\x01\x0c\x03" + bytes(range(200)),
        b"\x8c\x0d\x04\x09" + bytes(64),
        b"0\x82\x10\x00\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x03" + bytes(64),
        secret_zip(),
    ],
)
@pytest.mark.parametrize("name", ["a.dcm", "a.nii.gz", "a.png", "a"])
def test_an_encrypted_file(tmp_path, content, name):
    with pytest.raises(InvalidImage, match=r"is encrypted.*decrypt it first"):
        read(put(tmp_path, name, content))


def huge_png(side):
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    parts = [
        files.chunk(b"IHDR", header),
        files.chunk(b"IDAT", zlib.compress(bytes(999))),
        files.chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def huge_jpeg():
    content = bytearray(WHOLE["a.jpg"])
    where = content.index(b"\xff\xc0") + 5
    content[where : where + 4] = b"\xff" * 4
    return bytes(content)


def huge_nifti(**header):
    file = nib.Nifti1Image(STACK, AFFINE)
    content = bytearray(file.to_bytes())
    made = nib.Nifti1Header.from_fileobj(io.BytesIO(bytes(content)))
    for name, value in header.items():
        made[name] = value
    content[:348] = made.binaryblock
    return bytes(content)


def huge_tiff(**options):
    content = bytearray(tiff_bytes(metadata=None, **options))
    with tifffile.TiffFile(io.BytesIO(bytes(content))) as file:
        for number in (256, 257):
            tag = file.pages[0].tags[number]
            value = struct.pack("<HI", 4, 1) + struct.pack("<I", 60000)
            content[tag.offset + 2 : tag.offset + 12] = value
    return bytes(content)


def huge_dicom():
    made = dcmread(DICOM / "MR_small.dcm")
    made.Rows = made.Columns = 65535
    made.NumberOfFrames = 1000
    content = io.BytesIO()
    made.save_as(content)
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.png", huge_png(100_000)),
        ("b.png", huge_png(14_000)),
        ("a.jpg", huge_jpeg()),
        ("a.nii", huge_nifti(dim=[3, 30000, 30000, 30000, 1, 1, 1, 1])),
        ("a.nii.gz", gzip.compress(huge_nifti(dim=[3, 30000, 30000, 3, 1, 1, 1, 1]))),
        ("a.tif", huge_tiff()),
        ("b.tif", huge_tiff(compression="zlib")),
        ("a.dcm", huge_dicom()),
    ],
)
def test_a_header_that_announces_an_absurd_size(tmp_path, name, content):
    with pytest.raises(InvalidImage, match="too large"):
        read(put(tmp_path, name, content))


def test_the_limit_can_be_set(tmp_path):
    path = put(tmp_path, "a.nii", WHOLE["a.nii"])
    with pytest.raises(InvalidImage, match=r"too large.*4 x 16 x 20.*at most 1,279 values"):
        read(path, limit=1279)
    assert read(path, limit=1280).pixels.size == 1280


def deflated_zeros(count=1 << 31):
    """A raw stream of many zeros: one block of a million, again and again."""
    packer = zlib.compressobj(9, wbits=-15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * (count >> 20) + b"\x03\0"


def test_strips_that_unpack_to_gigabytes(tmp_path):
    bomb = b"\x78\x9c" + deflated_zeros()
    whole = bytearray(tiff_bytes(compression="zlib", metadata=None))
    with tifffile.TiffFile(io.BytesIO(bytes(whole))) as file:
        tags = file.pages[0].tags
        for number, value in ((273, len(whole)), (279, len(bomb))):
            where = tags[number].offset
            whole[where + 2 : where + 12] = struct.pack("<HII", 4, 1, value)
    with bounded(), pytest.raises(InvalidImage, match="unpacks to more than its header announces"):
        read(put(tmp_path, "a.tif", bytes(whole) + bomb))


def test_a_zipped_volume_that_unpacks_to_gigabytes(tmp_path):
    tail = gzip.compress(b"")[:10] + deflated_zeros()
    path = put(tmp_path, "a.nii.gz", gzip.compress(WHOLE["a.nii"]) + tail)
    with bounded():
        np.testing.assert_array_equal(read(path).pixels[0], STACK)
    late = gzip.compress(huge_nifti(vox_offset=2.0**29)[:352]) + tail
    with bounded(), pytest.raises(InvalidImage, match="bytes before the pixels"):
        read(put(tmp_path, "b.nii.gz", late))
    long = (
        bytearray(huge_nifti(vox_offset=1024)[:348]) + b"\1\0\0\0" + struct.pack("<ii", 1 << 30, 6)
    )
    with bounded(), pytest.raises(InvalidImage, match="damaged"):  # an extension of a gigabyte
        read(put(tmp_path, "c.nii.gz", gzip.compress(long) + tail))


def deflated_bomb(folder):
    """A deflated DICOM file whose header is small and whose pixels never end."""
    made = files.dataset(VALUES)
    made.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    content = files.save(folder / "a.dcm", made).read_bytes()
    start = 144 + int.from_bytes(content[140:144], "little")
    inflated = zlib.decompress(content[start:], -zlib.MAX_WBITS)
    packer = zlib.compressobj(9, wbits=-15)
    head = packer.compress(inflated) + packer.flush(zlib.Z_FULL_FLUSH)
    return content[:start], head + deflated_zeros()


def test_a_deflated_file_that_unpacks_to_gigabytes(tmp_path):
    put(tmp_path, "a.dcm", b"".join(deflated_bomb(tmp_path)))
    for target in (tmp_path / "a.dcm", tmp_path):
        with bounded(), pytest.raises(InvalidImage, match="unpacks to more than its header"):
            read(target)


def test_copies_of_a_deflated_file_that_unpacks_to_gigabytes(tmp_path):
    bomb = b"".join(deflated_bomb(tmp_path))
    for name in ("a.dcm", "b.dcm"):
        put(tmp_path, name, bomb)
    with bounded():
        (found,) = find_inputs([tmp_path], tmp_path / "out")  # are they one series?
    assert found.path == tmp_path
    with bounded(), pytest.raises(InvalidImage, match="unpacks to more than its header"):
        read(tmp_path)


def test_a_deflated_file_without_its_preamble_is_not_inflated(tmp_path):
    bomb = b"".join(deflated_bomb(tmp_path))
    with bounded(), pytest.raises(InvalidImage, match="deflated DICOM file without a preamble"):
        read(put(tmp_path, "a.dcm", bomb[132:]))


def test_a_deflated_file_inside_a_deflated_file_is_not_inflated(tmp_path):
    start, bomb = deflated_bomb(tmp_path)
    packer = zlib.compressobj(9, wbits=-15)
    inner = packer.compress(start + bomb) + packer.flush()
    with bounded(), pytest.raises(InvalidImage):
        read(put(tmp_path, "a.dcm", start + inner))


def names_in(path):
    """All names that the code of a module uses: comments and texts do not count."""
    for node in ast.walk(ast.parse(path.read_text())):
        for field in ("id", "attr", "name"):
            yield getattr(node, field, None)


def test_pydicom_parses_files_in_one_guarded_place_only():
    forbidden = {"dcmread", "read_partial", "read_dicomdir", "FileSet"}  # inflate whole files
    source = Path(sitta.__file__).parent
    users = {p.name for p in source.rglob("*.py") if forbidden & set(names_in(p))}
    assert users == {"dicom_parse.py"}


@pytest.mark.parametrize("name", ["MR_small_jp2klossless.dcm", "MR_small_jpeg_ls_lossless.dcm"])
def test_a_stream_that_is_larger_than_its_header_says(tmp_path, name):
    content = bytearray((DICOM / name).read_bytes())
    if "jp2k" in name:
        where = content.index(b"\xff\x4f\xff\x51") + 8
        content[where : where + 8] = struct.pack(">II", 60000, 60000)
    else:
        where = content.index(b"\xff\xd8\xff\xf7") + 7
        content[where : where + 4] = struct.pack(">HH", 60000, 60000)
    with bounded(), pytest.raises(InvalidImage, match=r"64 x 64 pixels, and .* 60000 x 60000"):
        read(put(tmp_path, name, bytes(content)))


def box(kind, content, length=None):
    return struct.pack(">I", len(content) + 8 if length is None else length) + kind + content


def boxed_picture(folder, filler, change=bytes):
    """A compressed file whose picture lies in a JP2 container, after a filler box."""
    made = dcmread(DICOM / "MR_small_jp2klossless.dcm")
    (code,) = generate_frames(made.PixelData, number_of_frames=1)
    sides = struct.pack(">IIHBBBB", 64, 64, 1, 15, 7, 0, 0)
    colours = box(b"colr", b"\1\0\0" + struct.pack(">I", 17))
    head = box(b"ftyp", b"jp2 \0\0\0\0jp2 ") + box(b"jp2h", box(b"ihdr", sides) + colours)
    picture = box(b"jP  ", b"\r\n\x87\n") + head + filler + box(b"jp2c", change(code))
    made.PixelData = encapsulate([picture])
    return files.save(folder / "boxed.dcm", made)


@pytest.mark.parametrize("length", [0, 1, 7, 2**32 - 1])
def test_boxes_around_a_picture_that_lead_nowhere(tmp_path, length):
    path = boxed_picture(tmp_path, box(b"free", bytes(8), length))
    with bounded(), pytest.raises(InvalidImage, match=r"boxes .* lead nowhere.*export it again"):
        read(path)  # pydicom stays at a box of length 0 for ever


def test_boxes_around_a_picture_are_followed_however_long_they_are(tmp_path):
    expected = read(DICOM / "MR_small_jp2klossless.dcm").pixels
    long = box(b"free", bytes(999))
    np.testing.assert_array_equal(read(boxed_picture(tmp_path, long)).pixels, expected)

    def larger(code):
        return code[:8] + struct.pack(">II", 60000, 60000) + code[16:]

    path = boxed_picture(tmp_path, long, larger)
    with bounded(), pytest.raises(InvalidImage, match=r"64 x 64 pixels, and .* 60000 x 60000"):
        read(path)


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("pages", [1, 2, 3])
def test_pages_of_a_tiff_that_run_in_a_circle(tmp_path, pages, big):
    content = io.BytesIO()
    with tifffile.TiffWriter(content, bigtiff=big) as file:
        for _ in range(pages):
            file.write(VALUES, metadata=None)
    whole = bytearray(content.getvalue())
    with tifffile.TiffFile(io.BytesIO(bytes(whole))) as file:
        first, last = file.pages[0].offset, file.pages[-1]
        size = 8 if big else 4
        end = last.offset + (8 + 20 * len(last.tags) if big else 2 + 12 * len(last.tags))
    whole[end : end + size] = first.to_bytes(size, "little")
    with bounded(), pytest.raises(InvalidImage, match="pages run in a circle"):
        read(put(tmp_path, "a.tif", bytes(whole)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["tif", "nii", "dcm"])
def test_pixels_that_are_no_numbers(tmp_path, value, kind):
    values = np.zeros((4, 5), np.float32)
    values[1, :3] = value
    path = tmp_path / f"a.{kind}"
    if kind == "tif":
        tifffile.imwrite(path, values)
    elif kind == "nii":
        nib.save(nib.Nifti1Image(values, AFFINE), path)
    else:
        made = files.dataset(values.view(np.uint32), FloatPixelData=values.tobytes())
        del made.PixelData
        files.save(path, made)
    for reader in (read, read_mask):
        with pytest.raises(InvalidImage, match=r"has 3 pixels that are not finite.*nan_to_num"):
            reader(path)


def test_images_without_pixels(tmp_path):
    made = files.dataset(VALUES)
    made.Rows = 0
    with pytest.raises(InvalidImage, match=r"no pixels: its header says 1 x 0 x 20"):
        read(files.save(tmp_path / "a.dcm", made))
    with pytest.raises(InvalidImage, match=r"no pixels|damaged"):
        read(put(tmp_path, "a.nii", huge_nifti(dim=[3, 4, 0, 20, 1, 1, 1, 1])))


def test_a_pair_of_header_and_pixels_is_named_as_such(tmp_path):
    with pytest.raises(InvalidImage, match=r"one half of a NIfTI pair.*one \.nii file"):
        read(files.NIFTI / "nifti1.hdr")
    content = (files.NIFTI / "nifti2.hdr").read_bytes()
    with pytest.raises(InvalidImage, match="one half of a NIfTI pair"):
        read(put(tmp_path, "a.nii", content))


def test_a_zipped_file_that_cannot_be_unzipped(tmp_path):
    with pytest.raises(InvalidImage, match="cannot be unzipped"):
        read(put(tmp_path, "a.nii.gz", b"\x1f\x8b" + b"\0" * 50))
    broken = bytearray(WHOLE["a.nii.gz"])
    broken[-6] ^= 1  # in the sum at its end
    with pytest.raises(InvalidImage, match="damaged"):
        read(put(tmp_path, "a.nii.gz", bytes(broken)))


@pytest.mark.parametrize("name", ["a\0b.png", "\ud800.png"])
def test_a_name_that_no_file_can_have(name):
    with pytest.raises(InvalidImage, match="cannot be the name of a file"):
        read(name)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(InvalidImage, match="neither a file nor a folder"):
        read(tmp_path / "a.png")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path):
    path = put(tmp_path, "a.png", WHOLE["a.png"])
    path.chmod(0)
    with pytest.raises(PermissionError):
        read(path)


def test_an_error_of_the_disk_is_not_called_damage(tmp_path, monkeypatch):
    path = put(tmp_path, "a.png", WHOLE["a.png"])

    def broken(*_, **__):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Pillow, "open", broken)
    with pytest.raises(OSError, match="Input/output error") as caught:
        read(path)
    assert not isinstance(caught.value, InvalidImage)


@pytest.mark.parametrize("field", ["Rows", "PixelSpacing", "InstanceNumber", "RescaleSlope"])
def test_no_message_names_the_patient_even_where_a_number_should_be(tmp_path, field):
    made = files.stack(files.volume())[0]
    made.RescaleSlope = made.RescaleIntercept = 3
    made[field].VR  # noqa: B018  (the element is there)
    made.add_new(made[field].tag, "LO", files.PATIENT)
    path = tmp_path / "a.dcm"
    made.save_as(path, implicit_vr=False, little_endian=True, enforce_file_format=True)
    for target in (path, tmp_path):
        with pytest.raises(InvalidImage) as caught:
            read(target)
        seen = str(caught.value) + str(caught.value.__cause__)
        assert "Doe" not in seen
        assert caught.value.__suppress_context__
