"""PNG, JPEG, GIF, BMP and TIFF: every depth and layout, upright and without loss."""

import os
import struct
import warnings
import zlib

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image as Pillow
from PIL import ImageOps

from sitta.data.formats.errors import QUIET
from sitta.data.images import read, read_mask, stem, suffix, write_mask
from sitta.errors import InvalidImage
from tests.data import files


def png(values, colour):
    """A PNG of 16 bits of any colour type, which Pillow cannot write."""
    height, width = values.shape[:2]
    rows = values.astype(">u2").reshape(height, -1)
    packed = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, 0)
    parts = [
        files.chunk(b"IHDR", header),
        files.chunk(b"IDAT", zlib.compress(packed)),
        files.chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def adam7(values):
    """An interlaced PNG of 8 bits."""
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2)]
    packed = b""
    for top, left, down, right in [*passes, (1, 0, 2, 1)]:
        for row in values[top::down, left::right]:
            packed += b"\0" + row.tobytes() if row.size else b""
    header = struct.pack(">IIBBBBB", *values.shape[::-1], 8, 0, 0, 0, 1)
    parts = [
        files.chunk(b"IHDR", header),
        files.chunk(b"IDAT", zlib.compress(packed)),
        files.chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize(("colour", "bands", "kept"), [(0, 1, 1), (4, 2, 1), (2, 3, 3), (6, 4, 3)])
def test_png_of_16_bits_keeps_every_bit(tmp_path, colour, bands, kept):
    values = np.random.default_rng(0).integers(0, 65536, (7, 5, bands), np.uint16)
    (tmp_path / "a.png").write_bytes(png(values, colour))
    found = read(tmp_path / "a.png")
    assert found.pixels.dtype == np.uint16
    np.testing.assert_array_equal(found.pixels, np.moveaxis(values[..., :kept], 2, 0))


@pytest.mark.parametrize(
    ("mode", "channels"), [("L", 1), ("LA", 1), ("RGB", 3), ("RGBA", 3), ("1", 1)]
)
def test_png_of_8_bits_loses_nothing_but_its_alpha(tmp_path, mode, channels):
    bands = len(Pillow.new(mode, (1, 1)).getbands())
    values = np.random.default_rng(0).integers(0, 256, (7, 5, bands), np.uint8)
    made = Pillow.fromarray(values[..., 0] if bands == 1 else values, "L" if mode == "1" else None)
    made = made.convert(mode)
    made.save(tmp_path / "a.png")
    found = read(tmp_path / "a.png").pixels
    expected = np.asarray(made.convert("L") if mode == "1" else made)
    expected = np.atleast_3d(expected)[..., :channels]
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, np.moveaxis(expected, 2, 0))


def test_interlaced_png(tmp_path):
    values = files.volume((13, 11), np.uint8)
    (tmp_path / "a.png").write_bytes(adam7(values))
    np.testing.assert_array_equal(read(tmp_path / "a.png").pixels[0], values)


@pytest.mark.parametrize("kind", ["png", "gif", "bmp", "tif"])
def test_a_palette_becomes_colours_and_its_numbers_are_kept(tmp_path, kind):
    numbers = files.volume((4, 5), np.uint8) % 3
    made = Pillow.fromarray(numbers)
    made = made.convert("P")
    made.putpalette([10, 20, 30, 255, 0, 0, 0, 255, 7] + [0] * 759)
    made.save(tmp_path / f"a.{kind}")
    found = read(tmp_path / f"a.{kind}")
    colours = np.array([[10, 20, 30], [255, 0, 0], [0, 255, 7]])[numbers]
    scale = 256 if kind == "tif" else 1  # TIFF has palettes of 16 bits, of which Pillow fills 8
    np.testing.assert_array_equal(found.pixels // scale, np.moveaxis(colours, 2, 0))
    np.testing.assert_array_equal(found.indices, numbers)
    np.testing.assert_array_equal(read_mask(tmp_path / f"a.{kind}", classes=3), numbers)


def test_a_palette_of_greys_is_one_channel(tmp_path):
    values = files.volume((4, 5), np.uint8)
    Pillow.fromarray(values).convert("P").save(tmp_path / "a.png")
    np.testing.assert_array_equal(read(tmp_path / "a.png").pixels, values[None])


def test_colours_stay_three_channels_even_if_all_are_grey(tmp_path):
    Pillow.new("RGB", (5, 4), (9, 9, 9)).save(tmp_path / "a.png")
    assert read(tmp_path / "a.png").pixels.shape == (3, 4, 5)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["jpg", "png", "tif"])
