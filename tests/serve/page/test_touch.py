"""Fingers on a phone: two zoom the image, one moves it once it is zoomed, and else the page."""

import re

import pytest

from tests.browser import eventually
from tests.serve.page.hands import Fingers, picture, settled, until

PHONE = {"width": 390, "height": 700, "has_touch": True, "is_mobile": True}
SCROLLED = "() => window.scrollY"


@pytest.fixture
def phone(opened, files):
    tab = opened(**PHONE)
    tab.set_input_files("#files", files["rowan"])
    settled(tab)
    tab.evaluate("() => document.querySelector('.stage').scrollIntoView({ block: 'center' })")
    tab.wait_for_timeout(100)
    return tab


def at(tab, across, down):
    """A point of the glass by shares of the pane."""
    box = tab.locator("#pane-now").bounding_box()
    return box["x"] + across * box["width"], box["y"] + down * box["height"]


def zoomed(tab, percent):
    return eventually(tab, lambda: int(tab.inner_text("#zoom").split()[0]) == percent)


def below(tab, point):
    """The pixel of the image that lies below a point of the glass."""
    tab.mouse.move(0, 0)
    tab.mouse.move(*point)
    until(tab, "() => !document.querySelector('#readout').hidden")
    found = re.match(r"x (-?\d+)  y (-?\d+)", tab.inner_text("#readout"))
    return int(found[1]), int(found[2])


def pinch(tab, middle, near, far, direction=(0, 1)):
    """Two fingers go apart, or together, about a point."""

    def ends(distance):
        return [
            tuple(m + sign * distance * d for m, d in zip(middle, direction, strict=True))
            for sign in (-1, 1)
        ]

    fingers = Fingers(tab)
    for point in ends(near):
        fingers.down(*point)
    return fingers.move(*ends(far))


def test_two_fingers_zoom_in_and_out_about_their_middle(phone):
    middle, scrolled = at(phone, 0.4, 0.55), phone.evaluate(SCROLLED)
    pixel, first = below(phone, middle), picture(phone)
    for direction in ((1, 0), (0, 1), (0.6, 0.8)):
        pinch(phone, middle, 20, 60, direction).up()
        assert zoomed(phone, pytest.approx(300, abs=2))
        assert below(phone, middle) == pytest.approx(pixel, abs=1)
        assert (picture(phone) != first).mean() > 0.2
        pinch(phone, middle, 60, 40, direction).up()
        assert zoomed(phone, pytest.approx(200, abs=2))
        assert below(phone, middle) == pytest.approx(pixel, abs=1)
        pinch(phone, middle, 70, 20, direction).up()
        assert zoomed(phone, 100)
        assert (picture(phone) == first).all()  # it lies where it lay
    assert phone.evaluate(SCROLLED) == scrolled
    assert phone.evaluate("() => visualViewport.scale") == 1


def test_one_of_two_fingers_may_rest(phone):
    rest, start, end = at(phone, 0.5, 0.3), at(phone, 0.5, 0.45), at(phone, 0.5, 0.75)
    scrolled = phone.evaluate(SCROLLED)
    Fingers(phone).down(*rest).down(*start).move(rest, end).up()
    assert zoomed(phone, pytest.approx(300, abs=2))
    assert phone.evaluate(SCROLLED) == scrolled


def test_two_fingers_take_the_image_with_them(phone):
    middle, there = at(phone, 0.4, 0.4), at(phone, 0.6, 0.65)
    pixel = below(phone, middle)
    before = [(middle[0] - 20, middle[1]), (middle[0] + 20, middle[1])]
    after = [(there[0] - 60, there[1]), (there[0] + 60, there[1])]
    Fingers(phone).down(*before[0]).down(*before[1]).move(*after).up()
    assert zoomed(phone, pytest.approx(300, abs=2))
    assert below(phone, there) == pytest.approx(pixel, abs=1)


def test_one_finger_moves_a_zoomed_image_and_not_the_page(phone):
    pinch(phone, at(phone, 0.5, 0.5), 20, 60).up()
    scrolled, start, end = phone.evaluate(SCROLLED), at(phone, 0.6, 0.6), at(phone, 0.45, 0.4)
    pixel = below(phone, start)
    Fingers(phone).down(*start).move(end).up()
    assert below(phone, end) == pytest.approx(pixel, abs=1)
    assert zoomed(phone, pytest.approx(300, abs=2))
    assert phone.evaluate(SCROLLED) == scrolled


def test_the_finger_that_stays_after_zooming_moves_the_image(phone):
    (across, down), scrolled = at(phone, 0.5, 0.5), phone.evaluate(SCROLLED)
    pixel, end = below(phone, (across, down - 20)), at(phone, 0.4, 0.55)
    pinch(phone, (across, down), 20, 60).up(keep=1).move(end).up()
    assert below(phone, end) == pytest.approx(pixel, abs=1)  # what it took hold of
    assert zoomed(phone, pytest.approx(300, abs=2))
    assert phone.evaluate(SCROLLED) == scrolled


def test_one_finger_on_an_image_that_fits_scrolls_the_page_past_it(phone):
    scrolled, first = phone.evaluate(SCROLLED), picture(phone)
    start = at(phone, 0.5, 0.7)
    Fingers(phone).down(*start).move((start[0], start[1] - 120)).up()
    until(phone, f"() => window.scrollY > {scrolled + 80}")
    phone.wait_for_timeout(100)
    assert (picture(phone) == first).all()
    start = at(phone, 0.3, 0.5)
    Fingers(phone).down(*start).move((start[0] + 100, start[1])).up()
    assert (picture(phone) == first).all()  # nor does it leave its place sideways
    assert zoomed(phone, 100)
