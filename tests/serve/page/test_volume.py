"""A volume on the page: the image at once, slices as they come, three planes, true size."""

import re

import numpy as np
import pytest

from sitta.data.images import read
from tests.browser import assert_accessible, eventually
from tests.serve.page.hands import (
    CURRENT,
    MASK,
    SOURCE,
    coloured,
    expected,
    picture,
    settled,
    until,
)

MAKING = "() => document.querySelector('#pane-now').dataset.making"
SLICE = "() => document.querySelector('#slice-value').textContent"
TRUE = "() => document.querySelector('#zoom-true').textContent"


SMALL = """() => [...document.querySelectorAll('button, select, summary, input, a')]
  .filter((e) => e.offsetParent && !e.matches('.skip, .hidden *, [type=checkbox]'))
  .filter((e) => { const { height } = e.getBoundingClientRect(); return height && height < 44; })
  .map((e) => `${e.tagName} ${e.id} ${e.textContent.slice(0, 20)}`)"""


class Slow:
    """The answer of the service, event by event: each is passed on when it is let."""

    SCRIPT = """() => {
      const real = window.fetch;
      window.gate = { open: 0, wake: [] };
      window.let = (n) => {
        window.gate.open += n;
        for (const wake of window.gate.wake.splice(0)) wake();
      };
      window.fetch = async (path, options) => {
        const response = await real(path, options);
        const isEvents = response.headers.get('Content-Type')?.startsWith('application/x-ndjson');
        if (!isEvents) return response;
        let text = '';
        const split = new TransformStream({
          async transform(part, out) {
            const lines = (text + part).split('\\n');
            text = lines.pop();
            for (const line of lines) {
              while (window.gate.open < 1) await new Promise((f) => window.gate.wake.push(f));
              window.gate.open--;
              out.enqueue(`${line}\\n`);
            }
          },
        });
        const decoded = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(split);
        const { headers } = response;
        return new Response(decoded.pipeThrough(new TextEncoderStream()), { headers });
      };
    }"""


def test_slices_are_shown_as_they_come(opened, files):
    tab = opened()
    tab.evaluate(Slow.SCRIPT)
    tab.set_input_files("#files", files["volume"])
    tab.evaluate("() => window.let(1)")  # the image alone
    until(tab, MAKING, "4/image")
    assert tab.inner_text("#slice-value") == "5 of 8"
    assert "0 of 8 slices" in tab.inner_text("#pending")
    bare = picture(tab)
    assert not coloured(bare, MASK).any()
    assert bare.max() > 150  # it is no black stage
    assert tab.locator("#review").is_hidden()
    tab.evaluate("() => window.let(1)")
    until(tab, MAKING, "4/outlined")
    eventually(tab, lambda: coloured(picture(tab), MASK).sum() > 50)
    assert "1 of 8 slices" in tab.inner_text("#pending")
    assert tab.locator("#strip .slice").count() == 8
    assert tab.locator("#strip .slice.open").count() == 7
    tab.keyboard.press(".")  # a slice that is not done yet
    until(tab, MAKING, "5/image")
    tab.evaluate("() => window.let(2)")
    until(tab, MAKING, "5/outlined")
    assert tab.locator("#strip .slice.open").count() == 5
    assert_accessible(tab)
    tab.evaluate("() => window.let(99)")
    settled(tab)
    assert tab.inner_text("#slice-value") == "6 of 8"  # who went to a slice stays there
    assert tab.locator("#pending").is_hidden()
    assert tab.locator("#strip .slice.open").count() == 0


def test_what_ends_early_is_said_and_leaves_no_draft(opened, files):
    tab = opened()
    body = '{"event":"error","status":413,"error":{"message":"It is too much.","fix":"less"}}\n'
    events = {"status": 200, "content_type": "application/x-ndjson", "body": body}
    tab.route("**/api/predict", lambda route: route.fulfill(**events))
    tab.set_input_files("#files", files["volume"])
    until(tab, "() => document.querySelectorAll('.item.failed').length", 1)
    assert "It is too much." in tab.inner_text("#failure")
    tab.unroute("**/api/predict")
    cut = {**events, "body": '{"event":"slice","row":{}}\n{"eve'}
    tab.route("**/api/predict", lambda route: route.fulfill(**cut))
    tab.click("#failure button")
    eventually(tab, lambda: "cut short" in tab.inner_text("#failure"))