def test_pictures_are_upright_as_their_orientation_says(tmp_path, orientation, kind):
    values = np.zeros((16, 24, 3), np.uint8)
    values[:8, :8], values[8:, :8] = 255, (255, 0, 0)
    made = Pillow.fromarray(values)
    made.getexif()[274] = orientation
    made.save(tmp_path / f"a.{kind}", exif=made.getexif())
    found = read(tmp_path / f"a.{kind}")
    with Pillow.open(tmp_path / f"a.{kind}") as file:
        expected = np.moveaxis(np.asarray(ImageOps.exif_transpose(file)), 2, 0)
    np.testing.assert_array_equal(found.pixels, expected)
    assert found.geometry.shape == ((16, 24) if orientation < 5 else (24, 16))
    write_mask(found.pixels[0] > 99, tmp_path / "mask.png", like=found)
    np.testing.assert_array_equal(read_mask(tmp_path / "mask.png", found), found.pixels[0] > 99)


def test_a_turned_palette_has_its_numbers_turned_too(tmp_path):
    numbers = files.volume((3, 5), np.uint8) % 2
    made = Pillow.fromarray(numbers).convert("P")
    made.putpalette([0, 0, 0, 255, 0, 0] + [0] * 762)
    made.getexif()[274] = 6
    made.save(tmp_path / "a.png", exif=made.getexif())
    found = read(tmp_path / "a.png")
    np.testing.assert_array_equal(found.indices, np.rot90(numbers, -1))
    np.testing.assert_array_equal(found.pixels[0] // 255, np.rot90(numbers, -1))


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3), ("CMYK", 3)])
def test_jpeg_is_what_pillow_decodes(tmp_path, mode, channels):
    values = np.linspace(0, 255, 16 * 24 * 3).reshape(16, 24, 3).astype(np.uint8)
    Pillow.fromarray(values).convert(mode).save(tmp_path / "A.JPG", format="JPEG")
    found = read(tmp_path / "A.JPG")
    with Pillow.open(tmp_path / "A.JPG") as file:
        expected = np.asarray(file.convert("RGB") if mode == "CMYK" else file)
    np.testing.assert_array_equal(found.pixels, np.moveaxis(np.atleast_3d(expected), 2, 0))
    assert (found.kind, len(found.pixels)) == ("JPEG", channels)


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "i1", "i2", "i4", "f2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(7, 9), (5, 7, 9), (3, 7, 9), (5, 7, 3), (2, 3, 4)])
@pytest.mark.parametrize("compression", [None, "zlib", "lzma"])
def test_tiff_of_any_depth_and_several_pages_keeps_every_bit(tmp_path, dtype, shape, compression):
    values = files.volume(shape).astype(dtype)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, values, compression=compression, photometric="minisblack")
    found = read(path).pixels
    assert found.dtype == dtype
    np.testing.assert_array_equal(found[0], values)


@pytest.mark.parametrize(
    "options",
    [
        {"bigtiff": True},
        {"byteorder": ">"},
        {"tile": (16, 16), "compression": "zlib", "predictor": True},
        {"rowsperstrip": 3},
        {"rowsperstrip": 3, "compression": "zlib"},
        {"metadata": None},
    ],
)
def test_layouts_of_tiff(tmp_path, options):
    values = files.volume((3, 20, 30), np.uint16)
    tifffile.imwrite(tmp_path / "a.tiff", values, photometric="minisblack", **options)
    found = read(tmp_path / "a.tiff").pixels
    assert found.dtype == np.uint16
    assert found.dtype.isnative
    np.testing.assert_array_equal(found[0], values)


