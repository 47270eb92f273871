"""``sitta serve`` as it is run: many clients at once, what it writes, and how it ends."""

import gzip
import io
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image as Pillow
from PIL.PngImagePlugin import PngInfo
from typer.testing import CliRunner

from sitta.cli import app, serve  # noqa: F401  (registers itself)
from sitta.data import phantom
from sitta.errors import InvalidSetting, MissingExtra, SittaError
from sitta.inference import Request, predict
from tests.data.files import dataset, save
from tests.serve.conftest import Process

REQUESTS, CLIENTS, IMAGES = 200, 16, 8
GROWTH = 48 * 2**10  # kB that the server and its worker may have grown by after all that
SECRET = "Doe^Jane-4711"  # noqa: S105
HOOK = """
import sys

class Never:
    def find_spec(self, name, *_):
        if name.split(".")[0] in ("torch", "monai"):
            raise RuntimeError(name + " was imported")
        if name.split(".")[0] in ("onnx", "onnxscript", "pandas", "safetensors", "scipy"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Never())
"""


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    root = tmp_path_factory.mktemp("many")
    phantom.write(root, "fir", IMAGES, (40, 48))
    return sorted(root.glob("phantom/fir/images/*"))


def memory(server):
    """Resident kB of the server and its workers."""
    total = 0
    for pid in (server.process.pid, *server.children()):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return total


def asked(client, content, accept):
    """An answer, however often it takes, and how often it was refused."""
    busy = 0
    while True:
        files = {"file": ("a.png", content)}
        got = client.post("/api/predict", files=files, headers={"accept": accept})
        if got.status_code != 429:
            return got, busy
        assert int(got.headers["retry-after"]) >= 1
        busy += 1
        time.sleep(0.2)


def test_two_hundred_requests_of_sixteen_clients(server, graph, images, tmp_path):
    run = predict(Request(str(graph)), images, tmp_path)
    rows = [record["rows"][0] for record in run.records]
    masks = [np.asarray(Pillow.open(tmp_path / r["output"])) for r in run.records]
    contents = [path.read_bytes() for path in images]

    def one(number):
        picture = number % 3 == 0
        accept = "image/png" if picture else "application/json"
        got, busy = asked(server.client, contents[number % IMAGES], accept)
        assert got.status_code == 200, got.text
        if picture:
            same = (
                np.asarray(Pillow.open(io.BytesIO(got.content))) == masks[number % IMAGES]
            ).all()
        else:
            row, expected = got.json()["rows"][0], rows[number % IMAGES]
            names = ("weights", "entropies", "areas", "area", "agreement", "notes", "doubt")
            same = all(row[name] == expected[name] for name in names)
            assert server.client.delete(f"/api/results/{got.json()['id']}").status_code == 204
        return bool(same), busy

    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(one, range(2 * CLIENTS)))  # until all is set up
        before = memory(server)
        found = list(threads.map(one, range(REQUESTS)))
    assert all(same for same, _ in found)
    assert sum(busy for _, busy in found) > 0  # the queue is shorter than the line of clients
    assert memory(server) - before < GROWTH
    assert server.client.get("/healthz").json() == {"status": "ok", "workers": 1, "queue": 0}


def patient_files(folder):
    """Files that name a patient wherever there is room for it."""
    film = (np.random.default_rng(0).random((20, 24)) * 4000).astype(np.int16)
    fields = ("PatientName", "PatientID", "PatientAddress", "PatientComments", "ImageComments")
    made = dataset(film, **dict.fromkeys(fields, SECRET), InstitutionName=SECRET)
    made.file_meta.SourceApplicationEntityTitle = SECRET
    made.add_new(0x00091001, "LO", SECRET)
    path = save(folder / "film.dcm", made)
    yield "film.dcm", path.read_bytes(), 200
    yield "film.dcm", path.read_bytes()[:-300], 422
    scan = nibabel.Nifti1Image((np.random.default_rng(0).random((20, 24, 3)) * 9), np.eye(4))
    for name in ("descrip", "aux_file", "intent_name", "db_name"):
        scan.header[name] = SECRET
    scan.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", SECRET.encode()))
    yield "scan.nii", scan.to_bytes(), 200
    text, content = PngInfo(), io.BytesIO()
    text.add_text("Comment", SECRET)
    Pillow.fromarray(film.astype(np.uint8)).save(content, "PNG", pnginfo=text)
    yield "film.png", content.getvalue(), 200


