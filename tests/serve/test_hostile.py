"""Whatever is sent, the answer is a 4xx with a clear sentence, and the service lives."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image as Pillow

from sitta.serve.guard import Guard
from sitta.serve.service import Service
from sitta.serve.worker import WorkerConfig
from tests.data.files import WHOLE
from tests.serve.conftest import TIGHT, Asked
from tests.serve.hostile import PNG, UPLOADS


def refused(answer, status, words=""):
    assert answer.status_code == status, answer.text
    problem = answer.json()["error"]
    assert set(problem) == {"code", "message", "allowed", "fix"}
    assert re.search(words, problem["message"]), problem["message"]
    assert re.search(r"[a-z]{3}.*\.$", problem["message"], re.S)
    assert not re.search(r"Traceback|/tmp|sitta-serve|\.py\b", answer.text)
    return problem


@pytest.mark.parametrize("kind", UPLOADS)
def test_hostile_uploads(small, kind):
    name, content, status, words = UPLOADS[kind]
    workers = small.service.pool.pids
    refused(small.send(content, name), status, words)
    assert small.get("/healthz").status_code == 200
    assert small.service.pool.pids == workers  # none of these costs a worker
    assert not [p for p in small.service.store.root.iterdir() if p.name.startswith("upload")]


def test_there_are_thirty():
    assert len(UPLOADS) >= 30


def test_it_still_works_after_all_that(small):
    answer = small.send(PNG, "fine.png")
    assert answer.status_code == 200
    assert answer.json()["name"] == "fine.png"
    assert small.service.pool.restarts == 0


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"model": "other"}, 404, "no such model"),
        ({"model": "../../etc/passwd"}, 404, "no such model"),
        ({"method": "tent"}, 404, "no such method"),
        ({"settings": "no json"}, 422, "no JSON"),
        ({"settings": "[1]"}, 422, "no JSON object"),
        ({"settings": '{"step": NaN}'}, 422, "NaN is no JSON"),
        ({"settings": '{"step": 1e999}'}, 422, "exported with step=0.2"),
        ({"settings": "[" * 50_000}, 422, "too long"),
        ({"settings": '{"step": 1' + "0" * 5000 + "}"}, 422, "whole number is too long"),
        ({"settings": '{"step": 1' + "0" * 4000 + "}"}, 422, "whole number is too long"),
        ({"settings": '{"step": ' + "[" * 900 + "]" * 900 + "}"}, 422, "lists in each other"),
        ({"settings": '{"\\ud800": "\\udfff"}'}, 422, "no setting"),
        ({"settings": '{"step": "\\udfff"}'}, 422, "exported with step=0.2"),
        ({"settings": '{"step": 0.5}'}, 422, "exported with step=0.2"),
        ({"settings": '{"__class__": 1}'}, 422, "no setting"),
        ({"settings": "x" * 2**17}, 413, "too long"),
        ({"other": "x"}, 422, "not known"),
        ({"file": "text"}, 422, "wrong kind"),
        ({"model": ["net.onnx", "net.onnx"]}, 422, "given twice"),
        ({f"f{n}": "x" for n in range(20)}, 413, "too many fields"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_hostile_fields(small, fields, status, words):
    refused(small.send(PNG, **fields), status, words)


def test_hostile_bodies(small):
    def post(content, kind):
        return small.ask("POST", "/api/predict", content=content, headers={"content-type": kind})

    refused(post(b"{}", "application/json"), 415, "multipart")
    refused(post(PNG, "image/png"), 415, "multipart")
    refused(post(b"", "multipart/form-data"), 400, "damaged")
    refused(post(b"junk", "multipart/form-data; boundary=x"), 400, "damaged|no field")
    refused(post(b"--x\r\n\r\n--x--\r\n", "multipart/form-data; boundary=x"), 400, "damaged")
    refused(small.ask("POST", "/api/predict", data={"model": "net.onnx"}), 415)


def test_several_files_are_a_series_or_nothing(small):
    def post(*contents, name="a.dcm"):
        files = [("file", (name, content)) for content in contents]
        return small.ask("POST", "/api/predict", files=files)

    refused(post(PNG, PNG, name="a.png"), 422, "one DICOM series")
    refused(post(*[WHOLE["mr.dcm"]] * (TIGHT.files + 1)), 413, "too many files")
    refused(post(WHOLE["mr.dcm"], WHOLE["j2k.dcm"]), 422, "series|position")


def test_too_many_bytes(small):
    refused(small.send(bytes(TIGHT.upload_bytes + 2**19)), 413, "too large")


def test_what_a_worker_must_not_be_asked_for(small):
    for path in ("/api/results/../../etc/passwd", "/page/../app.py", "/page/%2e%2e/app.py"):
        refused(small.get(path), 404)
    refused(small.ask("PUT", "/api/predict"), 405)
    refused(small.get("/docs"), 404)


def test_the_word_of_a_failed_validation_is_one_sentence(small):
    made = small.send(PNG).json()["id"]
    refused(small.get(f"/api/results/{made}/mask.raw?slice=x"), 422, "slice")
    refused(small.get(f"/api/results/{made}/mask.raw?slice=1"), 422, "no such slice")
    refused(small.get(f"/api/results/{made}/mask.raw?slice={'9' * 4000}"), 422, "slice")
    refused(small.get(f"/api/results/{made}/mask.png?slice={'9' * 4000}"), 422, "slice")
    refused(small.get(f"/api/results/{made}/{'x' * 100}"), 422)


def test_a_worker_takes_no_more_memory_than_it_may(graph):
    wide = io.BytesIO()
    Pillow.fromarray(np.zeros((4000, 4000), np.uint8)).save(wide, "PNG")
    config = WorkerConfig([str(graph)], replace(TIGHT, pixels=2**25, memory_bytes=2**26))
    with Asked(Service(config, 1, print), Guard(), []) as asked:
        refused(asked.send(wide.getvalue()), 413, "memory|too large")
        assert asked.send(PNG).status_code == 200
