"""Where things stand: nothing scrolls beside the page, and a phone shows what counts first."""

import pytest

from tests.browser import assert_accessible
from tests.serve.page.hands import settled, until


@pytest.mark.parametrize("width", [1280, 1000])
def test_a_wide_page_does_not_scroll(opened, files, width):
    tab = opened(width=width, height=700)
    tab.set_input_files("#files", files["rowan"])
    settled(tab)
    for summary in tab.locator("#panel section summary").all():
        summary.click()
    tab.locator("#other").scroll_into_view_if_needed()
    assert tab.evaluate("() => [scrollY, document.documentElement.scrollHeight]") == [0, 700]
    for menu in tab.locator("details.menu:visible").all():
        menu.locator("summary").click()
        box = menu.locator("> :not(summary)").bounding_box()
        assert (box["x"] >= 0, box["x"] + box["width"] <= width) == (True, True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_the_verdict_its_remedy_and_the_image_first(opened, files, scheme):
    tab = opened(width=390, height=844, has_touch=True, is_mobile=True, color_scheme=scheme)
    told = tab.evaluate("() => fetch('/api/notes').then((r) => r.json())")
    told["severity"]["members-disagree"] = "stop"
    told["remedy"]["members-disagree"] = "invert"
    tab.route("**/api/notes", lambda route: route.fulfill(json=told))
    tab.reload()
    tab.wait_for_selector("html[data-ready]", state="attached")
    tab.set_input_files("#files", files["rowan"])
    settled(tab)
    line = tab.locator("#verdict-line")
    assert line.inner_text().startswith("Organ: Stop")
    button = line.locator("button")
    box = button.bounding_box()
    assert (box["height"] >= 44, box["y"] + box["height"] < 844 / 2) == (True, True)
    stage = tab.locator("#pane-now").bounding_box()
    assert stage["y"] < 844 * 0.62  # most of the image is above the fold
    assert_accessible(tab)
    button.tap()
    until(tab, "() => document.querySelector('#verdict').textContent.includes('image inverted')")


def test_a_comparison_names_the_structure_and_both_methods_above_their_pictures(opened, files):
    tab = opened(width=1280)
    tab.set_input_files("#files", files["rowan"])
    settled(tab)
    tab.select_option("#other", "method:source")
    until(tab, "() => document.querySelector('#caption-other').textContent.startsWith('Source')")
    until(tab, "() => !document.querySelector('#changes').hidden")
    text = tab.inner_text("#changes")
    assert "Organ, %" in text
    assert "Foreground" not in text
    assert "\u22120.000" not in text
    now, zoom = (tab.locator(one).bounding_box() for one in ("#caption-now", ".zoom"))
    assert now["y"] + now["height"] <= zoom["y"]
    assert now["height"] < 40  # in one line