def test_three_planes_meet_where_a_hand_points(opened, files):
    tab = opened()
    tab.set_input_files("#files", files["volume"])
    settled(tab)
    assert tab.locator("#figure-rows").is_hidden()
    tab.keyboard.press("i")
    eventually(tab, lambda: tab.locator("#pane-rows").get_attribute("data-drawn"))
    for pane in ("#pane-rows", "#pane-columns"):
        seen = picture(tab, pane)
        assert coloured(seen, MASK).sum() > 20
        assert coloured(seen, SOURCE).sum() > 20
    volume = np.squeeze(read(files["volume"]).pixels)
    assert sorted(volume.shape) == [8, 64, 96]
    box = tab.locator("#pane-rows").bounding_box()
    before = tab.evaluate(SLICE)
    tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 + 30)
    eventually(tab, lambda: tab.evaluate(SLICE) != before)
    at = tab.locator("#pane-columns").get_attribute("data-drawn")
    tab.locator("#pane-now").click(position={"x": 200, "y": 200})
    eventually(tab, lambda: tab.locator("#pane-columns").get_attribute("data-drawn") != at)
    tab.locator("#pane-columns").focus()
    slice_ = tab.evaluate(SLICE)
    tab.keyboard.press("ArrowUp" if not slice_.startswith("8 ") else "ArrowDown")
    eventually(tab, lambda: tab.evaluate(SLICE) != slice_)
    tab.keyboard.press("c")  # a comparison takes their place
    eventually(tab, lambda: tab.locator("#figure-rows").is_hidden())


def test_true_size_is_one_pixel_for_one(opened, files):
    tab = opened()
    tab.set_input_files("#files", files["rowan"])
    settled(tab)
    percent = int(tab.evaluate(TRUE).split()[0])
    high, wide = read(files["rowan"]).pixels.shape[-2:]
    box = tab.locator("#pane-now").bounding_box()
    fits = min(box["width"] / wide, box["height"] / high) * 0.985
    assert percent == pytest.approx(100 * fits, abs=2)
    tab.keyboard.press("9")
    until(tab, TRUE, "100 %")
    until(tab, CURRENT)
    lit = (picture(tab).max(axis=-1) > 0) & ~_stage(picture(tab))
    columns = np.flatnonzero(lit.any(axis=0))
    assert columns[-1] - columns[0] + 1 == pytest.approx(wide, abs=6)
    tab.click("#zoom-fit")
    until(tab, TRUE, f"{percent} %")


def _stage(pixels):
    """What is left clear of the canvas comes out black."""
    return (pixels == 0).all(axis=-1)


def test_doubtful_slices_are_a_key_away(opened, files):
    tab = opened()
    tab.set_input_files("#files", files["volume"])
    settled(tab)
    rows = expected(files["volume"]).record["rows"]
    looks = [
        n + 1
        for n, row in enumerate(rows)
        if tab.locator("#strip .slice").nth(n).get_attribute("class").find("look") >= 0
    ]
    for _ in range(8):
        tab.keyboard.press(",")
    seen = [int(tab.evaluate(SLICE).split()[0])]
    for _ in range(8):
        tab.keyboard.press("n")
        seen.append(int(tab.evaluate(SLICE).split()[0]))
    assert sorted(set(seen[1:]) | ({1} & set(looks))) == (looks or [1])


def test_image_and_mask_open_in_other_programs(opened, files):
    tab = opened()
    tab.set_input_files("#files", files["volume"])
    settled(tab)
    tab.click("#panel details.menu summary")
    text = tab.inner_text("#elsewhere")
    assert "itksnap -g scene-0000-image.nii.gz -s scene-0000-mask.nii.gz" in text
    assert "slicer.util.loadSegmentation('scene-0000-mask.nii.gz')" in text
    link = tab.locator("#elsewhere a").get_attribute("href")
    assert re.match(r"slicer://viewer/\?image=http%3A.*image\.nii\.gz&segmentation=http", link)
    with tab.expect_download() as got:
        tab.click("[data-kind='image.nii.gz']")
    saved = got.value.path()
    assert got.value.suggested_filename == "scene-0000-image.nii.gz"
    import nibabel as nib

    one = nib.Nifti1Image.from_bytes(__import__("gzip").decompress(saved.read_bytes()))
    other = nib.load(files["volume"])
    np.testing.assert_allclose(np.asarray(one.dataobj), np.asarray(other.dataobj), rtol=1e-6)
    np.testing.assert_allclose(one.affine, other.affine)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_accessible_in_every_state_of_a_volume(opened, files, scheme, width):
    tab = opened(width=width, color_scheme=scheme)
    tab.set_input_files("#files", files["volume"])
    settled(tab)
    assert width > 400 or tab.evaluate(SMALL) == []
    tab.click("#show-planes")
    eventually(tab, lambda: tab.locator("#pane-rows").get_attribute("data-drawn"))
    assert_accessible(tab)
    tab.click("#show-planes")
    tab.click("#edit")
    until(tab, "() => document.querySelector('#editor').hidden", False)
    assert_accessible(tab)
    tab.click("#edit-cancel")
    tab.click("#panel details.menu summary")
    tab.evaluate("() => document.querySelector('#details').open = true")
    assert_accessible(tab)
    assert tab.evaluate("() => document.documentElement.scrollWidth") == width
