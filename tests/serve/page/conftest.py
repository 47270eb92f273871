"""A browser and a service for all tests of the page, and images to show to it."""

import threading

import pytest
import uvicorn

from sitta.data import phantom
from sitta.serve.app import create_app
from sitta.serve.guard import Guard
from sitta.serve.quotas import Limits
from sitta.serve.service import Service
from sitta.serve.worker import WorkerConfig
from tests import uncalibrated
from tests.browser import PATIENCE, launched


@pytest.fixture(scope="package")
def chromium():
    """One browser; not for longer, since two of Playwright cannot live in one thread."""
    with launched() as browser:
        yield browser


@pytest.fixture(scope="package", autouse=True)
def _zoo(tmp_path_factory):
    """Without a calibration, so that the page falls back on scores that need none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SITTA_ZOO", str(uncalibrated.write(tmp_path_factory.mktemp("zoo"))))
        yield


@pytest.fixture(scope="package")
def address(_zoo):
    """A service on a port of its own."""
    service = Service(WorkerConfig(["phantom-alder"], Limits(), 1), 1, lambda line: None)
    app = create_app(service, Guard())
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()
    service.close()


@pytest.fixture(scope="package")
def files(tmp_path_factory):
    """Phantom images on disk: three films, a volume, and what is none."""
    home = tmp_path_factory.mktemp("images")
    for site in ("cedar", "rowan"):
        phantom.write(home, site, 2)
    phantom.write(home / "deep", "cedar", 1, (8, 96, 64))
    film = home / "phantom" / "cedar" / "images"
    (film / "notes.txt").write_text("no image")
    broken = home / "broken.png"
    broken.write_bytes(b"\x89PNG\r\n\x1a\n and then nothing")
    volume = home / "deep" / "phantom" / "cedar" / "images" / "scene-0000.nii.gz"
    rowan = home / "phantom" / "rowan" / "images" / "scene-0000.png"
    return {"folder": film, "rowan": rowan, "volume": volume, "broken": broken}


@pytest.fixture
def opened(chromium, address):
    """Opens the page; afterwards no other origin may have been asked, and no error be said."""
    asked, errors, contexts = [], [], []

    def open_(*, width=1280, height=900, **options):
        size = {"width": width, "height": height}
        context = chromium.new_context(viewport=size, reduced_motion="reduce", **options)
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE)
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda said: errors.append(said.text))
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.goto(address)
        tab.wait_for_selector("html[data-ready]", state="attached")
        return tab

    open_.errors = errors
    yield open_
    for context in contexts:
        context.close()
    assert errors == []
    assert {url for url in asked if not url.startswith((f"{address}/", "blob:"))} == set()
