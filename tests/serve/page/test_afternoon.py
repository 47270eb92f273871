"""A reader's afternoon in a real browser: 20 images by keyboard alone, with a reload in between."""

import contextlib
import csv
import hashlib
import io
import threading
import zipfile

import numpy as np
import pytest
import torch
import uvicorn
from PIL import Image as Pillow

import sitta
from sitta.data import phantom
from sitta.data.images import read
from sitta.data.preprocess import TASKS
from sitta.prediction.decisions import from_csv
from sitta.serve.app import create_app
from sitta.serve.guard import Guard
from sitta.serve.quotas import Limits
from sitta.serve.service import Service
from sitta.serve.worker import WorkerConfig
from tests.browser import PATIENCE, eventually
from tests.serve.page.hands import DONE, expected, settled, until

IMAGES = 20
REVIEWED = "() => document.querySelector('#reviewed').textContent"
NAME = "() => document.querySelector('#name').textContent"
STATUS = "() => document.querySelector('#status').textContent"


@contextlib.contextmanager
def served(folder):
    """A service with a session."""
    service = Service(WorkerConfig(["phantom-alder"], Limits(), 1), 1, lambda line: None, folder)
    config = uvicorn.Config(create_app(service, Guard()), port=0, log_level="error", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        service.close()


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    home = tmp_path_factory.mktemp("films")
    phantom.write(home, "rowan", IMAGES, (64, 64))
    return sorted((home / "phantom" / "rowan" / "images").iterdir())


@pytest.fixture
def visit(chromium):
    """Opens the page of an address; no error may be said on it."""
    errors, contexts = [], []

    def open_(address):
        contexts.append(chromium.new_context(viewport={"width": 1280, "height": 900}))
        tab = contexts[-1].new_page()
        tab.set_default_timeout(PATIENCE)
        tab.on("console", lambda said: errors.append(said.text))
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.goto(address)
        tab.wait_for_selector("html[data-ready]", state="attached")
        return tab

    yield open_
    for context in contexts:
        context.close()
    assert errors == []


def name_of(tab):
    until(tab, "() => document.querySelector('#panel').hidden === false")
    return tab.evaluate(NAME)


def tab_to(tab, selector):
    """Go to an element by the Tab key alone."""
    for _ in range(150):
        if tab.evaluate("(s) => document.activeElement.matches(s)", selector):
            return
        tab.keyboard.press("Tab")
    raise AssertionError(f"Tab never comes to {selector}")


def decided(tab, number):
    until(tab, REVIEWED, f"{number} of {IMAGES} reviewed")


@pytest.mark.timeout(900)  # on a busy machine; it starts two services
def test_twenty_images_by_keyboard(visit, films, tmp_path):
    with served(tmp_path / "session") as address:
        tab = visit(address)
        tab.set_input_files("#files", films)
        eventually(tab, lambda: tab.locator(".item.done").count() == IMAGES)
        until(tab, DONE)
        tab_to(tab, ".item[tabindex='0']")
        tab.keyboard.press("Home")
        until(tab, DONE)
        said = {}
        for number in range(9):
            said[name_of(tab)] = "accept"
            tab.keyboard.press("1")
            decided(tab, number + 1)
        unadapted = name_of(tab)
        tab.keyboard.press("x")
        until(tab, "() => document.querySelector('#choice').value", "unadapted")
        sent = []
        tab.on("requestfinished", lambda one: sent.append(one.post_data or ""))
        tab.keyboard.press("1")
        decided(tab, 10)
        said[unadapted] = "accept"
        eventually(tab, lambda: any('"accept"' in text and '"unadapted"' in text for text in sent))
        tab.reload()
        tab.wait_for_selector("html[data-ready]", state="attached")
        decided(tab, 10)
        until(tab, DONE)
        corrected = name_of(tab)  # the address has named what was open
        assert corrected not in said
        tab.keyboard.press("e")
        until(tab, "() => document.querySelector('#editor').hidden", False)
        for key in (" ", "ArrowRight", "ArrowRight", " ", "ArrowDown", " ", "w", "ArrowLeft", " "):
            tab.keyboard.press(key)
        tab.keyboard.press("Enter")
        until(tab, "() => document.querySelector('#choice').value", "corrected")
        tab.keyboard.press("2")
        decided(tab, 11)
        said[corrected] = "needs-fix"
        rejected = name_of(tab)
        tab.keyboard.press("3")
        decided(tab, 12)
        said[rejected] = "reject"
        for number in range(12, IMAGES):
            said[name_of(tab)] = "accept"
            tab.keyboard.press("1")
            decided(tab, number + 1)
        assert sorted(said.values()) == ["accept"] * 18 + ["needs-fix", "reject"]
        tab_to(tab, "#save-menu summary")
        tab.keyboard.press("Enter")
        tab_to(tab, "#save-all")
        with tab.expect_download() as got:
            tab.keyboard.press("Enter")
        content = got.value.path().read_bytes()
        alone = {"unadapted": unadapted, "corrected": corrected, "rejected": rejected}
        check(content, films, said, alone)
    with served(tmp_path / "session") as address:  # it survives a restart
        again = visit(address)
        decided(again, IMAGES)
        until(again, DONE)
    kept = from_csv((tmp_path / "session" / "decisions.csv").read_text())
    assert {one.file: one.decision for one in kept} == said


def check(content, films, said, alone):
    """Every file of the archive, against the Python API."""
    archive = zipfile.ZipFile(io.BytesIO(content))
    assert archive.testzip() is None
    tables = {"summary.csv", "decisions.csv", "report.html"}
    masks = {f"masks/{film.name}" for film in films}
    assert set(archive.namelist()) == tables | masks | {f"corrected/{alone['corrected']}"}
    rows = {one.file: one for one in from_csv(archive.read("decisions.csv").decode())}
    assert {name: one.decision for name, one in rows.items()} == said
    text = archive.read("summary.csv").decode()
    summary = {row["file"]: row for row in csv.DictReader(io.StringIO(text))}
    for film in films:
        mask = archive.read(f"masks/{film.name}")
        pixels = np.asarray(Pillow.open(io.BytesIO(mask))) > 0
        done = expected(film)
        one = rows[film.name]
        assert one.mask_sha256 == hashlib.sha256(mask).hexdigest()
        if film.name == alone["corrected"]:
            assert one.mask == "corrected"
            drawn = np.argwhere(pixels != (done.mask > 0))  # by the brush, about the middle
            assert len(drawn) > 20
            assert np.abs(drawn - np.array(pixels.shape) / 2).max() < 20
            assert mask == archive.read(f"corrected/{film.name}")
        elif film.name == alone["unadapted"]:
            assert one.mask == "unadapted"
            np.testing.assert_array_equal(pixels, expected_source(film))
        else:
            assert one.mask == "adapted"
            np.testing.assert_array_equal(pixels, done.mask > 0)
        score = done.record["rows"][0]["agreement"]
        assert float(summary[film.name]["agreement"]) == pytest.approx(score, abs=1e-6)
    report = archive.read("report.html").decode()
    assert report.startswith("<!doctype html>")
    assert f"Organ in {IMAGES} images, phantom-alder, Adapt" in report


def expected_source(film):
    """The mask of the unadapted model."""
    ready = TASKS["phantom"].apply(read(film))
    p = sitta.Source(sitta.load("phantom-alder"))(torch.from_numpy(ready.values))
    return ready.inverse.restore(p.probability.numpy())[0] > 0.5


def test_a_page_without_a_session_warns_before_it_is_left(opened, films):
    tab = opened()
    asked = []
    tab.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    tab.set_input_files("#files", films[:2])
    settled(tab, 2)
    tab.locator("#pane-now").click()
    tab.reload()
    assert asked == []  # nothing was done yet
    tab.wait_for_selector("html[data-ready]", state="attached")
    tab.set_input_files("#files", films[:2])
    settled(tab, 2)
    tab.locator("#pane-now").click()
    tab.keyboard.press("1")
    until(tab, REVIEWED, "1 of 2 reviewed")
    tab.reload()
    assert asked == ["beforeunload"]


def test_an_address_names_an_image_and_a_slice(opened, files, films):
    tab = opened()
    tab.set_input_files("#files", [files["volume"], films[0]])
    settled(tab, 2)
    tab.click(".item:has-text('.nii.gz')")
    until(tab, "() => document.querySelector('#slice-box').hidden", False)
    tab.locator("#slice").fill("2")
    until(tab, "() => location.hash", "#scene-0000.nii.gz/3")
    tab.click(".item:has-text('.png')")
    until(tab, "() => location.hash", f"#{films[0].name}")
    tab.evaluate("() => { location.hash = '#scene-0000.nii.gz/6'; }")
    until(tab, "() => document.querySelector('#slice-value').textContent", "6 of 8")
