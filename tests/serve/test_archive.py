"""Names in the zip: one for each file on every file system, and none outside its folder."""

import io
import unicodedata
import zipfile
from pathlib import PurePosixPath

import pytest

from sitta.data import phantom
from sitta.serve.archive import _folders, _free
from sitta.serve.upload import MOST_PATH, shown_path


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    home = tmp_path_factory.mktemp("image")
    phantom.write(home, "fir", 1, (32, 32))
    return next(home.glob("phantom/fir/images/*")).read_bytes()


def named(*paths):
    taken = _folders(paths)
    return [_free(path, ".png", taken) for path in paths]


@pytest.mark.parametrize(
    "paths",
    [
        ("a.png", "a.jpg", "A.png", "a-2.png"),
        ("\u00e9.png", "e\u0301.png", "STRASSE.png", "stra\u00dfe.png"),
        ("a.png", "a.png/b.png", "A.PNG/b.jpg"),
        ("a/b.png/c.png", "a/b.png", "a.png"),
    ],
)
def test_no_file_is_lost_when_the_archive_is_unpacked(paths):
    names = [unicodedata.normalize("NFC", name).casefold() for name in named(*paths)]
    assert len(set(names)) == len(paths)
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    assert not folders & set(names)


HOSTILE = [
    "../../x.png",
    "/etc/x.png",
    "C:\\..\\x.png",
    "a/./.. /x.png",
    "a../" + "/".join(["b" * 100, "c" * 100, "d" * 91 + ".png"]),  # cut in "a..", it went up
    "/".join(["a" * 100] * 50) + ".png",
    "..." * 200,
    "a\x1b[2J\u202e/\x00x.png",
    "",
]


@pytest.mark.parametrize("path", HOSTILE)
def test_no_path_of_a_client_leads_out(path):
    shown = shown_path(path)
    parts = shown.split("/") if shown else []
    assert len(shown) <= MOST_PATH
    assert all(part.strip(". ") and ":" not in part and part.isprintable() for part in parts)


def test_an_archive_of_hostile_paths_unpacks_into_its_folder(small, image):
    answers = [small.send(image, path=path).json() for path in HOSTILE]
    got = small.ask("POST", "/api/archive.zip", json={"ids": [one["id"] for one in answers]})
    archive = zipfile.ZipFile(io.BytesIO(got.content))
    names = archive.namelist()
    assert archive.testzip() is None
    assert len(set(names)) == len(HOSTILE) + 3
    assert not any(name.startswith("/") or ".." in name.split("/") for name in names)
