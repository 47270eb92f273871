"""Decisions in the report, in a real browser: by key, kept, coloured, exported."""

import csv
import dataclasses
import io
import re

import pytest

from sitta.prediction.decisions import COLUMNS, Decision, from_csv, to_csv
from tests.browser import assert_accessible
from tests.report.sample import BY_DOUBT, a_picture, a_record, a_row, several
from tests.report.test_browser import names, opened  # noqa: F401  (a fixture)
from tests.report.test_page import HOSTILE


def exported(tab):
    with tab.expect_download() as got:
        tab.click("#export")
    return got.value.path().read_bytes().decode()


def test_review_by_keyboard(opened):  # noqa: F811
    tab = opened([record | {"mask_sha256": "ab" * 32} for record in several()])
    at = "document.activeElement.querySelector('h3')?.textContent"
    assert tab.inner_text("#reviewed") == "0 of 4 reviewed"
    tab.keyboard.press("j")
    tab.keyboard.press("1")
    assert tab.evaluate(at) == BY_DOUBT[1]
    tab.keyboard.press("r")
    tab.keyboard.type("=apex, cut")
    tab.keyboard.press("Enter")
    tab.keyboard.press("3")
    assert tab.evaluate(at) == BY_DOUBT[2]
    tab.keyboard.press("2")
    tab.keyboard.press("u")
    assert tab.evaluate(at) == BY_DOUBT[2]
    assert tab.inner_text("#reviewed") == "2 of 4 reviewed"
    tiles = tab.locator(".tile").evaluate_all("all => all.map(e => e.className.split(' ')[1])")
    assert tiles[:2] == ["accept", "reject"]
    rows = {one.file: one for one in from_csv(exported(tab))}
    assert set(rows) == set(BY_DOUBT[:2])
    assert rows[BY_DOUBT[1]].remark == "=apex, cut"
    assert rows[BY_DOUBT[0]].mask_sha256 == "ab" * 32
    tab.reload()
    assert tab.inner_text("#reviewed") == "2 of 4 reviewed"
    assert tab.locator("[data-decision=reject] h3").inner_text() == BY_DOUBT[1]


def test_the_export_is_what_python_writes(opened):  # noqa: F811
    texts = [
        *HOSTILE[:6],
        "a;=1",
        "b; '-1",
        "=1",
        "'=1",
        " @x",
        "\u00a0-1",
        "tab\there",
        "bell\x07",
        "a,b",
        'q"q',
    ]
    tab = opened([a_record(name, 1 - i / 100) for i, name in enumerate(texts)])
    tab.keyboard.press("j")
    for _ in texts:
        tab.keyboard.press("1")
    said = {row["file"]: row["time"] for row in csv.DictReader(io.StringIO(exported(tab)))}
    times = list(said.values())
    expected = [
        Decision(file=n, decision="accept", time=t) for n, t in zip(texts, times, strict=True)
    ]
    assert exported(tab) == to_csv(expected)
    assert tuple(exported(tab).splitlines()[0].split(",")) == COLUMNS
    assert dataclasses.asdict(expected[0])["mask"] == "adapted"


def test_space_hides_the_outlines_while_it_is_held(opened):  # noqa: F811
    tab = opened(several())
    tab.keyboard.press("j")
    outline = tab.locator(".card .main g.mask").first
    assert outline.is_visible()
    tab.keyboard.down(" ")
    assert outline.is_hidden()
    tab.keyboard.up(" ")
    assert outline.is_visible()


def test_slices_are_stepped_and_counted_from_one(opened):  # noqa: F811
    rows = [a_row(at=n) for n in range(3)]
    pictures = [a_picture(seed) for seed in range(3)]
    drawn = pictures[1] | {"slices": pictures}
    tab = opened([a_record("v.nii.gz", rows=rows, shown=1, drawn=drawn)])
    tab.keyboard.press("j")
    assert "slice 2 of 3" in tab.inner_text(".card header")
    href = "e => e.querySelector('image').getAttribute('href')"
    for key, number in ((".", 3), (".", 3), (",", 2), (",", 1), (",", 1)):
        tab.keyboard.press(key)
        assert f"slice {number} of 3" in tab.inner_text(".step")
        assert tab.locator(".main .drawing").evaluate(href) == pictures[number - 1]["image"]


def test_tiles_lead_to_the_large_picture(opened):  # noqa: F811
    dice = {"expected_dice": 0.93, "expected_dice_low": 0.88, "expected_dice_high": 0.97}
    worse = dice | {"expected_dice": 0.6}
    tab = opened(
        [
            a_record("good.png", 0.1, rows=[a_row(**dice)]),
            a_record("poor.png", 0.0, rows=[a_row(**worse)]),
        ]
    )
    assert names(tab) == ["poor.png", "good.png"]  # by expected Dice, not by doubt
    assert "expected Dice 0.93 0.88 to 0.97" in tab.locator(".card").nth(1).inner_text()
    levels = tab.locator(".tile").evaluate_all("all => all.map(e => e.className)")
    assert ["low" in levels[0], "high" in levels[1]] == [True, True]
    tab.keyboard.press("v")
    tab.locator(".tile").nth(1).click()
    assert tab.evaluate("document.activeElement.querySelector('h3').textContent") == "good.png"
    width = tab.locator(".card .main .drawing").nth(1).bounding_box()["width"]
    assert width == pytest.approx(768, abs=2)


