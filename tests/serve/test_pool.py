"""Workers are bounded in number and time, and those that must not go on are replaced."""

import errno
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


def wait_until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_job_is_done_and_its_upload_is_gone(without_models):
    asked = without_models()
    answer = asked.send().json()
    assert answer["worker"] == asked.service.pool.pids[0]
    assert [p.name for p in asked.service.store.root.iterdir()] == [f"result-{answer['id']}"]


def test_a_full_queue_is_429_with_a_time_to_come_back(without_models, tmp_path):
    asked = without_models(replace(TIGHT, queue=1))
    go = tmp_path / "go"
    with ThreadPoolExecutor(6) as threads:
        jobs = [threads.submit(asked.send, **told(until=str(go))) for _ in range(6)]
        wait_until(lambda: sum(job.done() for job in jobs) == 4)
        go.touch()
        answers = [job.result() for job in jobs]
    codes = [a.status_code for a in answers]
    assert sorted(codes) == [200, 200, 429, 429, 429, 429]
    refused = next(a for a in answers if a.status_code == 429)
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["error"]["code"] == "busy"
    assert asked.service.pool.inside == 0
    assert asked.send().status_code == 200


def test_the_server_answers_while_a_job_runs(without_models, tmp_path):
    asked, go = without_models(), tmp_path / "go"
    with ThreadPoolExecutor(1) as threads:
        job = threads.submit(asked.send, **told(until=str(go)))
        wait_until(lambda: asked.service.pool.running)
        assert asked.get("/healthz").json() == {"status": "ok", "workers": 1, "queue": 0}
        assert not job.done()
        go.touch()
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


def on_loop(asked, function, *args):
    """Call a function where the service runs."""

    async def call():
        return function(*args)

    return asked._call(call())


def test_a_worker_is_renewed_however_often_that_fails(without_models, monkeypatch):
    asked, start, left = without_models(), pool.process.start, [None] * 3

    def starved(*args):
        if left:
            left.pop()
            raise OSError(errno.EMFILE, "Too many open files")
        return start(*args)

    monkeypatch.setattr(pool, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(pool.process, "start", starved)
    assert asked.send(**told(die=True)).status_code == 413
    wait_until(lambda: asked.service.pool.ready == 1)
    assert asked.send().status_code == 200
    assert sum("Too many open files" in line for line in asked.log) == 3


def test_without_a_worker_it_is_alive_and_not_ready(without_models, monkeypatch):
    asked, go = without_models(), threading.Event()
    monkeypatch.setattr(
        pool.Worker, "end", lambda self, end=pool.Worker.end: go.wait(60) and end(self)
    )
    assert asked.get("/readyz").json() == {"status": "ok", "workers": 1, "queue": 0}
    asked.send(**told(die=True))
    try:
        assert asked.get("/healthz").json() == {"status": "ok", "workers": 0, "queue": 0}
        answer = asked.get("/readyz")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not-ready")
        assert int(answer.headers["retry-after"]) >= 1
    finally:
        go.set()
    wait_until(lambda: asked.get("/readyz").status_code == 200)


def test_a_free_worker_that_is_killed_is_replaced_by_the_watch(without_models):
    asked = without_models()
    _kill(asked.service.pool._workers[0])
    assert asked.get("/readyz").status_code == 503
    on_loop(asked, asked.service.pool.watch)
    wait_until(lambda: asked.get("/readyz").status_code == 200)
    assert asked.service.pool.restarts == 1


def test_an_image_is_not_blamed_for_a_worker_killed_before(without_models):
    asked = without_models()
    _kill(asked.service.pool._workers[0])
    assert asked.send().status_code == 200
    assert asked.service.pool.restarts == 1


def test_an_image_is_not_blamed_for_a_worker_killed_meanwhile(without_models, tmp_path):
    asked = without_models()
    with ThreadPoolExecutor(1) as threads:
        job = threads.submit(asked.send, **told(until=str(tmp_path / "never")))
        wait_until(lambda: asked.service.pool.running)
        _kill(asked.service.pool._workers[0])
        answer = job.result()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "worker-ended")
    assert int(answer.headers["retry-after"]) >= 1
    assert asked.send().status_code == 200


def _kill(worker):
    worker.process.kill()
    worker.process.join()


def test_a_fault_of_a_worker_is_logged_and_not_told(without_models):
    asked = without_models()
    answer = asked.send(**told(fail=True))
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert [line for line in asked.log if "secret.py:1" in line]


def test_a_fault_of_the_server_is_json_too(without_models, monkeypatch):
    asked = without_models()
    monkeypatch.setattr(asked.service.store, "get", lambda *_, **__: {}["secret"])
    answer = asked.get("/api/results/x/mask.png")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "failed")
    assert "secret" not in answer.text
    assert [line for line in asked.log if line.startswith("fault: KeyError")]


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
        wait_until(lambda: list(asked.service.store.root.iterdir()))
    wait_until(lambda: not list(asked.service.store.root.iterdir()))
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
        assert b"408 Request Timeout" in client.recv(2**16)
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
