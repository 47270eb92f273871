"""The page in a real browser: what it shows, how it is steered, and that it asks for nothing."""

import io
import re

import numpy as np
import pytest
from PIL import Image

from sitta.prediction.notes import NOTES
from sitta.report import page
from tests.browser import PATIENCE, assert_accessible, thread_seconds
from tests.report.sample import BY_DOUBT, a_picture, a_record, a_row, a_run, several
from tests.report.test_page import HOSTILE

# Painted is what stands one frame after the first card has its picture.
STOPWATCH = """
(function wait() {
  const there = document.querySelector(".card.full .main image");
  const stop = () => setTimeout(() => { window.painted = performance.now(); });
  requestAnimationFrame(there ? stop : wait);
})()
"""


@pytest.fixture
def opened(browse, tmp_path):
    """Opens a report."""

    def open_(records, *, run=None, **options):
        file = tmp_path / "report.html"
        page.write(file, a_run(**(run or {})), records)
        return browse(file, **options)

    return open_


def names(tab):
    return tab.locator(".card h3").all_text_contents()


def test_cards(opened):
    tab = opened(several())
    assert names(tab) == BY_DOUBT
    card = tab.locator(".card").nth(1)
    card.scroll_into_view_if_needed()
    text = card.inner_text()
    for words in (
        "doubt 0.50",
        "NIfTI · 96",
        "slice 4 of 8",
        "Look at this one",
        "In 1 of 8 slices",
    ):
        assert words in text
    assert card.locator(".slices circle").count() == 1
    assert card.locator(".members li").count() == 6
    assert "λ 1 source" in card.locator(".members li").first.inner_text()
    assert "weight 0.300" in card.locator(".members li").first.inner_text()
    assert card.locator(".members .fill").first.evaluate("e => e.style.width") == "30%"
    assert card.locator(".scale").get_attribute("aria-label") == "Colour scale from 0 to 1 bit"
    quiet = tab.locator(".card").nth(3)
    quiet.scroll_into_view_if_needed()
    assert quiet.locator(".badge, .notes").count() == 0
    assert "not measured" in quiet.inner_text()
    assert "10.0 % → 12.0 %" in quiet.inner_text()


def test_pictures_are_decoded(opened):
    tab = opened(several())
    sizes = (
        tab.locator(".card")
        .first.locator("svg image")
        .evaluate_all(
            """all => Promise.all(all.map(async (one) => {
            const image = new Image();
            image.src = one.getAttribute("href");
            await image.decode();
            return [image.naturalWidth, image.naturalHeight];
        }))"""
        )
    )
    assert sizes == [[96, 96]] * 9  # the image, the heat over it, the heat map, six members


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ("name", ["a/nine 9.png", "a/ten 10.png", "b/two.png", "c/scan.nii.gz"]),
        ("agreement", ["b/two.png", "a/ten 10.png", "c/scan.nii.gz", "a/nine 9.png"]),
        ("change", ["a/ten 10.png", "c/scan.nii.gz", "b/two.png", "a/nine 9.png"]),
        ("doubt", BY_DOUBT),
    ],
)
def test_sort(opened, order, wanted):
    tab = opened(several())
    tab.select_option("#sort", order)
    assert names(tab) == wanted


def test_filter(opened):
    tab = opened(several())
    tab.fill("#find", "A/")
    assert names(tab) == ["a/ten 10.png", "a/nine 9.png"]
    assert tab.inner_text("#count") == "2 of 4 shown"
    tab.check("#look")
    assert names(tab) == ["a/ten 10.png"]
    tab.select_option("#note", "members-disagree")
    assert names(tab) == []
    tab.click("#clear")
    assert names(tab) == BY_DOUBT
    tab.select_option("#note", "members-disagree")
    assert names(tab) == ["c/scan.nii.gz"]


def test_keys(opened):
    tab = opened(several())
    at = "document.activeElement.querySelector('h3')?.textContent"
    seen = []
    for key in ("j", "ArrowRight", "j", "j", "j", "k", "ArrowLeft"):
        tab.keyboard.press(key)
        seen.append(tab.evaluate(at))
    assert seen == [BY_DOUBT[i] for i in (0, 1, 2, 3, 3, 2, 1)]
    assert tab.inner_text("#at") == "2 / 4"
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert tab.evaluate(outline) == "solid"
    assert tab.evaluate("document.activeElement.getBoundingClientRect().top") < 200
    tab.keyboard.press("?")
    assert tab.locator("#help").is_visible()
    tab.keyboard.press("Escape")
    assert tab.locator("#help").is_hidden()
    tab.keyboard.press("l")
    assert len(names(tab)) == 2
    tab.keyboard.press("/")
    tab.keyboard.type("jk")
    assert tab.input_value("#find") == "jk"


def test_single_keys_can_be_turned_off(opened):
    tab = opened(several())
    tab.click("#ask")
    tab.uncheck("#keys")
    tab.click("#close")
    tab.keyboard.press("l")
    assert names(tab) == BY_DOUBT


@pytest.mark.parametrize(
    ("kind", "key", "layer"),
    [("source", "s", "g.source"), ("mask", "a", "g.mask"), ("heat", "h", "image.heat")],
)
def test_toggles_change_what_is_drawn(opened, kind, key, layer):
    tab = opened(several())
    picture, other = tab.locator(".main svg").first, tab.locator(".main svg").nth(1)
    button = tab.locator(f".view [data-view={kind}]")
    at_first = kind != "heat"
    tab.keyboard.press("j")

    def drawn():
        assert (
            button.get_attribute("aria-pressed") == str(other.locator(layer).is_visible()).lower()
        )
        pixels = Image.open(io.BytesIO(picture.screenshot())).convert("RGB")
        return picture.locator(layer).is_visible(), np.asarray(pixels, dtype=float)

    shown, before = drawn()
    assert shown is at_first
    tab.keyboard.press(key)
    shown, after = drawn()
    assert shown is not at_first
    tab.keyboard.press(key)
    shown, again = drawn()
    assert shown is at_first
    assert np.abs(after - before).mean() > 5 * np.abs(again - before).mean()  # edges may shimmer
    tab.locator(f".card [data-view={kind}]").first.click()
    assert drawn()[0] is not at_first


