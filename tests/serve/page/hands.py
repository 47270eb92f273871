"""What hands do on the page, what eyes see there, and what the library says."""

import base64
import functools
import io

import numpy as np
from PIL import Image

from sitta.inference.backends.torch import adapter
from sitta.inference.inputs import InputFile
from sitta.inference.loading import load_model
from sitta.inference.pipeline import predict_prepared, prepare_file
from sitta.inference.request import Request
from tests.browser import PATIENCE, eventually

MASK = (0x35, 0xC4, 0xFF)  # colours of the outlines
SOURCE = (0xFF, 0xB0, 0x00)
DONE = "() => document.querySelector('#pane-now').dataset.drawn"
CURRENT = "() => document.querySelector('#pane-now').dataset.current"  # what is wanted is drawn


def drop(tab, *paths):
    """As a hand does: real files and folders, through the browser's own events."""
    session = tab.context.new_cdp_session(tab)
    data = {"items": [], "files": [str(p) for p in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "x": 500, "y": 400, "data": data})
    session.detach()


def until(tab, expression, wanted=True):
    """Wait from outside: the page's policy forbids Playwright to evaluate text in it."""
    for _ in range(PATIENCE // 25):
        found = tab.evaluate(expression)
        if found == wanted or (wanted is True and found):
            return found
        tab.wait_for_timeout(25)
    raise AssertionError(f"never {wanted}: {expression}, but {found}")


def settled(tab, number=1):
    """Wait for that many images to be done or failed, and for the chosen one to be drawn."""
    until(tab, "() => document.querySelectorAll('.item.done, .item.failed').length", number)
    until(tab, CURRENT)


def picture(tab, pane="#pane-now"):
    code = "e => new Promise(r => requestAnimationFrame(() => r(e.toDataURL())))"
    coded = tab.locator(pane).evaluate(code)
    raw = np.frombuffer(base64.b64decode(coded.split(",")[1]), dtype=np.uint8)
    return np.asarray(Image.open(io.BytesIO(raw.tobytes())).convert("RGB"), dtype=int)


def changed(tab, before, pane="#pane-now", share=0.0):
    """The picture once more than a share of its values differs from an earlier one."""
    seen = [before]

    def differs():
        seen.append(picture(tab, pane))
        return seen[-1].shape == before.shape and (seen[-1] != before).mean() > share

    eventually(tab, differs)
    return seen[-1]


def coloured(pixels, colour, far=40):
    return np.abs(pixels - colour).max(axis=-1) < far


@functools.cache
def expected_uncertainty(path, method):
    """The map of a method, in bits."""
    loaded = load_model("phantom-alder")
    adapt = adapter(loaded.model, Request("phantom-alder", method=method))
    prepared = prepare_file(InputFile(path, path.name, path.name), loaded.preprocess)
    (done,) = predict_prepared([prepared], adapt, frozenset({"uncertainty"}))
    return np.squeeze(np.asarray(done.maps["uncertainty"]))


@functools.cache
def expected(path, method=None, **settings):
    """What the Python API says about a file."""
    loaded = load_model("phantom-alder")
    adapt = adapter(loaded.model, Request("phantom-alder", method, settings))
    prepared = prepare_file(InputFile(path, path.name, path.name), loaded.preprocess)
    return predict_prepared([prepared], adapt, frozenset())[0]


class Fingers:
    """Fingers on the glass, one after the other, through the browser's own touch events."""

    def __init__(self, tab):
        self.tab = tab
        self.points = []
        self._session = tab.context.new_cdp_session(tab)

    def down(self, x, y):
        """One more finger."""
        self.points.append((x, y))
        self._send("touchStart", self.points)
        return self

    def move(self, *ends, steps=8):
        """Each finger on a straight line to its end, all at once."""
        begin = self.points
        for step in range(1, steps + 1):
            share = step / steps
            self.points = [
                tuple(a + (b - a) * share for a, b in zip(*line, strict=True))
                for line in zip(begin, ends, strict=True)
            ]
            self._send("touchMove", self.points)
            self.tab.wait_for_timeout(16)  # a frame, in which a browser looks for gestures
        return self

    def up(self, *, keep=0):
        """All leave but the first so many."""
        while len(self.points) > keep:
            self._send("touchEnd", self.points[-1:], first=len(self.points) - 1)
            self.points.pop()
        return self

    def _send(self, kind, points, first=0):
        told = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points, first)]
        self._session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": told})