@pytest.mark.parametrize("planar", ["contig", "separate"])
@pytest.mark.parametrize("bands", [3, 4])
def test_colours_of_tiff(tmp_path, planar, bands):
    values = files.volume((6, 7, bands), np.uint8)
    stored = values if planar == "contig" else np.moveaxis(values, 2, 0)
    extra = {"extrasamples": ["unassalpha"]} if bands == 4 else {}
    tifffile.imwrite(tmp_path / "a.tif", stored, photometric="rgb", planarconfig=planar, **extra)
    found = read(tmp_path / "a.tif").pixels
    np.testing.assert_array_equal(found, np.moveaxis(values[..., :3], 2, 0))


@pytest.mark.parametrize(("name", "options"), [("a.tif", {"imagej": True}), ("a.ome.tif", {})])
def test_named_axes_of_tiff_put_channels_first(tmp_path, name, options):
    values = files.volume((4, 2, 7, 9), np.uint16)
    tifffile.imwrite(tmp_path / name, values, metadata={"axes": "ZCYX"}, **options)
    np.testing.assert_array_equal(read(tmp_path / name).pixels, values.swapaxes(0, 1))


@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_adobe_deflate", "packbits"])
@pytest.mark.parametrize("mode", ["1", "L", "RGB", "RGBA", "I;16", "F", "CMYK"])
def test_what_pillow_writes_as_tiff(tmp_path, compression, mode):
    values = np.random.default_rng(0).integers(0, 256, (16, 24), np.uint8)
    types = {"I;16": np.uint16, "F": np.float32}
    made = Pillow.fromarray(values.astype(types.get(mode, np.uint8)) * 3)
    made = made if mode in types else made.convert(mode)
    made.save(tmp_path / "a.tif", compression=compression)
    expected = np.atleast_3d(np.asarray(made.convert("RGB") if mode == "CMYK" else made))
    expected = np.moveaxis(expected, 2, 0)[: 3 if len(mode) > 2 and mode != "I;16" else 1]
    found = read(tmp_path / "a.tif").pixels
    assert found.dtype.itemsize == expected.dtype.itemsize
    np.testing.assert_array_equal(found, expected)


def test_pages_that_pillow_decodes_become_a_volume(tmp_path):
    values = files.volume((4, 6, 7), np.uint16)
    pages = [Pillow.fromarray(page) for page in values]
    path = tmp_path / "a.tif"
    pages[0].save(path, save_all=True, append_images=pages[1:], compression="tiff_lzw")
    np.testing.assert_array_equal(read(path).pixels[0], values)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16, np.float32])
def test_tiff_whose_zero_is_white_is_inverted(tmp_path, dtype):
    values = files.volume((4, 5), dtype)
    tifffile.imwrite(tmp_path / "a.tif", values, photometric="miniswhite")
    found = read(tmp_path / "a.tif").pixels[0]
    highest = {"u": np.iinfo, "i": lambda _: -1, "f": lambda _: 0}[np.dtype(dtype).kind](dtype)
    top = getattr(highest, "max", highest)
    np.testing.assert_array_equal(found, top - values)


@pytest.mark.parametrize("compression", [None, "group4"])
@pytest.mark.parametrize("white", [0, 1])
def test_a_mask_of_single_bits_is_the_same_whichever_bit_is_white(tmp_path, compression, white):
    mask = files.volume((5, 16), np.uint8) % 2
    made = Pillow.fromarray(mask * 255).convert("1")
    made.save(tmp_path / "a.tif", compression=compression, tiffinfo={262: 1 - white})
    with Pillow.open(tmp_path / "a.tif") as file:
        assert file.tag_v2[262] == 1 - white
        expected = np.asarray(file)
    np.testing.assert_array_equal(read_mask(tmp_path / "a.tif"), expected)


def lzw(content):
    """The simplest stream of LZW: every byte by itself."""
    codes = [256]
    for i, byte in enumerate(content, start=1):
        codes += [byte, 256] if i % 200 == 0 else [byte]
    bits = "".join(f"{code:09b}" for code in [*codes, 257])
    bits += "0" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_deep_colours_that_would_lose_their_lower_bits_are_refused(tmp_path, dtype):
    values = files.volume((4, 5, 3), dtype)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, values, photometric="rgb", metadata=None)
    content, stream = bytearray(path.read_bytes()), lzw(values.tobytes())
    with tifffile.TiffFile(path) as file:
        tags = file.pages[0].tags
        for number, value in ((259, 5), (273, len(content)), (279, len(stream))):
            where = tags[number].offset
            content[where + 2 : where + 12] = struct.pack("<HII", 4, 1, value)
    path.write_bytes(content + stream)
    if dtype == np.uint8:  # as a check of the file
        np.testing.assert_array_equal(read(path).pixels, np.moveaxis(values, 2, 0))
    else:
        with pytest.raises(InvalidImage, match=r"cannot be read here without loss.*deflate"):
            read(path)


