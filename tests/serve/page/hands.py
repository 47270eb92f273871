"""What hands do on the page, what eyes see there, and what the library says."""

import base64
import functools
import io

import numpy as np
from PIL import Image

from sitta.runs.inputs import Item
from sitta.runs.loading import load_model
from sitta.runs.network import adapter
from sitta.runs.one import predict_file
from sitta.runs.plan import Plan

MASK = (0x35, 0xC4, 0xFF)  # colours of the outlines
SOURCE = (0xFF, 0xB0, 0x00)
DONE = "() => document.querySelector('#pane-now').dataset.drawn"


def drop(tab, *paths):
    """As a hand does: real files and folders, through the browser's own events."""
    session = tab.context.new_cdp_session(tab)
    data = {"items": [], "files": [str(p) for p in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "x": 500, "y": 400, "data": data})
    session.detach()


def until(tab, expression, wanted=True):
    """Wait from outside: the page's policy forbids Playwright to evaluate text in it."""
    for _ in range(1200):
        found = tab.evaluate(expression)
        if found == wanted or (wanted is True and found):
            return found
        tab.wait_for_timeout(25)
    raise AssertionError(f"never {wanted}: {expression}, but {found}")


def settled(tab, number=1):
    """Wait for that many images to be done or failed, and for the chosen one to be drawn."""
    until(tab, "() => document.querySelectorAll('.item.done, .item.failed').length", number)
    until(tab, DONE)
    tab.wait_for_timeout(60)


def picture(tab, pane="#pane-now"):
    code = "e => new Promise(r => requestAnimationFrame(() => r(e.toDataURL())))"
    coded = tab.locator(pane).evaluate(code)
    raw = np.frombuffer(base64.b64decode(coded.split(",")[1]), dtype=np.uint8)
    return np.asarray(Image.open(io.BytesIO(raw.tobytes())).convert("RGB"), dtype=int)


def coloured(pixels, colour, far=40):
    return np.abs(pixels - colour).max(axis=-1) < far


@functools.cache
def expected_uncertainty(path, method):
    """The map of a method, in bits."""
    loaded = load_model("phantom-alder")
    adapt = adapter(loaded.model, Plan("phantom-alder", method=method))
    maps = frozenset({"uncertainty"})
    done = predict_file(Item(path, path.name, path.name), adapt, loaded.preprocess, maps)
    return np.squeeze(np.asarray(done.maps["uncertainty"]))


@functools.cache
def expected(path, **settings):
    """What the Python API says about a file."""
    loaded = load_model("phantom-alder")
    adapt = adapter(loaded.model, Plan("phantom-alder", settings=settings))
    return predict_file(Item(path, path.name, path.name), adapt, loaded.preprocess, frozenset())
