"""A session: what a service leaves in its folder is there again, and nothing half done is."""

import io
import json
import os
import re
import shutil
import sys
import time
import zipfile

import numpy as np
import pytest

from sitta.data import phantom
from sitta.errors import SittaError
from sitta.prediction.decisions import from_csv
from sitta.serve.guard import Guard
from sitta.serve.quotas import Limits
from sitta.serve.service import Service
from sitta.serve.session import Session
from sitta.serve.worker import WorkerConfig
from tests.serve.conftest import TIGHT, Asked


@pytest.fixture
def serving(graph, tmp_path):
    def made():
        log = []
        config = WorkerConfig([str(graph)], TIGHT)
        service = Service(config, 1, log.append, tmp_path / "monday")
        return Asked(service, Guard(), log)

    return made


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    home = tmp_path_factory.mktemp("volume")
    phantom.write(home, "birch", 1, (8, 20, 24))
    return next(home.glob("phantom/birch/images/*"))


def test_it_survives_a_restart(serving, volume, tmp_path):
    with serving() as asked:
        answer = asked.send(volume.read_bytes(), volume.name, group="one").json()
        beside = asked.send(volume.read_bytes(), volume.name, group="-").json()
        drawn = np.zeros(answer["shape"][1:], np.uint8)
        drawn[3:7, 5:9] = 1
        path = f"/api/results/{answer['id']}"
        asked.ask("PUT", f"{path}/corrected?slice=1", content=drawn.tobytes())
        said = {"decision": "needs-fix", "mask": "corrected", "remark": "apex"}
        asked.ask("PUT", f"{path}/review", json=said)
        before = asked.get(f"{path}/mask.nii.gz", params={"mask": "corrected"}).content
        told = asked.get("/api/session").json()
        assert [one["answer"]["id"] for one in told["results"]] == [answer["id"]]
    assert (tmp_path / "monday" / "decisions.csv").exists()
    with serving() as asked:
        (kept,) = asked.get("/api/session").json()["results"]
        assert kept["answer"] == answer
        assert kept["corrected"]
        assert kept["decisions"][0]["remark"] == "apex"
        assert asked.get(f"{path}/mask.nii.gz", params={"mask": "corrected"}).content == before
        assert asked.get(f"/api/results/{beside['id']}/mask.raw").status_code == 404
        again = asked.ask("POST", "/api/predict", files={"again": (None, answer["id"])})
        assert again.status_code == 200, again.text
        assert (again.json()["path"], again.json()["rows"]) == (answer["path"], answer["rows"])
        got = asked.ask("POST", "/api/archive.zip", json={"ids": [answer["id"]]})
        archive = zipfile.ZipFile(io.BytesIO(got.content))
        assert archive.testzip() is None
        assert archive.read(f"masks/{volume.name}") == archive.read(f"corrected/{volume.name}")
        (row,) = from_csv(archive.read("decisions.csv").decode())
        assert (row.decision, row.mask) == ("needs-fix", "corrected")
        assert len(archive.read("summary.csv").decode().splitlines()) == 1 + answer["slices"]
        asked.ask("DELETE", path)
    with serving() as asked:
        assert answer["id"] not in json.dumps(asked.get("/api/session").json())


def test_a_result_that_is_half_there_is_removed(tmp_path):
    Session(Limits(), tmp_path).close()
    half, mine = tmp_path / f"result-{'a' * 32}", tmp_path / "result-mine"
    for folder in (half, mine):
        folder.mkdir()
        (folder / "mask.npy").write_bytes(b"x")
    store = Session(Limits(), tmp_path)
    assert len(store) == 0
    assert not half.exists()
    assert (mine / "mask.npy").exists()
    store.close()


@pytest.fixture(scope="module")
def whole(graph, tmp_path_factory):
    """The folder of a session with one result."""
    home = tmp_path_factory.mktemp("whole")
    phantom.write(home, "fir", 1, (32, 32))
    image = next(home.glob("phantom/fir/images/*"))
    service = Service(WorkerConfig([str(graph)], TIGHT), 1, print, home / "monday")
    with Asked(service, Guard(), []) as asked:
        answer = asked.send(image.read_bytes(), image.name, path="a/b.png").json()
        said = {"decision": "accept", "remark": "apex"}
        asked.ask("PUT", f"/api/results/{answer['id']}/review", json=said)
    return home / "monday"