def test_alpha_of_grey_tiff_is_left_out_and_other_samples_are_kept(tmp_path):
    values = files.volume((6, 7, 2), np.uint8)
    for kind, kept in (("unassalpha", 1), ("unspecified", 2)):
        options = {"photometric": "minisblack", "planarconfig": "contig", "extrasamples": [kind]}
        tifffile.imwrite(tmp_path / "a.tif", values, **options)
        found = read(tmp_path / "a.tif").pixels
        np.testing.assert_array_equal(found, np.moveaxis(values[..., :kept], 2, 0))


def test_images_of_different_sizes_in_one_tiff_are_refused(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(np.zeros((4, 5), np.uint8))
        file.write(np.zeros((6, 7), np.uint8))
    with pytest.raises(InvalidImage, match=r"2 images.*4 x 5, 6 x 7"):
        read(tmp_path / "a.tif")


def test_a_tiff_never_opens_the_files_that_it_names(tmp_path):
    values = files.volume((2, 4, 5), np.uint8)
    path = tmp_path / "a.ome.tif"
    tifffile.imwrite(path, values, metadata={"axes": "ZYX", "UUID": "urn:uuid:1"})
    tifffile.imwrite(tmp_path / "other.tif", values + 100)
    with tifffile.TiffFile(path) as file:
        text = file.ome_metadata
    link = '<TiffData IFD="0"><UUID FileName="other.tif">urn:uuid:2</UUID></TiffData></Pixels>'
    tifffile.imwrite(
        path, values, description=text.replace("</Pixels>", link).encode(), metadata=None
    )
    np.testing.assert_array_equal(read(path).pixels[0], values)


@pytest.mark.parametrize("name", ["a b.png", "ünï — ß.PNG", "no suffix", "v1.2.final.png"])
def test_names_do_not_matter(tmp_path, name):
    values = files.volume((4, 5), np.uint8)
    Pillow.fromarray(values).save(tmp_path / name, format="PNG")
    (tmp_path / "link").symlink_to(tmp_path / name)
    for path in (tmp_path / name, str(tmp_path / "link")):
        np.testing.assert_array_equal(read(path).pixels[0], values)


def test_endings_of_names(tmp_path):
    names = ["scan.NII.gz", ".png", "a.tar.gz", "IM.1.dcm", "x.nii"]
    assert [suffix(tmp_path / n) for n in names] == [".nii.gz", "", "", ".dcm", ".nii"]
    assert [stem(tmp_path / n) for n in names] == ["scan", ".png", "a.tar.gz", "IM.1", "x"]


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_dots_per_inch_are_kept_in_a_mask(tmp_path, name):
    Pillow.new("L", (5, 4)).save(tmp_path / name, dpi=(200, 300))
    write_mask(np.ones((4, 5), bool), tmp_path / f"mask-{name}", like=read(tmp_path / name))
    with Pillow.open(tmp_path / f"mask-{name}") as file:
        np.testing.assert_allclose([float(n) for n in file.info["dpi"]], (200, 300), rtol=1e-3)


def test_what_is_read_goes_into_pytorch_without_a_warning(tmp_path):
    values = files.volume((4, 5), np.uint8)
    for name in ("a.png", "a.bmp", "a.gif", "a.tif"):
        Pillow.fromarray(values).save(tmp_path / name)
        assert torch.from_numpy(read(tmp_path / name).pixels).shape == (1, 4, 5)


def test_reading_that_overlaps_in_time_leaves_the_filters_of_warnings_as_they_were():
    before = list(warnings.filters)
    QUIET.__enter__()
    QUIET.__enter__()  # a second thread
    QUIET.__exit__()  # the first has finished
    assert warnings.filters[0][0] == "ignore"
    QUIET.__exit__()
    assert list(warnings.filters) == before


def test_the_errors_of_the_disk_come_through(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing.png")
    os.symlink(tmp_path / "b", tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "a")