def names(content):
    """Whether bytes name the patient, also if they are zipped."""
    found = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    return any(word in found for word in (b"Doe^", b"Jane", b"4711"))


def test_no_patient_is_named_in_answers_logs_or_results(server, tmp_path):
    told = []
    for name, content, status in patient_files(tmp_path):
        assert names(content)
        got = server.client.post("/api/predict", files={"file": (name, content)})
        assert got.status_code == status, got.text
        told.append(got)
        if status == 200:
            told += [server.client.get(link) for link in got.json()["links"].values()]
            for kind in ("image", "mask", "members", "source", "uncertainty", "disagreement"):
                told.append(server.client.get(f"/api/results/{got.json()['id']}/{kind}.raw"))
    assert len(told) > 40
    for answer in told:
        assert not names(answer.content)
        assert not names(str(answer.headers).encode())
    kept = server.kept
    assert len(kept) > 30
    assert not [path.name for path in kept if names(path.read_bytes())]
    server.client.post("/api/predict", files={"file": (f"{SECRET}.png", b"junk")})
    assert not names(server.errors.read_bytes())
    assert "POST /api/predict 422" in server.errors.read_text()


def test_it_runs_without_torch_and_leaves_nothing_when_it_ends(graph, tmp_path, monkeypatch):
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(HOOK)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(hook), os.environ.get("PYTHONPATH", "")]))
    started = Process(tmp_path / "run", graph)
    content = io.BytesIO()
    Pillow.fromarray(np.eye(30, dtype=np.uint8)).save(content, "PNG")
    got = started.client.post("/api/predict", files={"file": ("a.png", content.getvalue())})
    assert got.status_code == 200, got.text
    assert started.kept
    workers = started.children()
    assert workers
    assert started.end(signal.SIGTERM) == 0
    assert not list((tmp_path / "run" / "tmp").iterdir())
    ended(workers)
    assert "Traceback" not in started.errors.read_text()


def test_ctrl_c_ends_a_job_and_all_workers(server_alone):
    started, workers = server_alone
    assert started.end(signal.SIGINT) == 0
    assert not list((started.folder / "tmp").iterdir())
    assert "Traceback" not in started.errors.read_text()
    ended(workers)


@pytest.fixture
def server_alone(graph, tmp_path):
    started = Process(tmp_path / "run", graph, "--token", "a token of some length")
    assert started.client.get("/api/models").status_code == 401
    assert "token" in started.said
    assert "a token of some length" not in started.said
    return started, started.children()


def ended(pids, seconds=60):
    """Wait until processes are gone, or wait for whoever adopted them to bury them."""
    end = time.monotonic() + seconds
    while alive := [pid for pid in pids if _state(pid) not in ("", "Z")]:
        assert time.monotonic() < end, alive
        time.sleep(0.05)


def _state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def refused(*words):
    return CliRunner().invoke(app, ["serve", *words])


def test_wrong_use_is_told_before_anything_starts(graph, monkeypatch):
    result = refused(str(graph), "--host", "0.0.0.0")  # noqa: S104
    assert isinstance(result.exception, InvalidSetting)
    assert "--token" in str(result.exception)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = refused(str(graph), "--port", str(taken.getsockname()[1]))
    assert isinstance(result.exception, SittaError)
    assert "--port" in str(result.exception)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = refused(str(graph))
    assert isinstance(result.exception, MissingExtra)
    assert "pip install -e '.[serve]'" in str(result.exception)


def test_a_wrong_model_ends_in_a_sentence(tmp_path):
    words = [sys.executable, "-m", "sitta", "serve", str(tmp_path / "no.onnx"), "--port", "0"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("sitta: There is no file")
    assert "Traceback" not in done.stderr
