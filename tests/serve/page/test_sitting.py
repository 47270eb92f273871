"""A sitting in a real browser: many images, keys, themes, a phone, and what goes wrong."""

import re

import numpy as np
import pytest

from tests.serve.page.hands import (
    DONE,
    changed,
    drop,
    picture,
    settled,
    until,
)

METHOD = rb'name="method"\r\n\r\n(\w+)'  # in a form that is sent
HOSTILE = "<img src=x onerror=hacked=1>.png"


def test_a_broken_file_says_what_to_do(opened, files):
    tab = opened()
    drop(tab, files["broken"])
    until(tab, "() => document.querySelectorAll('.item.failed').length", 1)
    assert "it cannot be read as PNG" in tab.inner_text("#failure")
    assert "What to do:" in tab.inner_text("#failure")
    assert "broken.png failed" in tab.inner_text("#status")
    assert "1 failed" in tab.inner_text("#count")
    tab.click("#remove")
    assert tab.locator("#start-title").is_visible()
    assert len(opened.errors) == 1  # the browser's own line about the answer of 4xx
    opened.errors.clear()


def test_a_folder_is_sorted_by_doubt(opened, files):
    tab = opened()
    drop(tab, files["folder"], files["rowan"])
    until(tab, "() => document.querySelector('#status').textContent.includes('1 file passed over')")
    settled(tab, 3)
    doubts = [
        float(re.search(r"doubt ([\d.]+)", t)[1]) for t in tab.locator(".item").all_inner_texts()
    ]
    assert doubts == sorted(doubts, reverse=True)
    assert "3 images" in tab.inner_text("#count")
    thumbs = tab.locator(".thumb").evaluate_all("all => all.map(e => e.toDataURL())")
    assert len(set(thumbs)) == 3


def test_keyboard_alone(opened, files):
    tab = opened()
    tab.keyboard.press("Tab")
    assert tab.evaluate("() => document.activeElement.textContent") == "Skip to the image"
    for _ in range(30):
        tab.keyboard.press("Tab")
        if tab.evaluate("() => document.activeElement.closest('#samples') !== null"):
            break
    tab.keyboard.press("Enter")
    settled(tab)
    for _ in range(30):
        tab.keyboard.press("Tab")
        if tab.evaluate("() => document.activeElement.id") == "pane-now":
            break
    outline = "() => getComputedStyle(document.activeElement).outlineStyle"
    assert tab.evaluate(outline) == "solid"
    for key, button in (("s", "source"), ("a", "mask"), ("m", "members")):
        pressed = tab.get_attribute(f"#show-{button}", "aria-pressed")
        tab.keyboard.press(key)
        until(tab, f"() => document.querySelector('#show-{button}').ariaPressed !== '{pressed}'")
    tab.keyboard.press("h")
    until(tab, "() => document.querySelector('#heat').value", "uncertainty")
    tab.keyboard.press("]")
    until(tab, "() => document.querySelector('#lambda').value", "1")
    tab.keyboard.press("+")
    until(tab, "() => document.querySelector('#zoom').textContent", "150 %")
    before = picture(tab)
    tab.keyboard.press("+")  # larger than its pane, so that it can move
    before = changed(tab, before)
    tab.locator("#pane-now").focus()
    tab.keyboard.press("ArrowRight")
    moved = changed(tab, before)
    tab.keyboard.press("Shift+ArrowUp")
    changed(tab, moved)
    tab.keyboard.press("?")
    assert tab.locator("#help").is_visible()
    assert "Side by side" in tab.inner_text("#help")
    tab.keyboard.press("Escape")
    tab.locator(".item").focus()
    tab.keyboard.press("Delete")
    until(tab, "() => document.querySelectorAll('.item').length", 0)


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_light_and_dark_and_accessible(opened, files, scheme, dark):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe here").Axe()
    tab = opened(color_scheme=scheme)

    def check():
        found = axe.run(tab)
        assert found.violations_count == 0, found.generate_report()

    def ground():
        text = tab.evaluate("() => getComputedStyle(document.body).backgroundColor")
        return np.mean([int(n) for n in re.findall(r"\d+", text)[:3]])

    assert bool(ground() < 60) is dark
    check()
    tab.set_input_files("#files", files["rowan"])
    settled(tab)
    tab.set_input_files("#files", files["broken"])
    until(tab, "() => document.querySelectorAll('.item.failed').length", 1)
    tab.click(".item.done")
    until(tab, DONE)
    tab.select_option("#heat", "disagreement")
    tab.locator("#lambda").fill("2")
    tab.click("#show-compare")
    until(tab, "() => !document.querySelector('#caption-other').textContent.includes('running')")
    tab.click(".adjust summary")
    tab.click("#panel details:has(#members-table) summary")
    check()
    tab.click(".item.failed")
    check()
    tab.click("#help-open")
    check()
    tab.click("#help-close")
    tab.click("#theme")
    assert bool(ground() < 60) is not dark
    tab.reload()
    assert bool(ground() < 60) is not dark  # it is kept
    opened.errors.clear()  # the broken file