def test_opacity(opened):
    tab = opened(several())
    tab.locator("#opacity").fill("40")
    heat = tab.locator(".main image.heat").first
    assert heat.is_visible()
    assert heat.evaluate("e => getComputedStyle(e).opacity") == "0.4"
    tab.locator("h1").click()
    tab.keyboard.press("+")
    assert heat.evaluate("e => getComputedStyle(e).opacity") == "0.5"


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_light_and_dark(opened, scheme, dark):
    tab = opened(several(), color_scheme=scheme)
    for place in ("body", ".card", "select"):
        colours = tab.locator(place).first.evaluate(
            "e => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color]"
        )
        ground, ink = (np.mean([int(n) for n in re.findall(r"\d+", c)[:3]]) for c in colours)
        assert bool(ground < 60) is dark
        assert bool(ink > 180) is dark


@pytest.mark.parametrize("width", [360, 700, 1000])
def test_no_sideways_scroll(opened, width):
    long = a_record("a" * 300 + ".png", 2.0, rows=[a_row(notes=list(NOTES))])
    failed = [{"name": "b" * 300, "error": "c" * 300}]
    said = {"title": "d" * 200, "model_hash": "e" * 200, "failures": failed}
    tab = opened([*several(), long], run=said, width=width)
    tab.locator("details").last.locator("summary").click()
    tab.locator(".view [data-view=heat]").click()
    for _ in range(5):
        tab.click("#next")
        assert tab.evaluate("document.documentElement.scrollWidth") == width
    wide = "[...document.querySelectorAll('.card *')].filter(e => !e.closest('svg') && "
    wide += "e.getBoundingClientRect().right > innerWidth).length"
    assert tab.evaluate(wide) == 0


def test_hostile_names(opened):
    records = [a_record(name, 1 - i / 10) for i, name in enumerate(HOSTILE)]
    tab = opened(
        records, run={"title": HOSTILE[0], "failures": [{"name": HOSTILE[1], "error": "?"}]}
    )
    tab.keyboard.press("j")
    assert tab.locator(".card h3").evaluate_all("all => all.map(e => e.textContent)") == HOSTILE
    assert tab.evaluate("window.hacked === undefined")
    assert tab.locator("img").count() == 0
    links = tab.locator(".about a").evaluate_all("all => all.map(e => e.href)")
    assert all(link.startswith("file:///") for link in links)


def test_other_shapes_of_a_run(opened):
    bare = a_record("bare.png", rows=[a_row(area_source=None, change=None)])
    bare |= {"source_member": None, "lambdas": [0.3], "picture": a_picture(source=False)}
    tab = opened([bare])
    assert tab.locator(".members li").count() == 1
    assert tab.locator(".card [data-view=source]").count() == 0
    assert "no source" in tab.locator(".card").inner_text()
    assert opened([]).inner_text("#count") == "0 of 0 shown"


def test_without_scripts(opened):
    tab = opened(several(), java_script_enabled=False)
    text = tab.inner_text("body")
    assert "need JavaScript" in text
    assert "The file is not a readable PNG." in text


def until(tab, expression):
    """Wait for it from outside: the page's own policy forbids Playwright to evaluate text in it."""
    for _ in range(PATIENCE // 50):
        if tab.evaluate(expression):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(f"never: {expression}")


def test_500_images_open_fast(opened):
    drawn = [a_picture(seed, (256, 256)) for seed in range(5)]
    records = [a_record(f"{i:03}.png", 1 - i / 500, drawn=drawn[i % 5]) for i in range(500)]
    times = {}
    for count in (25, 500):
        tab = opened(records[:count], script=STOPWATCH)
        until(tab, "window.painted > 0")
        times[count] = thread_seconds(tab)
    assert tab.locator(".card").count() == 500
    assert tab.locator(".card.full").count() < 20  # the others wait until they are near
    assert times[500] < 10 * times[25]  # seconds of work, for 20 times the images
    tab.evaluate("scrollTo(0, document.body.scrollHeight / 2)")
    until(tab, "document.querySelectorAll('.card.full').length > 3")
    tab.keyboard.press("j")
    assert int(tab.inner_text("#at").split()[0]) > 100  # goes on from what is in the window


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible(opened, scheme):
    tab = opened(several(), color_scheme=scheme, reduced_motion="reduce")
    for act in (lambda: None, lambda: tab.keyboard.press("?")):
        act()
        assert_accessible(tab)


def test_a_member_with_a_name_comes_last(opened):
    record = a_record() | {"member_names": ["1.00", "0.80", "0.60", "split", "0.20", "0.00"]}
    listed = opened([record]).locator(".members li b:first-of-type").all_inner_texts()
    words = [text.split(" source")[0].strip() for text in listed if not text[0].isdecimal()]
    assert words == ["λ 1", "λ 0.8", "λ 0.6", "λ 0.2", "λ 0", "split"]


@pytest.mark.parametrize(("masks", "said"), [([], False), ([""] * 6, True)])
def test_members_without_masks_are_not_called_empty(opened, masks, said):
    tab = opened([a_record(drawn={**a_picture(), "members": masks})])
    text = tab.locator(".members").inner_text()
    assert "weight 0.300" in text
    assert ("empty" in text) == said
