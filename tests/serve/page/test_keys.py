"""Keys and focus, in a real browser."""

from tests.serve.page.hands import settled, until

SCROLLED = "() => scrollY > 50"


def test_page_keys_scroll_where_there_are_no_slices(opened, files):
    tab = opened(width=360, height=400)
    tab.keyboard.press("PageDown")
    until(tab, SCROLLED)
    tab.keyboard.press("PageUp")
    until(tab, "() => scrollY", 0)
    tab.set_input_files("#files", files["rowan"])
    settled(tab)
    tab.keyboard.press("PageDown")
    until(tab, SCROLLED)


def test_page_keys_step_through_slices_on_the_image(opened, files):
    tab = opened(width=800, height=600)
    tab.set_input_files("#files", files["volume"])
    settled(tab)
    shown = "() => document.querySelector('#slice-value').textContent"
    tab.locator("#slice").fill("3")
    tab.evaluate("() => document.activeElement.blur()")
    tab.keyboard.press("PageDown")
    until(tab, shown, "5 of 8")
    tab.locator("#pane-now").focus()
    tab.evaluate("() => scrollTo(0, 0)")
    tab.keyboard.press("PageUp")
    until(tab, shown, "4 of 8")
    assert tab.evaluate("() => scrollY") == 0
    tab.locator("#remove").focus()
    tab.evaluate("() => scrollTo(0, 0)")
    tab.keyboard.press("PageDown")
    until(tab, SCROLLED)
    tab.evaluate("() => document.querySelector('#keys-on').click()")
    tab.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")
    tab.keyboard.press("PageDown")
    until(tab, SCROLLED)
    assert tab.inner_text("#slice-value") == "4 of 8"


ACTIVE = "() => document.activeElement.textContent"


def test_the_focus_stays_on_the_page_when_the_last_image_goes(opened, files):
    tab = opened()
    for way in ("Enter", "Delete"):
        tab.set_input_files("#files", files["rowan"])
        settled(tab)
        tab.locator("#remove" if way == "Enter" else ".item").focus()
        tab.keyboard.press(way)
        until(tab, ACTIVE, "Choose files")
        assert tab.locator("#start-title").is_visible()


def test_the_focus_goes_to_the_image_that_is_tried_again(opened, files):
    tab = opened()
    tab.set_input_files("#files", files["broken"])
    until(tab, "() => document.querySelectorAll('.item.failed').length", 1)
    tab.locator("#failure button").focus()
    tab.keyboard.press("Enter")
    until(tab, "() => document.activeElement.matches('.item')")
    until(tab, "() => document.querySelectorAll('.item.failed').length", 1)
    tab.wait_for_timeout(100)
    assert tab.evaluate("() => document.activeElement.matches('.item')")
    opened.errors.clear()  # the browser's own lines about the answer of 4xx
