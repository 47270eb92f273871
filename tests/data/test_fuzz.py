"""Whatever the bytes, reading ends soon, with an image or with one kind of error."""

import gzip
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as pillow  # noqa: N813

from sitta.data.images import read, read_mask
from sitta.errors import InvalidImage
from tests.data import files, fuzz, fuzz_tables
from tests.data.files import WHOLE, bounded

ROOT = Path(__file__).parents[2]
NAMES = [*WHOLE, "no suffix", "notes.txt"]
STARTS = [
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    b"\xff\xd8\xff\xe0",
    b"GIF89a",
    b"II*\0\x08\0\0\0",
    b"MM\0+\0\x08\0\0",
    b"\x1f\x8b\x08\0",
    bytes(128) + b"DICM\x02\0\0\0UL\x04\0",
    b"\x08\0\x05\0CS",
    (348).to_bytes(4, "little") + bytes(340) + b"n+1\0",
    (540).to_bytes(4, "little") + b"n+2\0\r\n\x1a\n",
]
EXTREMES = [b"\0", b"\xff", b"\0\0", b"\xff\xff", b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff"]
EXTREMES += [bytes(4), b"\xff" * 4, b"\xff" * 8, b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\x80"]
edits = st.lists(
    st.tuples(
        st.floats(0, 1),  # where: more often in the header than in the pixels
        st.one_of(st.sampled_from(EXTREMES), st.binary(min_size=1, max_size=8)),
        st.sampled_from(["write", "flip", "insert", "remove"]),
    ),
    max_size=6,
)


def changed(content, changes, keep):
    """Bytes with some of them changed, and cut."""
    made = bytearray(content)
    for where, value, how in changes:
        at = int(where**3 * len(made))
        if how == "flip":
            value = bytes(a ^ b for a, b in zip(made[at : at + len(value)], value, strict=False))
        made[at : at + (0 if how == "insert" else len(value))] = b"" if how == "remove" else value
    return bytes(made[: int(len(made) * keep)])


def attempt(path, reader=read):
    """Read; anything but an image of finite numbers or the one error fails the test."""
    refusal = None
    with bounded():
        try:
            found = reader(path)
        except InvalidImage as error:
            refusal = str(error)
    if refusal is not None:
        assert refusal.startswith(str(path))
        assert "Doe" not in refusal
        return
    pixels = getattr(found, "pixels", found)
    assert pixels.size
    assert pixels.dtype.isnative
    assert np.isfinite(pixels).all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@settings(max_examples=150)
@given(st.binary(max_size=200), st.sampled_from([b"", *STARTS]), st.sampled_from(NAMES))
def test_any_bytes(folder, content, start, name):
    (folder / name).write_bytes(start + content)
    attempt(folder / name)


@pytest.mark.parametrize("name", fuzz.seeds())
def test_the_corpus_of_the_fuzzer(name):
    attempt(fuzz.CORPUS / name)


def test_the_fuzzer_damages_files_the_same_way_again_and_each_differently():
    corpus = fuzz.seeds()
    made = [fuzz.damaged(n, 0, corpus) for n in range(200)]
    assert made == [fuzz.damaged(n, 0, corpus) for n in range(200)]
    assert len(set(made)) > 190
    assert len({name for name, _ in made}) == len(corpus)


def test_a_decoder_without_memory_refuses_and_never_gives_other_pixels():
    pytest.importorskip("_testcapi")  # not every Python is installed with it
    words = [sys.executable, "-m", "tests.data.allocations"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    *faults, last = done.stdout.splitlines() or [done.stderr]
    assert (done.returncode, faults) == (0, [])
    assert int(last.removesuffix(" refused")) > 100


def test_tables_of_every_reader_with_any_damage_are_clear_errors_or_fine():
    count, found = fuzz_tables.run(300, 0)
    assert (count, [fault[:3] for fault in found]) == (300, [])


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=60)
@given(changes=edits, keep=st.sampled_from([1, 1, 1, 0.99, 0.7, 0.3]))
def test_real_files_with_changed_headers_and_cut(folder, name, changes, keep):
    (folder / name).write_bytes(changed(WHOLE[name], changes, keep))
    attempt(folder / name)


@settings(max_examples=60)
@given(changes=edits, reader=st.sampled_from([read, read_mask]))
def test_zipped_volumes_with_changed_headers(folder, changes, reader):
    content = gzip.compress(changed(WHOLE["a.nii"], changes, 1), 1)
    (folder / "changed.nii.gz").write_bytes(content)
    attempt(folder / "changed.nii.gz", reader)


@settings(max_examples=60)
@given(changes=edits, keep=st.sampled_from([1, 1, 0.9, 0.4]))
def test_frames_with_changed_descriptions(folder, changes, keep):
    made = files.enhanced(files.stack(files.volume()), [2, 0, 3, 1])
    content = files.save(folder / "frames.dcm", made).read_bytes()
    (folder / "frames.dcm").write_bytes(changed(content, changes, keep))
    attempt(folder / "frames.dcm")


@settings(max_examples=60)
@given(changes=edits, keep=st.sampled_from([1, 1, 0.9, 0.4]))
def test_a_series_with_a_changed_slice(folder, changes, keep):
    place = folder / "series"
    path = files.series(place, files.stack(files.volume())) / "010.dcm"
    path.write_bytes(changed(path.read_bytes(), changes, keep))
    attempt(place)


@pytest.mark.parametrize(("name", "mode"), [("u.png", "1"), ("u.png", "L"), ("u.gif", "L")])
def test_an_even_image_is_as_small_as_its_format_makes_it(folder, name, mode):
    pillow.new(mode, (3000, 2000)).save(folder / name)
    assert read(folder / name).pixels.shape == (1, 2000, 3000)


def test_a_few_bytes_that_announce_gigabytes_are_refused():
    with pytest.raises(InvalidImage, match="153,748,756 pixels in 1,167 bytes"):
        read(fuzz.CORPUS / "large-screen.gif")


def test_skipped_rows_of_a_bitmap_are_refused_before_they_are_made(tmp_path):
    rows = b"\0\2\xff\xff" * 14_000 + b"\0\1"  # an escape: on by 255 pixels and 255 rows
    sizes = struct.pack("<IiiHHIIiiII", 40, 13_300, 13_300, 1, 8, 1, len(rows), 0, 0, 256, 0)
    start = 14 + len(sizes) + 1024  # of the pixels, after a palette
    file = struct.pack("<2sIHHI", b"BM", start + len(rows), 0, 0, start)
    (tmp_path / "x.bmp").write_bytes(file + sizes + bytes(1024) + rows)
    with pytest.raises(InvalidImage, match="176,890,000 pixels in"), bounded():
        read(tmp_path / "x.bmp")