def test_phone(opened, files):
    tab = opened(width=360, height=740, has_touch=True, is_mobile=True)
    wide = "() => document.documentElement.scrollWidth"
    assert tab.evaluate(wide) == 360
    tab.set_input_files("#files", [files["volume"], files["rowan"]])
    settled(tab, 2)
    tab.select_option("#other", "method:source")
    until(tab, "() => !document.querySelector('#caption-other').textContent.includes('running')")
    assert tab.evaluate(wide) == 360
    across = "() => ['#caption-other', '.zoom'].map((n) => document.querySelector(n)).map((e) => "
    across += "e.getBoundingClientRect().toJSON())"
    words = "InTEnt · strategy ent-baln · step 0.25 · phantom-alder"
    tab.locator("#caption-other").evaluate("(e, words) => { e.textContent = words; }", words)
    caption, zoom = tab.evaluate(across)
    assert caption["right"] <= zoom["left"] or caption["top"] >= zoom["bottom"]
    tab.click(".adjust summary")
    beyond = "() => [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() && "
    beyond += "!e.closest('svg, #list, .hidden') && e.getBoundingClientRect().right > 361)"
    assert tab.evaluate(f"{beyond}.map((e) => e.outerHTML)") == []
    small = "() => [...document.querySelectorAll('button, select, summary, .item')].filter((e) => "
    small += (
        "e.offsetParent && e.getBoundingClientRect().height < 24).map((e) => e.id || e.textContent)"
    )
    assert tab.evaluate(small) == []
    tab.locator(".item").nth(1).tap()
    assert tab.locator("#pane-now").is_visible()


def test_a_full_queue_is_asked_again(opened, files):
    tab = opened()
    refused = []

    def busy(route):
        if refused:
            route.continue_()
            return
        refused.append(route.request.url)
        error = {"code": "busy", "message": "The queue is full.", "allowed": None, "fix": None}
        route.fulfill(status=429, headers={"Retry-After": "1"}, json={"error": error})

    tab.route("**/api/predict", busy)
    tab.set_input_files("#files", files["rowan"])
    until(tab, "() => document.querySelector('.item')?.textContent.includes('busy')")
    settled(tab)
    assert len(refused) == 1
    opened.errors.clear()  # the browser's own line about the answer of 429


def test_an_image_dropped_right_after_a_change_is_sent_once(opened, files):
    tab = opened()
    sent = []

    def noted(route):
        sent.append(route.request.post_data_buffer)
        route.continue_()

    tab.set_input_files("#files", files["rowan"])
    settled(tab)
    tab.route("**/api/predict", noted)
    tab.select_option("#method", "source")
    drop(tab, files["volume"])
    settled(tab, 2)
    tab.wait_for_timeout(600)  # the change itself waits for a while before it is used
    told = [
        tuple(re.search(part, body)[1].decode() for part in (rb'filename="([^"]+)"', METHOD))
        for body in sent
    ]
    assert sorted(told) == [("scene-0000.nii.gz", "source"), ("scene-0000.png", "source")]
    assert "Source" in tab.inner_text("#facts")


