"""Domains on disk: pairs by name, subjects, and what is said when something is missing."""

import numpy as np
import pytest
from PIL import Image

import sitta
from sitta.data import phantom
from sitta.data.check import summary, survey
from sitta.data.domains import find_domain, find_domains, subject_of


@pytest.fixture
def root(tmp_path):
    phantom.write(tmp_path, "alder", 3, (16, 16))
    phantom.write(tmp_path, "birch", 2, (16, 16))
    return tmp_path


@pytest.fixture
def alder(root):
    return find_domain(root, "phantom", "alder")


def test_pairs_come_by_name(root, alder):
    (root / "phantom" / "alder" / "images" / ".DS_Store").write_text("")
    pairs = alder.pairs()
    assert [p.name for p in pairs] == ["scene-0000", "scene-0001", "scene-0002"]
    assert all(p.image.exists() and p.mask.exists() for p in pairs)
    assert [str(d) for d in find_domains(root)] == ["phantom/alder", "phantom/birch"]


def test_endings_may_differ(alder):
    image = alder.folder / "images" / "scene-0001.png"
    image.rename(image.with_suffix(".PNG"))
    assert alder.pairs()[1].image.name == "scene-0001.PNG"


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("CEITEC_sub-10062Ses1_run-1", "sub-10062"),
        ("sub-01_T2star", "sub-01"),
        ("sub-01", "sub-01"),
        ("site3-sc07", "site3-sc07"),
        ("Image_14R", "Image_14"),
        ("MCUCXR_0001_0", "MCUCXR_0001_0"),
    ],
)
def test_whose_image_a_name_tells(name, subject):
    assert subject_of(name) == subject


def test_subjects_of_your_own(alder):
    table = alder.folder / "subjects.csv"
    table.write_text("name,subject\nscene-0000,anna\nscene-0001,anna\n")
    assert [p.subject for p in alder.pairs()] == ["anna", "anna", "scene-0002"]
    assert survey(alder).subjects == 2
    table.write_text("image;who\n")
    with pytest.raises(sitta.InvalidImage, match="no columns 'name' and 'subject'"):
        alder.pairs()
    assert "no columns" in survey(alder).problems[0]


def test_files_without_a_partner(alder):
    (alder.folder / "masks" / "scene-0001.png").unlink()
    (alder.folder / "images" / "scene-0002.png").unlink()
    with pytest.raises(sitta.InvalidImage) as error:
        alder.pairs()
    assert "scene-0001 (no mask), scene-0002 (no image)" in str(error.value)
    assert [p.split(": ")[1] for p in survey(alder).problems] == [
        "scene-0001 has no mask.",
        "mask scene-0002 has no image.",
    ]


def test_empty_folders(alder):
    for file in (alder.folder / "masks").iterdir():
        file.unlink()
    with pytest.raises(sitta.InvalidImage, match=r"masks holds no files.*ROOT/<task>/<domain>"):
        alder.pairs()
    assert survey(alder).problems == ["phantom/alder: masks/ holds no files."]


def test_what_is_not_there(root, tmp_path):
    with pytest.raises(sitta.InvalidSetting, match="phantom/alder, phantom/birch"):
        find_domain(root, "phantom", "cedar")
    with pytest.raises(sitta.InvalidSetting, match="no folder"):
        find_domains(root / "nowhere")
    with pytest.raises(sitta.InvalidSetting, match="holds no domain of task chest"):
        find_domains(root, task="chest")


def test_what_a_survey_finds_odd(alder):
    folder = alder.folder
    (folder / "images" / "scene-0001.png").write_bytes(
        (folder / "images" / "scene-0000.png").read_bytes()
    )
    Image.fromarray(np.full((16, 16), 7, np.uint8)).save(folder / "images" / "scene-0002.png")
    Image.fromarray(np.zeros((16, 16), np.uint8)).save(folder / "masks" / "scene-0002.png")
    found = survey(alder)
    assert found.pairs == 3
    assert found.sizes == {"16x16": 3}
    assert found.types == {"PNG uint16": 2, "PNG uint8": 1}
    assert [p.split(": ")[1] for p in found.problems] == [
        "scene-0001 has the same pixels as scene-0000.",
        "the mask of scene-0002 is empty.",
        "scene-0002 has the same value everywhere.",
    ]


def test_counts_in_words():
    assert summary({"16x16": 3}) == "16x16"
    assert summary({"a": 3, "b": 2, "c": 1}) == "a (3), b (2), 1 others"


def test_the_real_data_is_in_order(real_data):
    for domain in find_domains(real_data, task="retina"):
        assert not survey(domain).problems
    cord = find_domain(real_data, "spinal", "milan", "masks_cord")
    assert (survey(cord).pairs, survey(cord).subjects) == (2, 1)
