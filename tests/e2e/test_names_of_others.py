"""Names and headers of others: no formula, no command to a terminal, no patient in a mask."""

import csv
import os

import nibabel as nib
import numpy as np
import pytest
from PIL import Image as Pillow

from sitta._util.text import FORMULA, cell, printable
from sitta.data.images import read, shareable, write_mask
from tests.shell import sitta_command

WORDS = ["predict", "phantom-alder", "--size", "32x32"]
PATIENT = "Doe Jane"
NAMES = [
    "=cmd|calc.png",
    "@SUM(A1).png",
    "+1.png",
    "-1.png",
    "\t=1.png",
    "\x1b]0;owned\x07\x1b[2J.png",
    "[red]markup[/red]<b>.png",
    "\u202egnp.png",
    os.fsdecode(b"latin-\xe9.png"),
]


def film(path):
    path.parent.mkdir(exist_ok=True)
    values = np.random.default_rng(0).integers(0, 256, (24, 24), dtype=np.uint8)
    Pillow.fromarray(values).save(path, format="PNG")


def scan(path):
    image = nib.Nifti1Image(np.random.default_rng(0).random((20, 24, 2)), np.diag([2, 3, 4, 1]))
    for name in ("descrip", "aux_file", "intent_name", "db_name"):
        image.header[name] = PATIENT
    image.header.extensions.append(nib.nifti1.Nifti1Extension("comment", PATIENT.encode()))
    nib.save(image, path)
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A run over files of all names, some of them broken, so that a failure is told too."""
    folder = tmp_path_factory.mktemp("names")
    for name in NAMES:
        try:
            film(folder / "in" / name)
        except OSError:
            pytest.skip("a file system that does not have such names")
        (folder / "in" / f"{name[:-4]}-broken.png").write_bytes(b"no image")
    done = sitta_command(*WORDS, folder / "in", "-o", folder / "out")
    assert done.returncode == 1, done.stderr
    return done, folder / "out"


@pytest.mark.parametrize("name", ["summary.csv", "outputs.csv"])
def test_no_cell_is_a_formula_or_moves_a_cursor(hostile, name):
    text = (hostile[1] / name).read_bytes().decode("utf-8")
    rows = list(csv.reader(text.splitlines()))
    assert len(rows) == len(NAMES) + 1
    for value in (value for row in rows for value in row):
        assert value.isprintable()
        assert not value.startswith(FORMULA) or float(value) <= 0  # a negative number is one


def test_the_terminal_shows_names_in_place_of_obeying_them(hostile):
    done, _ = hostile
    said = done.stdout + done.stderr
    assert all(line.isprintable() for line in said.splitlines())
    assert r"\x1b]0;owned\x07\x1b[2J-broken.png" in said
    assert "[red]markup[/red]<b>-broken.png" in said


def test_an_error_that_ends_a_command_is_shown_as_well(tmp_path):
    done = sitta_command(*WORDS, tmp_path / "\x1b[2Jnone\udce9", "-o", tmp_path / "out")
    assert done.returncode == 2
    assert r"\x1b[2Jnone\udce9" in done.stderr.replace("\\\\", "\\")
    assert all(line.isprintable() for line in done.stderr.splitlines())


def test_names_of_any_bytes_resume(hostile):
    done = sitta_command(*WORDS, hostile[1].parent / "in", "-o", hostile[1])
    assert done.stdout.split()[6:9] == ["0", str(len(NAMES)), str(len(NAMES))], done.stdout


def test_plain_text_and_numbers_stay():
    for value in ("a b.png", "画像 　x.png", "ελ-1.png", -0.5, 3, None):
        assert cell(value) == value
    assert cell(" =1") == "' =1"
    assert printable("a\nb\tc\r", keep="\n\t") == "a\nb\tc\\r"


@pytest.mark.parametrize("keep", [False, True])
def test_masks_carry_no_free_text_of_their_image_unless_asked(tmp_path, keep):
    path = scan(tmp_path / "a.nii.gz")
    more = ["--keep-header"] if keep else []
    maps = ["--save", "uncertainty"]
    done = sitta_command(*WORDS, path, "-o", tmp_path / "out", *maps, *more)
    assert done.returncode == 0, done.stderr
    for kind in ("masks", "uncertainty"):
        mask = nib.load(tmp_path / "out" / kind / "a.nii.gz")
        assert (PATIENT.encode() in mask.to_bytes()) == keep
        np.testing.assert_array_equal(mask.affine, nib.load(path).affine)


def test_an_image_without_its_free_text_keeps_its_geometry(tmp_path):
    import tifffile

    values = np.random.default_rng(0).integers(0, 256, (20, 24), dtype=np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", values, resolution=(300, 300), description=PATIENT)
    write_mask(values > 9, tmp_path / "m.tif", like=shareable(read(tmp_path / "a.tif")))
    assert PATIENT.encode() not in (tmp_path / "m.tif").read_bytes()
    with tifffile.TiffFile(tmp_path / "m.tif") as file:
        assert file.pages[0].tags.valueof("XResolution")[0] == 300
