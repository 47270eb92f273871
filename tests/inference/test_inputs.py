"""Files, folders, patterns and series become one list of inputs."""

from pathlib import Path

import numpy as np
import pytest
from pydicom.uid import generate_uid

import sitta
from sitta.inference.inputs import find_inputs
from tests.data.files import dataset, save


def touch(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def put(path, uid):
    path.parent.mkdir(parents=True, exist_ok=True)
    save(path, dataset(np.ones((4, 4), np.uint8), series=uid))


def names(root, *given):
    return [i.name for i in find_inputs(given or [root], root / "out")]


def test_a_folder_at_any_depth_without_what_is_hidden_or_written_by_us(tmp_path):
    touch(tmp_path, "a.png", "deep/er/b.NII.GZ", "notes.txt", ".hidden.png", ".git/c.png")
    touch(tmp_path, "out/masks/a.png", "IM0001")
    assert names(tmp_path) == ["a.png", "deep/er/b.NII.GZ"]


def test_what_is_named_itself_always_counts(tmp_path):
    touch(tmp_path, "notes.txt", "a.png")
    assert names(tmp_path, tmp_path / "notes.txt", tmp_path / "a.png") == ["a.png", "notes.txt"]


def test_patterns(tmp_path):
    touch(tmp_path, "a/1.png", "a/2.png", "b/1.png", "b/1.jpg")
    (tmp_path / "empty").mkdir()
    assert names(tmp_path, f"{tmp_path}/**/1.*") == ["a/1.png", "b/1.jpg", "b/1.png"]
    with pytest.raises(sitta.InvalidSetting, match="no file or folder"):
        names(tmp_path, f"{tmp_path}/*.tif")
    with pytest.raises(sitta.InvalidSetting, match="no image in '"):
        find_inputs([tmp_path / "empty"], Path("out"))


def test_outputs_keep_the_name_and_never_collide(tmp_path):
    touch(tmp_path, "a/x.jpg", "a/x.png", "a/y.JPEG", "v.nii", "w.tiff", "z.dcm")
    found = {i.name: i.output for i in find_inputs([tmp_path], tmp_path / "out")}
    assert found == {
        "a/x.jpg": "a/x.jpg.png",
        "a/x.png": "a/x.png.png",
        "a/y.JPEG": "a/y.png",
        "v.nii": "v.nii",
        "w.tiff": "w.tiff",
        "z.dcm": "z.nii.gz",
    }


def test_the_same_file_twice_is_one_input(tmp_path):
    touch(tmp_path, "a.png")
    assert names(tmp_path, tmp_path, tmp_path / "a.png") == ["a.png"]


def test_a_series_is_one_input_and_single_films_are_several(tmp_path):
    one = generate_uid()
    for z in range(3):
        put(tmp_path / "ct" / f"IM{z}", one)
    for n in range(2):
        put(tmp_path / "films" / f"f{n}.dcm", generate_uid())
    touch(tmp_path, "ct/readme.txt")
    found = {i.name: i.output for i in find_inputs([tmp_path], tmp_path / "out")}
    assert found == {
        "ct": "ct.nii.gz",
        "films/f0.dcm": "films/f0.nii.gz",
        "films/f1.dcm": "films/f1.nii.gz",
    }


def test_a_digest_changes_with_the_bytes(tmp_path):
    touch(tmp_path, "a.png")
    (item,) = find_inputs([tmp_path / "a.png"], tmp_path / "out")
    before = item.digest()
    assert item.digest() == before
    (tmp_path / "a.png").write_bytes(b"y")
    assert item.digest() != before


def test_symbolic_links_keep_their_own_names(tmp_path, monkeypatch):
    touch(tmp_path, "store/0001.png", "store/0002.png", "in/plain.png")
    (tmp_path / "in" / "ann.png").symlink_to(tmp_path / "store" / "0001.png")
    (tmp_path / "in" / "bob.png").symlink_to("../store/0002.png")
    assert names(tmp_path, tmp_path / "in") == ["ann.png", "bob.png", "plain.png"]
    assert names(tmp_path, tmp_path / "in" / "ann.png") == ["ann.png"]
    (tmp_path / "linked").symlink_to(tmp_path / "in")
    assert names(tmp_path, tmp_path / "linked") == ["ann.png", "bob.png", "plain.png"]
    monkeypatch.chdir(tmp_path / "store")
    assert names(tmp_path, "../in/ann.png", "0001.png") == ["in/ann.png", "store/0001.png"]


def test_a_link_to_a_folder_above_is_not_followed(tmp_path):
    touch(tmp_path, "in/deep/a.png")
    (tmp_path / "in" / "deep" / "up").symlink_to(tmp_path / "in")
    assert names(tmp_path, tmp_path / "in") == ["deep/a.png"]
