"""A format is one class: everything that lists, detects, reads or writes formats asks it."""

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from sitta.data.detect import detect, stem, suffix
from sitta.data.domains import find_domain
from sitta.data.formats import FORMATS, Format
from sitta.data.image import Geometry, Image, check_size
from sitta.data.images import read, read_mask, write_map, write_mask
from sitta.data.preprocess import Preprocess
from sitta.data.samples import load
from sitta.errors import InvalidImage, InvalidSetting
from sitta.inference.inputs import find_inputs
from sitta.serve.predict_job import _checked_kind
from tests import ROOT
from tests.shell import sitta_command


class Toy(Format):
    """Grey values as text: ``TOY``, rows and columns, then the values."""

    name = "Toy"
    suffixes = (".toy",)
    magic = (b"TOY ",)
    masks = True
    mask_suffix = ""

    def read(self, path, limit):
        _, rows, columns, *values = path.read_text().split()
        check_size(path, (int(rows), int(columns)), limit)
        pixels = np.array(values, np.uint8).reshape(1, int(rows), int(columns))
        return Image(pixels, Geometry(pixels.shape[1:]), self.name, path)

    def write(self, path, values, like, labels):
        path.write_text(" ".join(["TOY", *map(str, values.shape), *map(str, values.flat)]))


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """A folder with one image of a format that was added to the registry, and nowhere else."""
    monkeypatch.setitem(FORMATS, "Toy", Toy())
    folder = tmp_path / "scans"
    folder.mkdir()
    values = np.random.default_rng(0).integers(0, 255, (32, 32))
    (folder / "a.toy").write_text(" ".join(["TOY 32 32", *map(str, values.flat)]))
    return folder / "a.toy"


def table():
    """Rows of the table in the documentation: format, endings, read, masks, maps."""
    text = (ROOT / "docs/reference/formats.md").read_text().split("\n## Models")[0]
    lines = re.findall(r"^\|(.+)\|$", text, re.MULTILINE)[2:]
    return {cells[0]: cells for cells in ([c.strip() for c in x.split("|")] for x in lines)}


def undocumented():
    """Formats of the registry that the documentation lacks or describes otherwise."""
    rows = table()
    return {
        name
        for name in FORMATS.keys() | rows.keys()
        if name not in FORMATS
        or name not in rows
        or tuple(re.findall(r"`(\.[a-z.]+)`", rows[name][1])) != FORMATS[name].suffixes
        or (bool(rows[name][3]), bool(rows[name][4])) != (FORMATS[name].masks, FORMATS[name].maps)
    }


def test_the_documentation_lists_every_format():
    assert undocumented() == set()


def test_the_documentation_of_a_new_format_is_demanded(toy):
    assert undocumented() == {"Toy"}


def test_a_new_format_is_detected_and_read(toy, tmp_path):
    assert (suffix(toy), stem(toy), detect(toy)) == (".toy", "a", "Toy")
    image = read(toy)
    assert (image.kind, image.pixels.shape) == ("Toy", (1, 32, 32))
    with pytest.raises(InvalidImage, match="too large"):
        read(toy, limit=100)
    unnamed = toy.rename(tmp_path / "a")
    assert read(unnamed).kind == "Toy"
    mislabelled = unnamed.rename(tmp_path / "a.png")
    with pytest.raises(InvalidImage, match="named as PNG, but its content is Toy"):
        read(mislabelled)
    (tmp_path / "b.toy").write_bytes(b"TOY 4 4 1 2")
    with pytest.raises(InvalidImage, match="cannot be read as Toy"):
        read(tmp_path / "b.toy")
    (tmp_path / "c").write_bytes(b"nothing")
    with pytest.raises(InvalidImage, match=r"Toy \(\.toy\)"):
        read(tmp_path / "c")


def test_a_new_format_holds_what_it_says(toy, tmp_path):
    image = read(toy)
    mask = (image.pixels[0] > 99).astype(np.uint8)
    write_mask(mask, tmp_path / "mask.toy", like=image)
    assert (read_mask(tmp_path / "mask.toy", like=image) == mask).all()
    with pytest.raises(InvalidSetting, match=r"Toy holds masks only.*\.nii\.gz"):
        write_map(mask, tmp_path / "map.toy", like=image)
    volume = Image(np.zeros((1, 2, 3, 4)), Geometry((2, 3, 4)), "TIFF", toy)
    with pytest.raises(InvalidSetting, match=r"Toy holds no volume.*\.tif"):
        write_mask(np.zeros((2, 3, 4), int), tmp_path / "volume.toy", like=volume)


def test_a_new_format_is_found_in_a_folder_and_taken_by_the_service(toy, tmp_path):
    (item,) = find_inputs([toy.parent], tmp_path / "out")
    assert (item.path, item.output) == (toy, "a.toy")
    assert _checked_kind([toy]) == toy


def test_a_benchmark_reads_images_and_masks_of_a_new_format(toy, tmp_path):
    site = tmp_path / "data" / "task" / "site"
    for folder in ("images", "masks"):
        (site / folder).mkdir(parents=True)
    shutil.copy(toy, site / "images" / "a.toy")
    image = read(toy)
    write_mask(image.pixels[0] > 99, site / "masks" / "a.toy", like=image)
    samples = load(find_domain(tmp_path / "data", "task", "site"), Preprocess(size=(32, 32)), 2)
    assert list(samples.names) == ["a"]
    assert (samples.masks[0].numpy() == (image.pixels[0] > 99)).all()


@pytest.mark.parametrize("ending", ["", ".png"])
def test_the_command_line_predicts_a_new_format(toy, tmp_path, monkeypatch, ending):
    monkeypatch.setattr(Toy, "mask_suffix", ending)
    out = tmp_path / "out"
    done = sitta_command("predict", "phantom-alder", toy.parent, "--out", out, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert read_mask(out / f"masks/a{ending or '.toy'}", like=read(toy)).shape == (32, 32)


def test_naming_formats_loads_no_decoder():
    code = "import sys, sitta.data.images; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert not {"PIL", "tifffile", "nibabel", "pydicom", "highdicom", "torch"} & set(loaded)
