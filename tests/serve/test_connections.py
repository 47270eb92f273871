"""Clients that send slowly, or not at all, keep nobody else out."""

import asyncio
import errno
import json
import socket
from contextlib import ExitStack, closing
from dataclasses import replace

import httpx
import pytest

from sitta.serve import connections, middleware
from sitta.serve.server import Server
from tests.serve.conftest import TIGHT
from tests.serve.test_pool import _request, wait_until

HALF = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
MOST = 24


@pytest.fixture
def opened():
    """Opens connections that send something and stay."""
    with ExitStack() as stack:

        def made(asked, content=b""):
            client = socket.create_connection(("127.0.0.1", asked.port), timeout=60)
            stack.enter_context(closing(client))
            client.sendall(content)
            return client

        yield made


def answer(client):
    """Status and error of an answer that ends with its connection."""
    content = b""
    while part := client.recv(2**16):
        content += part
    head, _, body = content.partition(b"\r\n\r\n")
    assert b"content-security-policy" in head.lower()
    assert b" 503 " not in head or b"retry-after" in head.lower()
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def healthy(asked):
    return httpx.get(f"http://127.0.0.1:{asked.port}/healthz", timeout=60).status_code == 200


def test_half_sent_headers_make_way_for_others(on_a_port, opened, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", MOST)
    asked = on_a_port()
    for _ in range(5 * MOST):
        opened(asked, HALF)
    assert healthy(asked)
    assert len(asked.server.server_state.connections) <= MOST // 2
    assert asked.send().status_code == 200


def test_a_header_that_never_ends_is_given_up(on_a_port, opened, monkeypatch):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.1)
    asked = on_a_port()
    assert answer(opened(asked, HALF)) == (408, "slow-header")
    again = opened(asked, HALF + b"\r\n")  # the header of the second request is the late one
    assert again.recv(2**16).startswith(b"HTTP/1.1 200")
    again.sendall(HALF)
    assert answer(again) == (408, "slow-header")


def test_requests_under_way_are_never_closed_for_others(on_a_port, opened, monkeypatch, tmp_path):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 4)
    asked, go = on_a_port(), tmp_path / "go"
    jobs = [opened(asked, _request(b"x", until=str(go))) for _ in range(2)]
    wait_until(lambda: asked.service.pool.inside == 2)
    assert answer(opened(asked)) == (503, "busy")
    go.touch()
    for job in jobs:
        assert job.recv(2**16).startswith(b"HTTP/1.1 200")
    assert healthy(asked)


def test_stalled_uploads_take_no_places(on_a_port, opened, monkeypatch):
    asked = on_a_port(limits=replace(TIGHT, queue=0))
    stalled = [opened(asked, _request(b"x" * 1000)[:-500]) for _ in range(6)]
    wait_until(lambda: len(list(asked.service.store.root.iterdir())) == len(stalled))
    assert asked.service.pool.inside == 0
    assert asked.send().status_code == 200


@pytest.mark.parametrize("path", ["/api/predict", "/login"])
def test_a_body_that_stands_still_is_given_up(on_a_port, opened, monkeypatch, path):
    monkeypatch.setattr(middleware, "STALL_SECONDS", 0.1)
    asked = on_a_port()
    head = b"Host: 127.0.0.1\r\nConnection: close\r\nContent-Length: 900\r\nContent-Type: "
    kind = b"multipart/form-data; boundary=x\r\n\r\n--x\r\n"
    client = opened(asked, f"POST {path} HTTP/1.1\r\n".encode() + head + kind)
    assert answer(client) == (408, "slow-upload")
    assert not list(asked.service.store.root.iterdir())


def test_what_is_no_http_gets_json(on_a_port, opened):
    asked = on_a_port()
    assert answer(opened(asked, b"\x16\x03\x01 hello\r\n\r\n")) == (400, "bad-request")
    assert answer(opened(asked, b"GET / HTTP/1.1\r\n\r\n")) == (400, "bad-request")  # no host


def test_faults_of_accepting_are_logged_once_a_second_at_most():
    log = []
    server = Server(None, None, log.append)
    fault = {"message": "out of resources", "exception": OSError(errno.EMFILE, "")}
    for _ in range(1000):
        server._fault(asyncio.AbstractEventLoop(), fault)
    assert log == ["out of resources: OSError"]


def test_few_descriptors_mean_few_connections(monkeypatch):
    for soft, most in ((64, 21), (1024, 341), (2**20, 512), (-1, 512), (3, 4)):
        monkeypatch.setattr("psutil.Process.rlimit", lambda *_, soft=soft: (soft, soft))
        assert connections.most_connections() == most


def test_jobs_under_way_are_finished_when_it_ends(on_a_port, opened, tmp_path):
    asked, go = on_a_port(), tmp_path / "go"
    job = opened(asked, _request(b"x", until=str(go)))
    wait_until(lambda: asked.service.pool.running)
    asked.server.should_exit = True
    wait_until(lambda: asked.get("/readyz").status_code == 503)
    late = httpx.post(f"http://127.0.0.1:{asked.port}/api/predict", files={"file": b"x"})
    assert (late.status_code, late.json()["error"]["code"]) == (503, "ending")
    assert int(late.headers["retry-after"]) >= 1
    go.touch()
    assert job.recv(2**16).startswith(b"HTTP/1.1 200")


def test_jobs_that_take_too_long_to_end_get_503(on_a_port, opened, monkeypatch, tmp_path):
    monkeypatch.setattr("sitta.serve.server.DRAIN_SECONDS", 0.0)
    asked = on_a_port()
    jobs = [opened(asked, _request(b"x", until=str(tmp_path / "never"))) for _ in range(3)]
    wait_until(lambda: asked.service.pool.waiting == 2)
    asked.server.should_exit = True
    for job in jobs:
        assert answer(job) == (503, "ending")
