"""Decisions in a real browser: by keyboard, image after image, and what is kept of them."""

import csv
import hashlib
import io

import numpy as np
import pytest

from sitta.data import phantom
from tests.browser import assert_accessible, eventually
from tests.serve.page.hands import (
    CURRENT,
    DONE,
    changed,
    coloured,
    expected,
    picture,
    settled,
    until,
)

REVIEWED = "() => document.querySelector('#reviewed').textContent"
NAME = "() => document.querySelector('#name').textContent"


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    home = tmp_path_factory.mktemp("three")
    phantom.write(home, "rowan", 3, (64, 64))
    return sorted((home / "phantom" / "rowan" / "images").iterdir())


def saved(tab, button="#save-decisions"):
    tab.click("#save-menu summary")
    with tab.expect_download() as got:
        tab.click(button)
    tab.keyboard.press("Escape")
    return got.value.path().read_bytes()


def rows(tab):
    return {row["file"]: row for row in csv.DictReader(io.StringIO(saved(tab).decode()))}


def test_three_images_by_keyboard(opened, three):
    tab = opened()
    tab.set_input_files("#files", three)
    settled(tab, 3)
    tab.locator(".item").first.focus()
    tab.keyboard.press("Home")
    until(tab, REVIEWED, "0 of 3 reviewed")
    order = [text.split("\n")[0] for text in tab.locator(".item .name").all_inner_texts()]
    until(tab, NAME, order[0])
    tab.keyboard.press("1")
    until(tab, NAME, order[1])
    until(tab, REVIEWED, "1 of 3 reviewed")
    assert "1 of 3 reviewed" in tab.inner_text("#status")
    tab.keyboard.press("r")
    tab.keyboard.type("apex is cut")
    tab.keyboard.press("Enter")
    assert tab.evaluate("() => document.activeElement.id") == "pane-now"
    tab.keyboard.press("2")
    until(tab, NAME, order[2])
    tab.keyboard.press("3")
    until(tab, REVIEWED, "3 of 3 reviewed")
    until(tab, NAME, order[2])
    tab.keyboard.press("u")
    until(tab, REVIEWED, "2 of 3 reviewed")
    tab.keyboard.press("3")
    until(tab, REVIEWED, "3 of 3 reviewed")
    assert "All 3 images reviewed" in tab.inner_text("#status")
    tab.evaluate("() => document.querySelector('#reviewer').value = '=Ann'")
    found = rows(tab)
    assert [found[name]["decision"] for name in order] == ["accept", "needs-fix", "reject"]
    assert found[order[1]]["remark"] == "apex is cut"
    assert tab.locator(".decided").all_inner_texts() == [
        "Accepted",
        "Needs fix",
        "Rejected",
    ]


def test_the_chosen_mask_is_drawn_decided_on_and_saved(opened, three):
    tab = opened()
    tab.set_input_files("#files", three[0])
    settled(tab)
    tab.click("#show-source")
    before = picture(tab)
    tab.select_option("#choice", "unadapted")
    until(tab, "() => document.querySelector('#show-mask-name').textContent", "Unadapted")
    until(tab, DONE)
    after = changed(tab, before)
    assert coloured(after, (0x35, 0xC4, 0xFF)).any()
    tab.locator("#pane-now").focus()
    tab.keyboard.press("1")
    until(tab, REVIEWED, "1 of 1 reviewed")
    (row,) = rows(tab).values()
    assert (row["mask"], row["decision"]) == ("unadapted", "accept")
    tab.click(".panel header summary")
    with tab.expect_download() as got:
        tab.click("[data-kind='mask.png']")
    content = got.value.path().read_bytes()
    assert hashlib.sha256(content).hexdigest() == row["mask_sha256"]
    tab.select_option("#choice", "adapted")
    tab.locator("#threshold").fill("0.8")
    until(tab, "() => document.querySelector('#threshold-value').textContent", "0.80")
    eventually(tab, lambda: rows(tab)[three[0].name]["threshold"] == "0.8")


def test_a_volume_slice_by_slice(opened, files):
    tab = opened()
    tab.set_input_files("#files", files["volume"])
    settled(tab)
    tab.locator("#slice").fill("0")
    tab.locator("#pane-now").focus()
    tab.keyboard.press("g")
    until(tab, "() => document.querySelector('#each').ariaPressed", "true")
    for number in range(8):
        until(tab, "() => document.querySelector('#slice-value').textContent", f"{number + 1} of 8")
        tab.keyboard.press("2" if number == 3 else "1")
    until(tab, REVIEWED, "1 of 1 reviewed")
    text = saved(tab).decode()
    said = [(row["slice"], row["decision"]) for row in csv.DictReader(io.StringIO(text))]
    assert said == [(str(n), "needs-fix" if n == 3 else "accept") for n in range(8)]


def test_what_the_service_does_not_take_is_taken_back(opened, three):
    tab = opened()
    tab.set_input_files("#files", three[0])
    settled(tab)
    tab.route("**/review", lambda route: route.abort())
    tab.keyboard.press("1")
    until(tab, "() => document.querySelector('#status').textContent.includes('does not answer')")
    until(tab, REVIEWED, "0 of 1 reviewed")
    opened.errors.clear()  # the browser's own line


def test_what_has_expired_is_made_again_before_it_is_saved(opened, three):
    tab = opened()
    tab.set_input_files("#files", three[:2])
    settled(tab, 2)
    tab.keyboard.press("1")
    until(tab, REVIEWED, "1 of 2 reviewed")
    until(tab, CURRENT)
    shown = tab.evaluate(DONE).split("/")[0]  # the other one, not decided on
    tab.evaluate(f"() => fetch('/api/results/{shown}', {{ method: 'DELETE' }})")
    tab.click("#save-menu summary")
    tab.click("#save-decisions")
    until(tab, "() => document.querySelector('#status').textContent.includes('1 result')")
    until(tab, f"{DONE}.startsWith('{shown}')", False)
    until(tab, CURRENT)
    tab.keyboard.press("Escape")
    assert [row["decision"] for row in rows(tab).values()] == ["accept"]
    opened.errors.clear()  # the browser's own lines about answers of 404


def test_another_method_opens_the_decision_again(opened, three):
    tab = opened()
    tab.set_input_files("#files", three[0])
    settled(tab)
    tab.keyboard.press("1")
    until(tab, REVIEWED, "1 of 1 reviewed")
    tab.select_option("#method", "source")
    until(tab, REVIEWED, "0 of 1 reviewed")
    until(tab, "() => document.querySelector('#status').textContent.includes('decide on it again')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_accessible_while_deciding(opened, three, scheme, width):
    tab = opened(color_scheme=scheme, width=width)
    tab.set_input_files("#files", three[:2])
    settled(tab, 2)
    tab.keyboard.press("2")
    until(tab, REVIEWED, "1 of 2 reviewed")
    tab.click("#save-menu summary")
    assert_accessible(tab)
    assert tab.evaluate("() => document.documentElement.scrollWidth") == width
    assert np.isfinite(expected(three[0]).record["doubt"])
