"""Workers are bounded in number and time, and those that must not go on are replaced."""

import json
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest

from sitta.errors import SittaError
from sitta.serve import pool
from tests.serve.conftest import TIGHT


def told(**settings):
    return {"settings": json.dumps(settings)}


def wait_until(holds, seconds=20):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_job_is_done_and_its_upload_is_gone(without_models):
    asked = without_models()
    answer = asked.send().json()
    assert answer["worker"] == asked.service.pool.pids[0]
    assert [p.name for p in asked.service.store.root.iterdir()] == [f"result-{answer['id']}"]


def test_a_full_queue_is_429_with_a_time_to_come_back(without_models):
    asked = without_models(replace(TIGHT, queue=1))
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: asked.send(**told(sleep=0.5)), range(6)))
    codes = [a.status_code for a in answers]
    assert sorted(codes) == [200, 200, 429, 429, 429, 429]
    refused = next(a for a in answers if a.status_code == 429)
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["error"]["code"] == "busy"
    assert asked.service.pool.inside == 0
    assert asked.send().status_code == 200


def test_the_server_answers_while_a_job_runs(without_models):
    asked = without_models()
    with ThreadPoolExecutor(1) as threads:
        job = threads.submit(asked.send, **told(sleep=1.5))
        wait_until(lambda: asked.service.pool.running)
        start = time.monotonic()
        assert asked.get("/healthz").json() == {"status": "ok", "workers": 1, "queue": 0}
        assert not job.done()
        assert time.monotonic() - start < 1
        assert job.result().status_code == 200


def test_a_job_over_its_time_ends_with_its_worker(without_models):
    asked = without_models(replace(TIGHT, seconds=0.4))
    first = asked.service.pool.pids
    answer = asked.send(**told(sleep=60))
    assert answer.status_code == 504
    assert "0.4 s" in answer.json()["error"]["message"]
    wait_until(lambda: not _is_running(first[0]))
    wait_until(lambda: asked.service.pool.pids not in ([], first))
    wait_until(lambda: asked.send().status_code == 200)
    assert asked.service.pool.restarts == 1
    assert not [p for p in asked.service.store.root.iterdir() if p.name.startswith("upload")]


def test_a_worker_that_starts_is_not_ready(without_models, monkeypatch):
    asked = without_models()
    go, ready = threading.Event(), pool.Worker.ready
    monkeypatch.setattr(pool.Worker, "ready", lambda self: go.wait(60) and ready(self))
    assert asked.send(**told(die=True)).status_code == 413
    try:
        wait_until(lambda: asked.service.pool.pids)
        assert asked.get("/healthz").json()["workers"] == 0
    finally:
        go.set()
    wait_until(lambda: asked.get("/healthz").json()["workers"] == 1)


def _is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_who_waits_too_long_for_a_worker_is_told(without_models):
    asked = without_models(replace(TIGHT, seconds=0.8))
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(asked.send, **told(sleep=60))
        wait_until(lambda: asked.service.pool.running)
        asked.service.pool._renew = lambda worker: _never(worker)
        second = threads.submit(asked.send)
        assert (first.result().status_code, second.result().status_code) == (504, 503)
    assert second.result().headers["retry-after"]


async def _never(worker):
    worker.end()


def test_a_worker_that_dies_is_replaced_and_its_client_is_told(without_models):
    asked = without_models()
    answer = asked.send(**told(die=True))
    assert answer.status_code == 413
    assert "memory" in answer.json()["error"]["message"]
    wait_until(lambda: asked.send().status_code == 200)


def test_a_fault_of_a_worker_is_logged_and_not_told(without_models):
    asked = without_models()
    answer = asked.send(**told(fail=True))
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert [line for line in asked.log if "secret.py:1" in line]


def test_paths_of_the_service_are_not_told(without_models):
    asked = without_models()
    problem = asked.send(name="/home/me/scan.png", **told(refuse=True)).json()["error"]
    assert problem["message"] == "scan.png is bad."
    assert not list(asked.service.store.root.iterdir())


def test_an_abandoned_job_ends(on_a_port):
    asked = on_a_port()
    worker, body = asked.service.pool.pids[0], _request(b"x" * 100, sleep=60)
    with socket.create_connection(("127.0.0.1", asked.port)) as client:
        client.sendall(body)
        wait_until(lambda: asked.service.pool.running)
    wait_until(lambda: not _is_running(worker))
    wait_until(lambda: asked.send().status_code == 200)
    assert asked.service.pool.inside == 0
    assert 'sitta_jobs_total{outcome="abandoned"} 1' in asked.get("/metrics").text


def test_a_job_abandoned_while_it_waits_costs_no_worker(on_a_port):
    asked = on_a_port()
    workers = asked.service.pool.pids
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(asked.send, **told(sleep=1))
        wait_until(lambda: asked.service.pool.running)
        with socket.create_connection(("127.0.0.1", asked.port)) as client:
            client.sendall(_request(b"x", sleep=60))
            wait_until(lambda: asked.service.pool.waiting == 1)
        wait_until(lambda: asked.service.pool.waiting == 0)
        assert first.result().status_code == 200
    assert asked.send().json()["worker"] == workers[0]


def test_an_upload_that_is_cut_off_leaves_nothing(on_a_port):
    asked = on_a_port()
    with socket.create_connection(("127.0.0.1", asked.port)) as client:
        client.sendall(_request(b"x" * 100_000, sleep=0)[:50_000])
        wait_until(lambda: asked.service.pool.inside)
    wait_until(lambda: not asked.service.pool.inside)
    assert not list(asked.service.store.root.iterdir())
    assert asked.send().status_code == 200


def test_who_is_refused_while_sending_still_gets_the_answer(on_a_port):
    asked = on_a_port()
    large = {"file": ("a.png", b"x" * (TIGHT.upload_bytes + 2**19))}
    at = f"http://127.0.0.1:{asked.port}"
    with httpx.Client(base_url=at) as client:
        answer = client.post("/api/predict", files=large)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too-large")
        part = client.build_request("POST", "/api/predict", files=large)
        kind = {"content-type": part.headers["content-type"]}
        content = part.read()
        pieces = (content[n : n + 2**16] for n in range(0, len(content), 2**16))
        answer = client.post("/api/predict", content=pieces, headers=kind)  # without a length
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too-large")


def test_an_upload_that_never_ends_is_given_up(on_a_port):
    asked = on_a_port(limits=replace(TIGHT, seconds=0.3))
    with socket.create_connection(("127.0.0.1", asked.port), timeout=30) as client:
        client.sendall(_request(b"x" * 1000, sleep=0)[:500])
        wait_until(lambda: asked.service.pool.inside)
        wait_until(lambda: not asked.service.pool.inside)
    assert asked.send().status_code == 200


def test_a_model_that_cannot_be_loaded_ends_the_start(without_models):
    before = {*threading.enumerate()}  # other servers may be up in this process
    with pytest.raises(SittaError, match="no such model"):
        without_models(models=("unfit",))
    left = {*threading.enumerate()} - before
    assert not [t for t in left if t.name.startswith("sitta-worker")]


def _request(content, **settings):
    parts = {"file": ("a.png", content), "settings": (None, json.dumps(settings))}
    made = httpx.Request("POST", "http://127.0.0.1/api/predict", files=parts)
    head = "".join(f"{k}: {v}\r\n" for k, v in made.headers.items())
    return f"POST /api/predict HTTP/1.1\r\n{head}\r\n".encode() + made.read()