@pytest.mark.parametrize(("images", "pages"), [(4, 2), (9, 4)])
def test_four_images_are_printed_to_a_page(opened, images, pages):  # noqa: F811
    codes = ["looks-inverted", "low-expected-dice", "members-differ", "far-from-source"]
    dice = {"expected_dice": 0.7, "expected_dice_low": 0.55, "expected_dice_high": 0.81}
    drawn, row = a_picture(shape=(256, 200)), a_row(notes=codes, **dice)
    named = [f"site-{n}/CHNCXR_{n:04}_0.png" for n in range(images)]
    tab = opened([a_record(name, 0.1, rows=[row], drawn=drawn) for name in named])
    content = tab.pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", content)) == pages  # the first says what was run
    tab.emulate_media(media="print")
    tab.set_viewport_size({"width": 703, "height": 1032})  # of A4 within its margins
    boxes = [one.bounding_box() for one in tab.locator(".card").all()]
    assert max(box["x"] + box["width"] for box in boxes) <= 703
    assert max(box["height"] for box in boxes) < 1032 / 2
    inside = "e => e.scrollHeight <= e.clientHeight + 1"
    for card in tab.locator(".card").all():
        assert card.evaluate(inside)  # nothing is cut off
        assert card.locator("h3").bounding_box()["height"] < 40  # the name, in a line or two
        assert card.locator(".main .drawing").bounding_box()["height"] > 110


def test_doubtful_slices_are_a_key_away(opened):  # noqa: F811
    rows = [a_row(at=n, notes=["members-disagree"][: n in (1, 4)]) for n in range(6)]
    rows[3]["notes"] = ["two-members-agree"]  # which asks for nothing
    pictures = [a_picture(seed) for seed in range(6)]
    drawn = pictures[0] | {"slices": pictures}
    tab = opened([a_record("v.nii.gz", rows=rows, shown=0, drawn=drawn)])
    tab.keyboard.press("j")
    for key, number in (("n", 2), ("n", 5), ("n", 5), ("p", 2), ("p", 2)):
        tab.keyboard.press(key)
        assert f"slice {number} of 6" in tab.inner_text(".step")


def test_a_single_member_is_not_called_certain(opened):  # noqa: F811
    alone = a_record("one.png", 0.05, rows=[a_row(weights=[1.0], entropies=[0.1])])
    text = opened([alone | {"lambdas": [1.0]}]).locator(".card").inner_text()
    assert "not judged: one member" in text
    assert "one member only" in text
    assert "doubt 0.05" not in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_accessible_while_deciding(opened, scheme, width):  # noqa: F811
    tab = opened(several(), color_scheme=scheme, reduced_motion="reduce", width=width)
    tab.keyboard.press("j")
    for key in "123":
        tab.keyboard.press(key)
    assert_accessible(tab)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    small = "[...document.querySelectorAll('button, select, input:not([type=checkbox])')].filter("
    small += "e => e.checkVisibility() && e.getBoundingClientRect().height < 44)"
    assert width > 400 or tab.evaluate(f"{small}.map(e => e.outerHTML)") == []


def test_a_mask_of_no_use_says_stop_and_hides_nothing_on_a_phone(opened):  # noqa: F811
    dice = {"expected_dice": 0.55, "expected_dice_low": 0.45, "expected_dice_high": 0.63}
    row = a_row(notes=["looks-inverted", "members-differ"], **dice)
    tab = opened([a_record("a.png", rows=[row])], width=390)
    badge, doubt = tab.locator(".badge"), tab.locator(".card .doubt")
    assert badge.inner_text() == "Stop: do not use it as it is"
    assert "Stop" in tab.locator(".tile").inner_text()
    assert "0.45 to 0.63" in doubt.inner_text()
    above, below = doubt.bounding_box(), badge.bounding_box()
    assert above["y"] + above["height"] <= below["y"] or below["y"] + below["height"] <= above["y"]
    assert "Expected Dice" not in tab.locator(".card .scores").inner_text()  # it is the heading
    assert "expected Dice, lowest first" in tab.locator("#sort").inner_text()


@pytest.mark.parametrize(("members", "dice"), [(6, None), (1, None), (1, 0.8)])
def test_slices_are_told_by_expected_dice_and_never_by_a_member_alone(opened, members, dice):  # noqa: F811
    known = {} if dice is None else {"expected_dice": dice}
    some = {"weights": [1 / members] * members, "entropies": [0.1] * members}
    rows = [a_row(at=n, agreement=1.0, **known, **some) for n in range(4)]
    record = a_record("v.nii.gz", rows=rows) | {"lambdas": [1.0, 0.8, 0.6, 0.4, 0.2, 0.0][:members]}
    text = opened([record]).locator(".card").inner_text()
    assert ("Expected Dice by slice" in text) == (dice is not None)
    assert ("Agreement by slice" in text) == (members > 1)
