"""The page's pure functions, run in a real browser against NumPy and the eye's own formulas."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sitta
from sitta.prediction.scores import every, score_text, shown

PAGE = Path(sitta.__file__).parent / "serve" / "page"
SHARED = Path(sitta.__file__).parent / "report" / "shared"  # served beside them
HERE = "http://page.test"


@pytest.fixture(scope="module")
def call(chromium):
    """Calls a function of a module of the page; files come from the disk, nothing listens."""
    context = chromium.new_context()
    tab = context.new_page()
    tab.route("**/*", _answer)
    tab.goto(f"{HERE}/blank")

    def run(module, code, *given):
        wrapped = f"async (given) => {{ const m = await import('{HERE}/js/{module}.js'); "
        return tab.evaluate(wrapped + f"return ({code})(m, ...given); }}", list(given))

    yield run
    context.close()


def _answer(route):
    name = route.request.url.removeprefix(f"{HERE}/")
    if name == "blank":
        route.fulfill(body="<!doctype html><title>blank</title>", content_type="text/html")
    else:
        kind = "text/javascript" if name.endswith(".js") else "text/plain"
        own, shared = PAGE / name, SHARED / Path(name).name
        file = own if own.exists() else shared
        route.fulfill(body=file.read_text(encoding="utf-8"), content_type=kind)


def loops(call, classes):
    height, width = classes.shape
    code = "(m, v, w, h) => [...m.outlines(v, w, h)].map(([k, l]) => [k, l])"
    return dict(call("outline", code, classes.ravel().tolist(), width, height))


def filled(paths, shape):
    """Pixels inside closed paths along pixel edges, by how often a ray to the left crosses them."""
    inside = np.zeros(shape, dtype=int)
    for path in paths:
        corners = np.array(path).reshape(-1, 2)
        for (x, y), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            assert (x == x1) != (y == y1), "a line runs along an edge"
            if x == x1:
                inside[min(y, y1) : max(y, y1), x:] += 1 if y1 < y else -1
    return inside


def edges(classes, label):
    """How many sides of pixels lie between a class and everything else."""
    mine = np.pad(classes == label, 1)
    return int((mine[1:] != mine[:-1]).sum() + (mine[:, 1:] != mine[:, :-1]).sum())


def length(paths):
    total = 0
    for path in paths:
        corners = np.array(path).reshape(-1, 2)
        total += int(np.abs(corners - np.roll(corners, -1, axis=0)).sum())
    return total


@pytest.mark.parametrize("seed", range(4))
def test_outlines_enclose_their_class_exactly(call, seed):
    chance = np.random.default_rng(seed)
    classes = chance.integers(0, 3, (9 + seed, 12)) * (chance.random((9 + seed, 12)) < 0.7)
    found = loops(call, classes)
    for label in (1, 2):
        np.testing.assert_array_equal(filled(found[label], classes.shape), classes == label)
        assert length(found[label]) == edges(classes, label)  # each edge once


def test_outline_of_a_ring_and_of_touching_corners(call):
    ring = np.ones((3, 3), dtype=int)
    ring[1, 1] = 0
    assert sorted(map(len, loops(call, ring)[1])) == [8, 8]  # around it, and around the hole
    corners = loops(call, np.eye(2, dtype=int))[1]
    assert len(corners) == 2  # pixels that touch at a corner stay apart
    assert loops(call, np.zeros((2, 2), dtype=int)) == {}


def test_difference_and_overlap(call):
    one, other = [0, 1, 1, 2, 0, 2], [0, 1, 0, 1, 0, 2]
    assert call("outline", "(m, a, b) => [...m.difference(a, b)]", one, other) == [0, 0, 1, 1, 0, 0]
    assert call("outline", "(m, a, b) => m.overlap(a, b)", one, other) == pytest.approx(4 / 7)
    assert call("outline", "(m) => m.overlap([0, 0], [0, 0])") == 1


def lightness(colours):
    """L* of CIE Lab, from sRGB of 0 to 255."""
    share = colours / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    y = linear @ [0.2126, 0.7152, 0.0722]
    return 116 * np.where(y > 0.008856, np.cbrt(y), 7.787 * y + 16 / 116) - 16


@pytest.mark.parametrize("kind", ["uncertainty", "disagreement"])
def test_ramps_rise_evenly(call, kind):
    table = np.array(call("colours", "(m, k) => [...m.ramp(k)]", kind), dtype=float).reshape(256, 3)
    light = lightness(table)
    assert light[0] < 10
    assert light[-1] > 90
    steps = np.diff(light[::15])
    assert (steps > 0).all()
    assert steps.max() < 2.5 * steps[1:].min()  # CIE and OK differ a little, most near black


def test_heat_is_clear_at_nothing_and_full_at_its_end(call):
    code = "(m, v, most) => [...m.heat(Uint8Array.from(v), 'uncertainty', most)]"
    pixels = np.array(call("colours", code, [0, 128, 255], 0.5)).reshape(3, 4)
    assert pixels[0, 3] == 0
    assert (pixels[1] == pixels[2]).all()  # half a bit is the end of this scale, and so is more
    assert pixels[2, 3] == 255


def test_a_class_has_the_colour_of_its_profile(call):
    given = ["#d55e00", None]
    code = "(m, given) => [1, 2].map((c) => m.outlineColour('mask', c, 2, given))"
    usual = call("colours", code, [])
    assert call("colours", code, given) == ["#d55e00", usual[1]]
    code = "(m, given) => ['mask', 'source'].map((k) => m.outlineColour(k, 1, 1, given))"
    assert call("colours", code, given) == ["#d55e00", call("colours", code, [])[1]]
    code = "(m, colours) => m.classColours({ classes: ['disc', 'cup'], colours })"
    assert call("colours", code, given) == ["#d55e00", usual[1]]


def test_outlines_differ_by_colour_and_by_dash(call):
    code = "(m) => ['source', 'mask', 'member'].map((k) => [String(m.DASHES[k]), "
    code += "...[1, 2].map((c) => m.outlineColour(k, c, 2)), m.outlineColour(k, 1, 1)])"
    found = call("colours", code)
    assert len({dash for dash, *_ in found}) == 3
    assert len({colour for _, *colours in found for colour in colours[:2]}) == 6
    assert len({colours[-1] for _, *colours in found}) == 3


def test_window_maps_its_ends_to_black_and_white(call):
    values = [-10.0, 0.0, 20.0, 60.0, 100.0, 1e9]
    code = "(m, v, c, r) => [...m.render(Float32Array.from(v), c, r)]"
    grey = np.array(call("window", code, values, 1, {"low": 0, "high": 100})).reshape(-1, 4)
    assert grey[:, 0].tolist() == [0, 0, 51, 153, 255, 255]
    assert (grey[:, :3] == grey[:, :1]).all()
    colour = np.array(call("window", code, [0, 60, 100], 3, {"low": 0, "high": 100}))
    assert colour.tolist() == [0, 153, 255, 255]


def test_window_by_drag_and_presets(call):
    whole = {"low": 0, "high": 100}
    drag = "(m, r, x, y, w) => m.dragged(r, x, y, w)"
    wider = call("window", drag, {"low": 40, "high": 60}, 0.5, 0, whole)
    assert wider["low"] + wider["high"] == pytest.approx(100)
    assert wider["high"] - wider["low"] == pytest.approx(20 * np.e)
    moved = call("window", drag, {"low": 40, "high": 60}, 0, 0.1, whole)
    assert [moved["low"], moved["high"]] == pytest.approx([50, 70])
    scan = {"kind": "dicom", "intensity": {"low": -1024, "high": 3000, "window": [-160, 240]}}
    found = call("window", "(m, r) => m.presets(r)", scan)
    assert found["Auto"] == found["Soft tissue"] == {"low": -160, "high": 240}
    film = {"kind": "png", "intensity": {"low": 0, "high": 255, "window": [7, 7]}}
    assert call("window", "(m, r) => m.presets(r)", film) == {
        "Auto": {"low": 0, "high": 255},
        "Full": {"low": 0, "high": 255},
    }


def test_zoom_keeps_the_point_below_the_pointer(call):
    picture, box = {"width": 100, "height": 50, "ratio": 2}, {"width": 640, "height": 480}
    view, point = {"zoom": 2, "x": 0.4, "y": 0.55}, {"x": 300, "y": 200}
    code = "(m, v, p, i, b) => [m.place(v, i, b), m.place(m.zoomed(v, 1.5, p, i, b), i, b)]"
    before, after = call("transform", code, view, point, picture, box)
    assert after["sx"] == pytest.approx(1.5 * before["sx"])
    for scale, shift, at in (("sx", "tx", 300), ("sy", "ty", 200)):
        there = (at - before[shift]) / before[scale]
        assert there * after[scale] + after[shift] == pytest.approx(at)
    assert before["sy"] == 2 * before["sx"]
    code = "(m, v, i, b) => m.zoomed(v, 0.01, null, i, b)"
    assert call("transform", code, view, picture, box) == {"zoom": 1, "x": 0.5, "y": 0.5}


def test_pan_moves_by_pixels_of_the_screen(call):
    picture, box = {"width": 100, "height": 100, "ratio": 1}, {"width": 500, "height": 500}
    code = "(m, v, i, b) => [m.place(v, i, b), m.place(m.panned(v, 30, -20, i, b), i, b)]"
    before, after = call("transform", code, {"zoom": 3, "x": 0.5, "y": 0.5}, picture, box)
    assert after["tx"] - before["tx"] == pytest.approx(30)
    assert after["ty"] - before["ty"] == pytest.approx(-20)


def dicom(uid, *, explicit=True):
    head = bytes(128) + b"DICM"
    text = uid.encode() + (b"\0" if len(uid) % 2 else b"")
    size = b"UI" + len(text).to_bytes(2, "little") if explicit else len(text).to_bytes(4, "little")
    return head + b"\x10\x00\x10\x00PN\x04\x00A^B " + b"\x20\x00\x0e\x00" + size + text + bytes(40)


@pytest.mark.parametrize("explicit", [True, False])
def test_slices_of_a_series_are_one_image(call, explicit):
    blobs = [list(dicom(uid, explicit=explicit)) for uid in ("1.2.3", "1.2.3", "1.9")]
    code = """(m, blobs) => m.gather([
      ...blobs.map((b) => new File([Uint8Array.from(b)], "IM")).map((file, i) => (
        { file, path: `scan/IM${i}` })),
      { file: new File(["x"], "notes.txt"), path: "scan/notes.txt" },
      { file: new File(["x"], ".hidden.png"), path: "scan/.hidden.png" },
      { file: new File(["x"], "b10.png"), path: "scan/b10.png" },
      { file: new File(["x"], "b9.png"), path: "scan/b9.png" },
      { file: new File(["x"], "odd.xyz"), path: "odd.xyz", asked: true },
    ]).then(({ skipped, wanted }) => (
      { skipped, wanted: wanted.map(({ name, files }) => [name, files.length]) }))"""
    found = call("drop", code, blobs)
    assert found["skipped"] == 2
    assert sorted(map(tuple, found["wanted"])) == [
        ("odd.xyz", 1),
        ("scan (2 files)", 2),
        ("scan/IM2", 1),
        ("scan/b10.png", 1),
        ("scan/b9.png", 1),
    ]
    names = [name for name, _ in found["wanted"]]
    assert names.index("scan/b9.png") < names.index("scan/b10.png")


def test_what_cannot_be_read_of_a_drop_is_counted(call):
    code = """async (m) => {
      const file = (name, fine = true) => ({ isFile: true, fullPath: `/in/${name}`,
        file: (ok, bad) => (fine ? ok(new File(["x"], name)) : bad(new DOMException("gone"))) });
      const folder = (...all) => ({ isFile: false, createReader: () => ({
        readEntries: (ok) => ok(all.splice(0, 100)) }) });
      const closed = { createReader: () => ({ readEntries: (_, bad) => bad(new Error("no")) }) };
      const many = Array.from({ length: m.MOST }, (_, i) => file(`${i}.png`));
      const drop = (...all) => m.dropped({ items: all.map((e) => (
        { webkitGetAsEntry: () => e })) });
      const told = ({ found, unread, cut }) => [found.length, unread, cut];
      return [
        told(await drop(folder(file("a.png"), file("b.png", false), folder(file("c"))), closed)),
        told(await drop(folder(...many))),
        told(await drop(folder(folder(...many), file("z.png")), file("y.png"))),
      ];
    }"""
    assert call("drop", code) == [[2, 2, False], [2000, 0, False], [2000, 0, True]]


def test_a_file_that_goes_while_it_is_looked_at_is_counted(call):
    code = """(m) => {
      const gone = new File(["x"], "b.dcm");
      gone.slice = () => ({ arrayBuffer: () => Promise.reject(new Error("gone")) });
      const found = [new File(["x"], "a.png"), gone].map((file) => ({ file, path: file.name }));
      return m.gather(found).then(({ wanted, skipped, lost }) => [wanted.length, skipped, lost]);
    }"""
    assert call("drop", code) == [1, 0, 1]


def test_the_member_nearest_in_lambda_is_chosen(call):
    code = "(m, lambdas, lam, member) => m.nearest(lambdas, { lam, member })"
    fine = [1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0]
    assert call("state", code, fine, 0.3, 99) == 7
    assert call("state", code, [1, 0.8, 0.6, 0.4, 0.2, 0], 0, 10) == 5
    assert call("state", code, [1, 0.8, 0.6, 0.4, 0.2, 0], 0.45, 5) == 3
    assert call("state", code, [0.5, 0.5, 0], 0.5, 1) == 1  # one of two that are alike


@pytest.mark.parametrize("asked", ["getRaw('a', 'mask', 0)", "getFile('x')", "getJson('x')"])
def test_what_is_cut_short_is_said_in_a_sentence(call, asked):
    code = """async (m) => {
      const broken = () => new ReadableStream({ start: (c) => c.error(new TypeError("network")) });
      const before = window.fetch;
      window.fetch = async () => new Response(broken());
      try { return await m.%s; } catch (error) { return error.failure?.message ?? String(error); }
      finally { window.fetch = before; }
    }"""
    assert call("api", code % asked) == "The answer of the service was cut short."


def test_scores_read_as_in_the_report(call):
    """Every declared score, known and not, in the words of the report."""
    code = "(m, ...given) => m.scoreWords(...given)"
    for value in (0.0, 0.12345, 0.98765, None):
        row = dict.fromkeys((score.name for score in every()), value)
        for score in shown():
            assert call("words", code, score.describe(), row) == score_text(score, row), score.name


def test_a_mask_is_sized_in_the_units_of_the_patient(call):
    row = {"area": 0.25, "slice": 0}
    usual = {"classes": ["lungs"], "kind": "nifti", "slices": 1, "rows": [row]}
    code = "(m, ...given) => m.sizeWords(...given)"
    film = {**usual, "shape": [40, 20], "spacing": [0.5, 2]}
    assert call("words", code, film, row) == "Lungs: 25.0 % of the image, 200 mm²."
    bare = {**film, "spacing": None}
    assert call("words", code, bare, row) == "Lungs: 25.0 % of the image."
    assert call("words", code, {**film, "kind": "png"}, row) == "Lungs: 25.0 % of the image."
    stack = {**usual, "shape": [3, 40, 20], "spacing": [5, 0.5, 2], "slices": 3}
    stack["rows"] = [{"area": 0.25}, {"area": 0.5}, {"area": 0.0}]
    said = "Lungs: 25.0 % of the image, 200 mm²; the whole volume, 3.0 ml."
    assert call("words", code, stack, row) == said
    solid = {**stack, "rows": [row], "classes": ["a", "b"]}
    assert call("words", code, solid, row) == "A and b: 25.0 % of the volume, 3.0 ml."


VERDICT = """(m, result, row, about, person) => {
  const rerun = (patch) => { rerun.patch = patch; };
  const { kind, parts } = m.verdict(result, row, about, { decision: person, rerun });
  const box = document.createElement("div");
  box.append(...parts.filter(Boolean).filter((one) => one instanceof Node));
  box.querySelector("button")?.click();
  return [kind, box.innerText || box.textContent, rerun.patch ?? null];
}"""


def told(call, row, person="", **changed):
    about = {
        "notes": {"inverted": "The image looks inverted.", "odd": "It is odd."},
        "severity": {"inverted": "stop", "odd": "check"},
        "advice": {"inverted": "Invert it.", "odd": "Look."},
        "remedy": {"inverted": "invert"},
    }
    usual = {"area": 0.1, "doubt": 0.4, "notes": [], "look": False, "slice": None}
    result = {"classes": ["lungs"], "kind": "png", "slices": 1, "shape": [8, 8], "spacing": None}
    row = {**usual, **row}
    return call("verdict", VERDICT, {**result, "rows": [row], **changed}, row, about, person)


def test_the_verdict_comes_first_and_from_the_notes(call):
    kind, text, _ = told(call, {})
    assert kind == "fine"
    assert "No warning sign; not checked by a person" in text
    assert "Not calibrated" in text
    assert "doubt 0.40" in text
    dice = {"expected_dice": 0.91, "expected_dice_low": 0.84, "expected_dice_high": 0.96}
    kind, text, _ = told(call, {**dice, "notes": ["odd"], "look": True}, "accept")
    assert kind == "check"
    assert "Expected Dice 0.91 0.84 to 0.96" in text
    assert "Accepted by a person" in text
    assert "Lungs: against a drawing by hand, expect a Dice of 0.91" in text
    assert "undefined" not in text
    assert "between 0.84 and 0.96" in text
    assert "agree" not in text
    unknown = dict.fromkeys(dice)
    assert "Not calibrated" in told(call, unknown)[1]


def test_a_remedy_is_one_click_and_can_be_undone(call):
    kind, text, patch = told(call, {"notes": ["inverted"], "look": True})
    assert (kind, patch) == ("stop", {"invert": True})
    assert "Looks inverted: invert and rerun" in text
    _, text, patch = told(call, {}, invert=True, rotate=90)
    assert "inverted and turned right by 90°" in text
    assert patch == {"invert": False, "rotate": 0}


def test_the_list_is_sorted_by_expected_dice_where_all_have_one(call):
    code = """(m, dice) => { const store = new m.Store();
      store.entries = dice.map((d, key) => ({ key, status: "done", result: { doubt: key,
        rows: [{ expected_dice: 1 }, { expected_dice: d }] } }));
      return store.sorted().map((one) => one.key); }"""
    assert call("state", code, [0.9, 0.3, 0.6]) == [1, 2, 0]
    none = code.replace("{ expected_dice: 1 }, ", "")
    assert call("state", none, [0.9, None, 0.6]) == [2, 1, 0]


def drawn(call, code, classes, *given):
    """A map after something was done to it."""
    height, width = classes.shape
    wrapped = f"""(m, v, width, height, ...given) => {{
      const map = {{ values: Uint8Array.from(v), width, height }};
      ({code})(m, map, ...given);
      return [...map.values];
    }}"""
    found = call("brush", wrapped, classes.ravel().tolist(), width, height, *given)
    return np.array(found).reshape(classes.shape)


@pytest.mark.parametrize("seed", range(3))
def test_parts_and_holes_are_those_of_scipy(call, seed):
    ndimage = pytest.importorskip("scipy.ndimage")
    chance = np.random.default_rng(seed)
    classes = (ndimage.gaussian_filter(chance.random((24, 31)), 1.2) > 0.5).astype(int)
    classes[2:5, 3:6] = 2
    one = classes == 1
    parts, count = ndimage.label(one)
    sizes = np.bincount(parts.ravel(), minlength=count + 1)[1:]
    largest = drawn(call, "(m, map) => m.keepLargest(map, 1)", classes)
    assert (largest == 1).sum() == sizes.max()
    assert ((largest == 1) & ~one).sum() == 0
    np.testing.assert_array_equal(largest == 2, classes == 2)
    holes = drawn(call, "(m, map) => m.fillHoles(map, 1)", classes)
    expected = classes.copy()
    expected[ndimage.binary_fill_holes(one) & (classes == 0)] = 1
    np.testing.assert_array_equal(holes, expected)


def test_a_stroke_is_as_wide_as_its_brush(call):
    empty = np.zeros((40, 60), int)
    code = "(m, map, a, b, r, ratio) => m.stroke(map, a, b, r, ratio, 1)"
    ends = {"x": 10.5, "y": 20.5}, {"x": 49.5, "y": 20.5}
    line = drawn(call, code, empty, *ends, 4, 1)
    assert set(line[:, 15:45].sum(axis=0)) == {9}
    y, x = np.indices(empty.shape) + 0.5
    disc = drawn(call, code, empty, ends[0], ends[0], 6, 2)  # pixels are twice as high as wide
    np.testing.assert_array_equal(disc == 1, np.hypot(x - 10.5, 2 * (y - 20.5)) <= 6)
    dot = drawn(call, code, empty, {"x": 5, "y": 5}, {"x": 5, "y": 5}, 0.5, 1)
    assert dot.sum() >= 1


def test_steps_are_taken_back_exactly(call):
    chance = np.random.default_rng(0)
    before, after = (chance.integers(0, 3, 60).tolist() for _ in range(2))
    code = """(m, before, after) => {
      const [map, steps] = [{ values: Uint8Array.from(before) }, new m.Steps()];
      const seen = [];
      const go = (way) => { steps.go(map, way); seen.push([...map.values]); };
      steps.add(map);
      map.values.set(after);
      for (const way of ["undo", "undo", "redo", "redo"]) go(way);
      steps.add(map);
      go("redo");
      return seen;
    }"""
    assert call("steps", code, before, after) == [before, before, after, after, after]


@pytest.mark.parametrize("scale", [0.1, 0.34, 1, 7.5])
def test_a_pane_is_given_what_it_can_show_of_a_map(call, scale):
    height, width = 300, 200
    values = np.arange(height * width) % 251
    at = {"sx": scale, "sy": 1.5 * scale, "tx": -11.5, "ty": 3}
    code = """(m, width, height, at, box) => {
      const values = Uint8Array.from({ length: width * height }, (_, i) => i % 251);
      const seen = m.inView({ values, width, height }, at, box);
      return { ...seen, map: { ...seen.map, values: [...seen.map.values] } };
    }"""
    found = call("brush", code, width, height, at, {"width": 90, "height": 70})
    seen, there = found["map"], found["at"]
    assert seen["width"] <= 2 * 90
    assert seen["height"] <= 2 * 70
    every = [round(there[name] / at[name]) for name in ("sx", "sy")]
    x, y = (round((there[t] - at[t]) / at[s]) for t, s in (("tx", "sx"), ("ty", "sy")))
    rows, columns = (
        (y + every[1] * np.arange(seen["height"])),
        x + every[0] * np.arange(seen["width"]),
    )
    expected = values.reshape(height, width)[np.ix_(rows, columns)]
    np.testing.assert_array_equal(np.array(seen["values"]).reshape(expected.shape), expected)
    ends = there["tx"] + seen["width"] * there["sx"], there["ty"] + seen["height"] * there["sy"]
    most = at["tx"] + width * at["sx"], at["ty"] + height * at["sy"]
    assert ends[0] >= min(90, most[0]) - 1e-9
    assert ends[1] >= min(70, most[1]) - 1e-9


def test_fill_stops_at_the_border(call):
    ring = np.ones((5, 5), int)
    ring[1:4, 1:4] = 0
    assert (drawn(call, "(m, map) => m.flood(map, 12, 3)", ring)[1:4, 1:4] == 3).all()
    assert (drawn(call, "(m, map) => m.flood(map, 12, 3)", ring)[0] == 1).all()


def test_a_large_film_comes_in_steps(call):
    code = "(m, sides, box, zoom, density) => m.stepOf(sides, box, zoom, density)"
    box = {"width": 700, "height": 620}
    assert call("transform", code, [4892, 4020], box, 1, 1) == 4
    assert call("transform", code, [4892, 4020], box, 8, 1) == 1
    assert call("transform", code, [4892, 4020], box, 1, 2) == 2
    assert call("transform", code, [128, 128], box, 1, 1) == 1
    lengths = call("over", "(m, all) => all.map(m.rounded)", [0.7, 1, 3.3, 19, 49, 51])
    assert lengths == [0.5, 1, 2, 10, 20, 50]


def test_one_member_never_looks_certain(call):
    code = "(m, ...given) => m.isAlone(...given)"
    assert call("words", code, {"compares": True}, {"lambdas": [0.5]})
    assert not call("words", code, {"compares": True}, {"lambdas": [0.5, 1]})
    assert not call("words", code, {"compares": False}, {"lambdas": [0.5]})


def test_a_single_member_without_a_calibration_is_not_judged(call):
    alone = {"lambdas": [1.0]}
    _, text, _ = told(call, {"doubt": 0.05}, **alone)
    assert "Not judged: look at it yourself" in text
    assert "No warning sign" not in text
    assert "doubt" not in text
    _, text, _ = told(call, {"doubt": 0.05, "expected_dice": 0.9}, **alone)
    assert "No warning sign" in text  # the calibration knows
    _, text, _ = told(call, {"doubt": 0.05}, lambdas=[1.0, 0.0])
    assert "doubt 0.05" in text


def test_sentences_name_the_structure(call):
    sentence = "No member finds any foreground: the mask is empty."
    words = call("words", "(m, ...given) => m.named(...given)", sentence, {"classes": ["lungs"]})
    assert words == "No member finds any lungs: the mask is empty."
    code = "(m, title, classes) => m.titleOf({ title }, { classes })"
    assert call("words", code, "Foreground", ["rim", "core"]) == "Rim and core"
    assert call("words", code, "Foreground", []) == "Foreground"


STRIP = """(m, rows, n) => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  m.strip(svg, { rows, slices: n }, 1, 400, () => undefined);
  return [...svg.querySelectorAll("rect")].map((bar) => [
    bar.getAttribute("class"), Number(bar.getAttribute("height")), bar.textContent]);
}"""


def test_the_strip_shows_the_expected_dice_of_each_slice(call):
    rows = [
        {"slice": 0, "expected_dice": 0.95, "doubt": 0.05, "look": False},
        {"slice": 2, "expected_dice": 0.6, "doubt": 1.4, "look": True},
    ]
    high, none, low = call("chart", STRIP, rows, 3)
    assert high[0] == "slice high"
    assert none[0] == "slice open on"
    assert low[0] == "slice low look"
    assert high[1] > low[1] > none[1]
    assert high[1] / low[1] == pytest.approx(0.95 / 0.6, rel=0.01)
    assert low[2] == "Slice 3: expected dice 0.60, look at it"


def words_of(command):
    """What a shell makes of a command."""
    line = ["/bin/sh", "-c", f"printf '%s\\n' {command}"]
    told = subprocess.run(line, capture_output=True, check=True)
    return told.stdout.decode().splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="commands are for a POSIX shell")
@pytest.mark.parametrize("stem", ["scan", 'it\'s $HOME `x` "y" \\\\n'])
def test_commands_for_other_programs_survive_a_shell(call, stem):
    listed = call("elsewhere", "(m, name) => m.commands(name)", f"{stem}.png")
    found = {one["title"]: words_of(one["command"]) for one in listed}
    image, mask = f"{stem}-image.nii.gz", f"{stem}-mask.nii.gz"
    assert found["ITK-SNAP"] == ["itksnap", "-g", image, "-s", mask]
    program, option, code = found["3D Slicer"]
    assert (program, option) == ("Slicer", "--python-code")
    named = [call.args[0].value for call in (one.value for one in ast.parse(code).body)]
    assert named == [image, mask]
    assert code.startswith("slicer.util.loadVolume(")


SLICES = """async (m) => {
  const size = 4 * 1024 * 1024;
  window.fetch = async () => new Response(new Uint8Array(size), {
    headers: { "X-Width": "2048", "X-Height": "2048", "X-Depth": "1", "X-Values": "uint8" } });
  const slices = new m.Slices();
  const all = (n) => Array.from({ length: n }, (_, k) => k);
  const here = (id, n) => all(n).filter((k) => slices.here({ id }, "image", k)).length;
  for (let k = 0; k < 40; k++) {
    slices.renew(); // another image each time
    await slices.get({ id: "a" }, "image", k);
  }
  const flat = here("a", 40);
  slices.renew();
  for (let k = 0; k < 30; k++) await slices.get({ id: "b" }, "image", k); // all in one view
  return [flat, here("b", 30)];
}"""


def test_slices_are_kept_within_bounds_but_never_those_that_are_shown(call):
    flat, shown = call("slices", SLICES)
    assert 1 <= flat <= 64 / 4
    assert shown == 30


def test_of_a_large_film_one_member_is_fetched_at_a_time(call):
    code = "(m, result, look, step) => m.needed(result, look, 'mask', step)"
    result = {"lambdas": [1, 0.5, 0], "member_names": ["1.00", "0.50", "0.00"]}
    look = {"members": True, "lam": 0.5, "member": 1}
    film = {**result, "shape": [4892, 6020], "source_member": 0}
    assert call("layers", code, film, look, 8)[-1] == "members&step=8"
    assert call("layers", code, film, look, 1)[-1] == "mask&mask=member%400.50"


def test_names_of_downloads(call):
    code = "(m, ...given) => m.saveAs(...given)"
    assert call("words", code, "a.b.nii.gz", "mask.png", 3, 9) == "a.b-mask-slice-4.png"
    assert call("words", code, "a.b.nii.gz", "mask.nii.gz", 3, 9) == "a.b-mask.nii.gz"
    assert call("words", code, "film.png", "figures.json", 0, 1) == "film-figures.json"


def test_files_are_short_and_free_of_markup():
    all_ = [*PAGE.rglob("*"), *SHARED.iterdir()]
    files = [p for p in all_ if p.suffix in (".js", ".css", ".html")]
    assert len(files) > 20
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= 250, path.name
        for word in (
            "innerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "http://",
            "https://",
        ):
            allowed = word == "http://" and path.name == "dom.js"  # the name of SVG
            assert allowed or word not in text, f"{word} in {path.name}"
