"""A session: what a service leaves in its folder is there again, and nothing half done is."""

import io
import json
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
