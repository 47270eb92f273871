"""Services to ask: without models, with a small graph, and a process of its own."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from sitta.serve import pool
from sitta.serve.app import create_app
from sitta.serve.guard import Guard
from sitta.serve.quotas import Limits
from sitta.serve.server import Server
from sitta.serve.service import Service
from sitta.serve.worker import WorkerConfig
from tests.onnx_stub import export
from tests.serve import slow

HERE = "http://127.0.0.1:8642"
TIGHT = Limits(
    upload_bytes=2**21, pixels=2**20, slices=64, files=5, seconds=20.0, queue=8, memory_bytes=2**30
)


class Asked:
    """An application in this process, on a loop of its own, and how to ask it."""

    def __init__(self, service, guard, log, lasting=False):
        self.service, self.guard, self.log, self._lasting = service, guard, log, lasting
        self.app = create_app(service, guard)
        self.loop = asyncio.new_event_loop()
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=HERE)

    def __enter__(self):
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._call(self._client.aclose())
        if not self._lasting:
            self.service.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def _call(self, task):
        return asyncio.run_coroutine_threadsafe(task, self.loop).result(240)

    def ask(self, method, path, **options):
        return self._call(self._client.request(method, path, **options))

    def get(self, path, **options):
        return self.ask("GET", path, **options)

    def send(self, content=b"x", name="a.png", **fields):
        files = {"file": (name, content, "application/octet-stream")}
        return self.ask("POST", "/api/predict", files=files, data=fields)


@pytest.fixture
def without_models(monkeypatch):
    """Makes applications whose workers have no models, and so start at once."""
    monkeypatch.setattr(pool, "main", slow.main)
    with contextlib.ExitStack() as stack:

        def made(limits=TIGHT, guard=None, workers=1, models=("none",)):
            log = []
            service = Service(WorkerConfig(models, limits), workers, log.append)
            asked = Asked(service, guard or Guard(), log)
            return stack.enter_context(asked)

        yield made


@pytest.fixture(scope="module")
def idle():
    """A service without models that several applications may share, one after the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "main", slow.main)
        log = []
        service = Service(WorkerConfig(["none"], TIGHT), 1, log.append)
    yield service, log
    service.close()


@pytest.fixture
def guarded(idle):
    """Makes applications of it with a guard."""
    with contextlib.ExitStack() as stack:

        def made(guard=None):
            service, log = idle
            return stack.enter_context(Asked(service, guard or Guard(), log, lasting=True))

        yield made


@pytest.fixture
def on_a_port(without_models):
    """Makes such applications that listen on a port."""
    with contextlib.ExitStack() as stack:

        def made(**options):
            asked = without_models(**options)
            more = {"port": 0, "log_level": "error", "lifespan": "off"}
            server = Server(asked.app, asked.service.pool, asked.log.append, **more)
            asked.server = server
            done = asyncio.run_coroutine_threadsafe(server._serve(), asked.loop)
            stack.callback(done.result, 20)
            stack.callback(setattr, server, "should_exit", True)
            while not server.started:
                time.sleep(0.01)
            asked.port = server.servers[0].sockets[0].getsockname()[1]
            return asked

        yield made


@pytest.fixture(scope="session")
def graph(tmp_path_factory):
    """A model that needs no torch."""
    return export(tmp_path_factory.mktemp("model") / "net.onnx")


@pytest.fixture(scope="session")
def small(graph):
    """An application with that model, and tight limits."""
    log = []
    asked = Asked(Service(WorkerConfig([str(graph)], TIGHT), 1, log.append), Guard(), log)
    with asked:
        yield asked


class Process:
    """``sitta serve`` in a process of its own."""

    def __init__(self, folder, *words, code=None):
        self.folder = folder
        (folder / "tmp").mkdir(parents=True)
        self.errors = folder / "log"
        start = ["-m", "sitta"] if code is None else ["-c", code]
        environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "PYTHONWARNINGS": "error"}
        with open(self.errors, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *start, "serve", *map(str, words), "--port", "0"],
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
            )
        self.said = ""
        while "Ctrl-C" not in self.said:
            line = self.process.stdout.readline()
            assert line, self.errors.read_text()
            self.said += line
        self.url = re.search(r"http://\S+", self.said)[0].rstrip("/")
        self.client = httpx.Client(base_url=self.url, timeout=240)

    @property
    def kept(self):
        """Everything that it holds on disk."""
        return [path for path in (self.folder / "tmp").rglob("*") if path.is_file()]

    def children(self):
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for task in tasks for pid in task.read_text().split()]

    def end(self, number=signal.SIGTERM):
        self.client.close()
        self.process.send_signal(number)
        code = self.process.wait(20)
        self.process.stdout.close()
        return code


@pytest.fixture(scope="session")
def server(graph, tmp_path_factory):
    """A real one, with that model."""
    started = Process(tmp_path_factory.mktemp("server"), graph, "--queue", 6)
    yield started
    started.end()
