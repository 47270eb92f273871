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