@pytest.fixture
def kept(whole, tmp_path):
    """A copy of it: the folder of its result."""
    shutil.copytree(whole, tmp_path / "monday")
    return next((tmp_path / "monday").glob("result-*"))


def entries_of(folder):
    store = Session(Limits(), folder)
    found, unread = list(store._entries.values()), store.unread
    store.close()
    return found, unread


DAMAGE = {
    "cut": lambda text: text[:-5],
    "a list": lambda text: "[]",
    "deep": lambda text: "[" * 100_000 + "]" * 100_000,
    "digits": lambda text: text.replace('"version": 1', '"version": ' + "9" * 5000),
    "newer": lambda text: text.replace('"version": 1', '"version": 2'),
    "no time": lambda text: text.replace('"since"', '"sincere"'),
    "a word for the time": lambda text: re.sub(r'"since": [^,]*', '"since": "now"', text),
    "an unknown column": lambda text: text.replace('"remark"', '"remarks"'),
    "another answer": lambda text: text.replace('"answer": {', '"answer": [], "other": {'),
    "a number for a path": lambda text: text.replace('"a/b.png"', "1"),
    "no sides": lambda text: re.sub(r'"shape": .[^]]*.', '"shape": [1e308, -1]', text),
    "another layout": lambda text: re.sub(r'"orientation": {', '"orientation": 3, "x": {', text),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_result_that_cannot_be_read_is_left_as_it_is(kept, damage):
    """It may hold a mask that a person drew, and the next version may read it."""
    text = (kept / "entry.json").read_text()
    assert damage(text) != text
    (kept / "entry.json").write_text(damage(text))
    before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    assert entries_of(kept.parent) == ([], [kept.name])
    assert {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()} == before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes in folders")
@pytest.mark.parametrize("where", ["entry.json", "image.npy", "upload/00000.png"])
def test_a_pipe_in_a_session_of_others_does_not_hold_it_up(kept, where):
    (kept / where).unlink()
    os.mkfifo(kept / where)
    assert entries_of(kept.parent) == ([], [kept.name])


@pytest.mark.parametrize("where", ["", "mask@0.png", "upload/00000.png", "image.npy"])
def test_a_session_of_others_leads_nowhere_else(kept, tmp_path, where):
    """A link in it would show any file of this machine to all who have the token."""
    path, aim = kept / where, tmp_path / "secret"
    if path.exists():
        path.rename(aim)
    path.symlink_to(aim)
    found, unread = entries_of(tmp_path / "monday")
    assert (found, unread) == ([], [kept.name])


def test_a_path_of_a_session_of_others_stays_in_the_archive(kept):
    text = (kept / "entry.json").read_text()
    (kept / "entry.json").write_text(text.replace('"a/b.png"', '"../../C:/../x.png"'))
    ((entry,), _) = entries_of(kept.parent)
    assert entry.answer["path"] == "C_/x.png"


def test_results_stay_in_order_when_the_clock_goes_back(whole, kept, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1.0)
    store = Session(Limits(), kept.parent)
    (first,) = store._entries.values()
    name = store.new()
    store.add(name, first.answer)
    (store.folder(name) / "upload" / "00000.png").write_bytes(b"x")
    store.close()
    found, _ = entries_of(kept.parent)
    assert [entry.folder for entry in found] == [kept, kept.parent / f"result-{name}"]


def test_a_folder_of_other_files_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SittaError, match="holds other files"):
        Session(Limits(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_two_services_do_not_share_a_session(tmp_path):
    store = Session(Limits(), tmp_path)
    with pytest.raises(SittaError, match="in use"):
        Session(Limits(), tmp_path)
    store.close()
    Session(Limits(), tmp_path).close()


def test_without_a_session_images_are_not_kept(small, volume):
    answer = small.send(volume.read_bytes(), volume.name).json()
    assert small.get("/api/session").json() == {"session": False, "results": []}
    again = small.ask("POST", "/api/predict", files={"again": (None, answer["id"])})
    assert (again.status_code, again.json()["error"]["code"]) == (422, "no-file")
