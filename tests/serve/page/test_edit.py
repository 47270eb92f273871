"""The editor of masks in a real browser: strokes, what takes them back, and what is kept."""

import numpy as np
import pytest

from tests.browser import eventually
from tests.serve.page.hands import Fingers, expected, settled, until

EDITING = "() => !document.querySelector('#editor').hidden"
CHOSEN = "() => document.querySelector('#choice').value"
STATUS = "() => document.querySelector('#status').textContent"


@pytest.fixture
def editing(opened, files):
    """The page with two films, the editor open on one."""

    def begin(*paths, **options):
        tab = opened(**options)
        tab.set_input_files("#files", paths or [files["rowan"]])
        settled(tab, len(paths) or 1)
        tab.click("#edit")
        until(tab, EDITING)
        return tab

    return begin


def kept(tab):
    """The corrected mask that the service has, as the page draws it."""
    code = """async () => {
      const id = document.querySelector('#pane-now').dataset.drawn.split('/')[0];
      const raw = await fetch(`/api/results/${id}/mask.raw?slice=0&mask=corrected`);
      return [...new Uint8Array(await raw.arrayBuffer())];
    }"""
    return np.array(tab.evaluate(code)).reshape(128, 128)


def at(tab, x, y):
    """Where a pixel of a film of 128 lies on the screen."""
    box = tab.locator("#pane-now").bounding_box()
    side = 0.985 * min(box["width"], box["height"]) / 128
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    return tuple(m + (n + 0.5 - 64) * side for m, n in zip(middle, (x, y), strict=True))


def stroke(tab, *points):
    tab.mouse.move(*at(tab, *points[0]))
    tab.mouse.down()
    for point in points[1:]:
        tab.mouse.move(*at(tab, *point), steps=4)
    tab.mouse.up()


def test_strokes_are_taken_back_and_kept(editing, files):
    tab = editing()
    before = expected(files["rowan"]).mask
    stroke(
        tab, (6, 6), (20, 6), (20, 20), (6, 20), (6, 6)
    )  # a ring: a part of its own, with a hole
    stroke(tab, (100, 120), (110, 120))
    tab.click("#edit-undo")
    assert tab.is_enabled("#edit-redo")
    tab.click("#edit-redo")
    tab.keyboard.press("z")
    tab.click("#edit-holes")
    tab.click("#edit")
    until(tab, CHOSEN, "corrected")
    mask = kept(tab)
    assert (mask[2:25, 2:25] == 1).sum() > 350  # and what it encloses
    assert mask[118:123, 100:111].sum() == before[118:123, 100:111].sum()
    tab.click("#edit")
    until(tab, EDITING)
    tab.click("#edit-largest")
    tab.click("#edit")
    eventually(tab, lambda: kept(tab)[2:25, 2:25].sum() == 0)
    tab.click("#edit")
    until(tab, EDITING)
    stroke(tab, (6, 6), (20, 6))
    tab.keyboard.press("Escape")
    until(tab, EDITING, False)
    assert kept(tab)[2:25, 2:25].sum() == 0


def test_who_goes_on_while_a_mask_is_saved_draws_on_no_other(editing, opened, files):
    films = [files["rowan"], files["folder"] / "scene-0001.png"]
    tab = editing(*films)
    held = []
    tab.route("**/corrected?*", lambda route: held.append(route))
    name = tab.inner_text("#name")
    stroke(tab, (6, 6), (20, 6))
    is_first = tab.locator(".item").first.get_attribute("aria-selected") == "true"
    tab.keyboard.press("j" if is_first else "k")
    eventually(tab, lambda: held)
    until(tab, EDITING, False)
    assert tab.inner_text("#name") != name
    held[0].abort()
    until(tab, STATUS + ".includes('is not saved')")
    asked = []
    tab.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    tab.evaluate("() => setTimeout(() => location.reload())")
    eventually(tab, lambda: asked == ["beforeunload"])  # what was drawn would be lost
    tab.click(f".item[title='{name}']")
    until(tab, "() => document.querySelector('#name').textContent", name)
    tab.click("#edit")
    until(tab, EDITING)
    tab.unroute("**/corrected?*")
    tab.click("#edit")
    until(tab, CHOSEN, "corrected")
    assert kept(tab)[4:9, 6:21].all()
    opened.errors.clear()  # the browser's own line about the request that was cut


def test_a_finger_draws_and_does_not_scroll(editing, files):
    tab = editing(width=390, height=844, has_touch=True, is_mobile=True)
    tab.evaluate("() => document.querySelector('.stage').scrollIntoView({ block: 'center' })")
    scrolled = tab.evaluate("() => window.scrollY")
    Fingers(tab).down(*at(tab, 8, 8)).move(at(tab, 8, 40)).up()
    assert tab.evaluate("() => window.scrollY") == scrolled
    tab.click("#edit")
    until(tab, CHOSEN, "corrected")
    assert kept(tab)[10:39, 8].all()