def test_a_setting_changed_just_before_another_image_is_chosen_is_kept(opened, files):
    tab = opened()
    tab.set_input_files("#files", files["rowan"])
    settled(tab)
    tab.set_input_files("#files", files["volume"])
    settled(tab, 2)
    tab.click(".item:has-text('.png')")
    until(tab, "() => document.querySelector('#name').textContent.endsWith('.png')")
    tab.evaluate(
        """async () => {
          const method = document.querySelector('#method');
          method.value = 'source';
          method.dispatchEvent(new Event('change'));
          await new Promise((done) => setTimeout(done));
          const items = [...document.querySelectorAll('.item')];
          items.find((one) => one.textContent.includes('.nii.gz')).click();
        }"""
    )
    status = "() => document.querySelector('#status').textContent"
    until(tab, f"{status}.startsWith('scene-0000.png is done')")
    assert tab.input_value("#method") == "adapt"
    assert "· Adapt ·" in tab.inner_text("#facts")
    tab.click(".item:has-text('.png')")
    until(tab, "() => document.querySelector('#facts').textContent.includes('· Source ·')")
    assert tab.input_value("#method") == "source"


def test_a_folder_with_too_many_files_says_so(opened, tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(2001):
        (folder / f"{number}.txt").touch()
    tab = opened()
    drop(tab, folder)
    until(tab, "() => document.querySelector('#status').textContent !== ''")
    assert tab.inner_text("#status") == (
        "There is no image in it. 2000 files passed over: no image. "
        "Only the first 2000 files were looked at: drop the others later, or use sitta predict."
    )


def test_a_result_that_is_gone_is_made_again(opened, files):
    tab = opened()
    drop(tab, files["volume"])
    settled(tab)
    old = tab.evaluate(DONE).split("/")[0]
    tab.evaluate(f"() => fetch('/api/results/{old}', {{ method: 'DELETE' }})")
    tab.locator("#slice").fill("7")
    tab.locator("#slice").fill("0")
    until(tab, f"() => !document.querySelector('#pane-now').dataset.drawn.startsWith('{old}')")
    assert tab.inner_text("#slice-value") == "1 of 8"
    opened.errors.clear()  # the browser's own lines about answers of 404


def test_names_are_text_and_too_large_files_are_not_sent(opened, files):
    tab = opened()
    tab.set_input_files(
        "#files", {"name": HOSTILE, "mimeType": "", "buffer": files["rowan"].read_bytes()}
    )
    settled(tab)
    assert tab.inner_text("#name") == HOSTILE
    assert tab.evaluate("() => window.hacked === undefined")
    tab.route("**/api/limits", lambda route: route.fulfill(json={"upload_bytes": 10, "files": 5}))
    tab.reload()
    tab.wait_for_selector("html[data-ready]", state="attached")
    tab.set_input_files("#files", files["rowan"])
    until(tab, "() => document.querySelectorAll('.item.failed').length", 1)
    assert "It is too large" in tab.inner_text("#failure")


def test_two_files_of_one_name_are_two_images(opened, files):
    tab = opened()
    tab.set_input_files("#files", [files["rowan"], files["folder"] / files["rowan"].name])
    settled(tab, 2)
    until(tab, "() => document.querySelectorAll('.item:not(.failed)').length", 2)
    assert tab.inner_text("#count").startswith("2 images")


def test_a_graph_has_its_method_built_in(opened, files):
    tab = opened()
    sent = []
    models = tab.evaluate("() => fetch('/api/models').then((r) => r.json())")
    models["models"][0] |= {"graph": True, "note": "A graph."}
    tab.route("**/api/models", lambda route: route.fulfill(json=models))
    tab.on(
        "request", lambda one: sent.append(one.post_data_buffer) if one.method == "POST" else None
    )
    tab.reload()
    tab.wait_for_selector("html[data-ready]", state="attached")
    tab.set_input_files("#files", files["rowan"])
    settled(tab)
    assert tab.locator("#method").is_disabled()
    assert tab.locator("#settings .set").count() == 0
    assert "built in" in tab.inner_text("#method-about")
    assert b'name="method"' not in sent[0]
    assert tab.locator("#show-compare").is_disabled()
    assert "no other to compare with" in tab.get_attribute("#show-compare", "title")
    assert "no other to compare with" in tab.inner_text("#compare-hint")
    tab.keyboard.press("c")
    tab.wait_for_timeout(200)
    assert (len(sent), tab.get_attribute("#show-compare", "aria-pressed")) == (1, "false")
