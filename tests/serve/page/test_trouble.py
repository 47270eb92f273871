"""What goes wrong on the way to the service and back, in a real browser."""

import os
import shutil

from tests.browser import PATIENCE
from tests.serve.page.hands import DONE, drop, settled, until

STATUS = "() => document.querySelector('#status').textContent"
FAILED = "() => document.querySelectorAll('.item.failed').length"


class Held:
    """Requests that are kept back until they are let go."""

    def __init__(self, tab, wanted=b""):
        self.routes, self._tab, self._wanted = [], tab, wanted
        tab.route("**/api/predict", self._hold)

    def _hold(self, route):
        if self._wanted in route.request.post_data_buffer:
            self.routes.append(route)
        else:
            route.continue_()

    def wait(self, number):
        for _ in range(PATIENCE // 25):
            if len(self.routes) == number:
                return self.routes[-1]
            self._tab.wait_for_timeout(25)
        raise AssertionError(f"{len(self.routes)} requests, not {number}")


def answered_once(tab, **answer):
    """The next request gets this answer, and those after it their own."""
    given = []

    def answer_(route):
        if given:
            route.continue_()
            return
        given.append(route)
        route.fulfill(**answer)

    tab.route("**/api/predict", answer_)


def test_an_answer_cut_short_can_be_asked_for_again(opened, files):
    tab = opened()
    answered_once(tab, status=200, content_type="application/json", body='{"id": "ab')
    tab.set_input_files("#files", files["rowan"])
    until(tab, FAILED, 1)
    assert "The answer of the service was cut short." in tab.inner_text("#failure")
    assert "check that sitta serve is still running" in tab.inner_text("#failure")
    tab.click("#failure button")
    settled(tab)
    assert tab.locator("#failure").is_hidden()


def test_a_fault_of_the_page_is_said_and_can_be_tried_again(opened, files):
    tab = opened()
    answered_once(tab, status=200, content_type="application/json", body="null")
    tab.set_input_files("#files", files["rowan"])
    until(tab, FAILED, 1)
    assert "by a fault of its own" in tab.inner_text("#failure")
    tab.click("#failure button")
    settled(tab)
    assert len(opened.errors) == 1  # it stays visible to who looks for it
    opened.errors.clear()


def test_a_file_that_changed_on_disk_is_named(opened, files, tmp_path):
    film = tmp_path / "film.png"
    shutil.copy(files["rowan"], film)
    os.utime(film, (10**9, 10**9))  # the browser compares whole seconds
    tab = opened()
    tab.set_input_files("#files", film)
    settled(tab)
    film.write_bytes(film.read_bytes() + b"more")
    tab.select_option("#method", "source")
    until(tab, FAILED, 1)
    said = tab.inner_text("#failure")
    assert "film.png has changed on disk since it was added, or is gone." in said
    assert "add it again" in said
    opened.errors.clear()  # the browser's own line about the file


def test_a_comparison_ends_with_its_image(opened, files):
    tab = opened()
    tab.set_input_files("#files", files["rowan"])
    settled(tab)
    failed = []
    tab.on("requestfailed", lambda request: failed.append(request.method))
    held = Held(tab)
    tab.select_option("#other", "method:source")
    held.wait(1)
    tab.click("#remove")
    until(tab, STATUS, "scene-0000.png is removed.")
    for _ in range(PATIENCE // 25):
        if "POST" in failed:
            break
        tab.wait_for_timeout(25)
    assert failed.count("POST") == 1
    tab.wait_for_timeout(300)
    assert tab.inner_text("#status") == "scene-0000.png is removed."


def test_the_last_comparison_that_was_asked_for_is_shown(opened, files):
    tab = opened()
    tab.set_input_files("#files", files["rowan"])
    settled(tab)
    gone, made = [], []
    tab.on("request", lambda one: gone.append(one.url) if one.method == "DELETE" else None)
    held = Held(tab)
    tab.select_option("#other", "method:source")
    first = held.wait(1)
    tab.select_option("#other", "method:tent")
    second = held.wait(2)
    tab.on(
        "response",
        lambda one: made.append(one) if one.request.method == "POST" else None,
    )
    second.continue_()
    until(tab, "() => document.querySelector('#caption-other').textContent.startsWith('Tent ·')")
    first.continue_()
    for _ in range(PATIENCE // 25):
        if gone:
            break
        tab.wait_for_timeout(25)
    late = next(one.json() for one in made if one.json()["method"] == "source")
    assert [url.split("/")[-1] for url in gone] == [late["id"]]
    assert tab.inner_text("#caption-other").startswith("Tent")
    assert "Tent is done" in tab.inner_text("#status")


def test_nothing_to_compare_with_calls_off_what_runs(opened, files):
    tab = opened()
    tab.set_input_files("#files", files["rowan"])
    settled(tab)
    held = Held(tab)
    tab.select_option("#other", "method:source")
    held.wait(1)
    until(tab, "() => document.querySelector('#caption-other').textContent", "Source: running…")
    assert tab.input_value("#other") == "method:source"
    tab.select_option("#other", "")
    until(tab, "() => document.querySelector('#figure-other').hidden")
    held.routes[0].continue_()
    tab.wait_for_timeout(1500)
    assert tab.input_value("#other") == ""
    assert tab.locator("#figure-other").is_hidden()


def test_a_comparison_that_fails_leaves_one_picture(opened, files):
    tab = opened()
    tab.set_input_files("#files", files["rowan"])
    settled(tab)
    answered_once(tab, status=200, content_type="application/json", body="{")
    tab.click("#show-compare")
    until(tab, STATUS, "Source: The answer of the service was cut short.")
    until(tab, "() => document.querySelector('#show-compare').ariaPressed", "false")
    assert tab.locator("#figure-other").is_hidden()


def test_earlier_results_are_forgotten_when_one_is_made_again(opened, files):
    tab = opened()
    drop(tab, files["volume"])
    settled(tab)
    first = tab.evaluate(DONE).split("/")[0]
    tab.select_option("#method", "source")
    until(tab, f"() => !document.querySelector('#pane-now').dataset.drawn.startsWith('{first}')")
    second = tab.evaluate(DONE).split("/")[0]
    gone = []
    tab.evaluate(f"() => fetch('/api/results/{second}', {{ method: 'DELETE' }})")
    tab.on("request", lambda one: gone.append(one.url) if one.method == "DELETE" else None)
    tab.locator("#slice").fill("7")
    tab.locator("#slice").fill("0")
    until(tab, f"() => !document.querySelector('#pane-now').dataset.drawn.startsWith('{second}')")
    until(tab, STATUS + ".includes('is done in')")
    assert {url.split("/")[-1] for url in gone} == {first, second}
    opened.errors.clear()  # the browser's own lines about answers of 404
