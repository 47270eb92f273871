"""``sitta calibrate`` on phantoms, and what its profile does for the other commands."""

import csv
import json

import numpy as np
import pytest
from PIL import Image

from sitta.calibration import calibrate as module
from sitta.data import phantom
from tests.shell import sitta_command

EXPECTED = ("expected_dice_low", "expected_dice", "expected_dice_high")


@pytest.fixture(autouse=True)
def few_looks(monkeypatch):
    monkeypatch.setattr(module, "PER_IMAGE", (2, 2))


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrated")
    for site, count in (("alder", 12), ("rowan", 3)):
        phantom.write(folder, site, count, (48, 48))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PER_IMAGE", (2, 2))
        done = sitta_command(*calibration("--masks", "phantom/alder/masks"), cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "told.txt").write_text(done.stdout)
    return folder


def calibration(*more, out="calibrated.toml"):
    return ["calibrate", "phantom-alder", "--images", "phantom/alder/images", "-o", out, *more]


def rows(folder):
    with open(folder / "summary.csv", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_it_writes_a_profile_and_tells_what_it_found(here):
    told = (here / "told.txt").read_text()
    assert "12 images of 12 subjects, compared with their masks" in told
    assert "gamma" in told
    assert max(len(line) for line in told.splitlines() if "toml" not in line) <= 80
    assert 'calibration = "calibrated.calibration.json"' in (here / "calibrated.toml").read_text()
    kept = (here / "calibrated.calibration.json").read_text()
    assert "scene" not in kept  # no file name
    assert len(kept) < 150_000


def test_inspect_shows_it_with_a_picture(here):
    done = sitta_command("inspect", "calibrated.toml", "--plot", "seen.png", cwd=here)
    assert done.returncode == 0, done.stderr
    assert "12 images of 12 subjects" in done.stdout
    with Image.open(here / "seen.png") as picture:
        assert min(picture.size) > 300
    told = json.loads(sitta_command("inspect", "calibrated.toml", "--json", cwd=here).stdout)
    assert told["calibration"]["images"] == 12
    assert "float16" not in json.dumps(told)
    plain = sitta_command("inspect", "phantom-alder", "--plot", "no.png", cwd=here)
    if plain.returncode:  # until the model that ships is calibrated itself
        assert "not calibrated" in plain.stderr


def test_predictions_have_an_expected_dice(here):
    words = ("predict", "calibrated.toml", "phantom/rowan/images", "-o", "out")
    assert sitta_command(*words, cwd=here).returncode == 0
    found = rows(here / "out")
    assert len(found) == 3
    for row in found:
        low, middle, high = (float(row[name]) for name in EXPECTED)
        assert 0 <= low <= middle <= high <= 1
    assert json.loads((here / "out" / "run.json").read_text())["method"] == "adapt"


def test_least_dice_flags_or_does_not(here):
    flagged = {}
    for least in ("0", "1"):
        words = ("predict", "calibrated.toml", "phantom/rowan/images", "-o", f"out-{least}")
        assert sitta_command(*words, "--min-dice", least, cwd=here).returncode == 0
        flagged[least] = ["low-expected-dice" in r["notes"] for r in rows(here / f"out-{least}")]
    assert flagged["0"] == [False] * 3
    assert flagged["1"] == [True] * 3


def test_without_masks(here):
    done = sitta_command(*calibration("--json", out="alone.toml"), cwd=here)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["labelled"] is False
    assert told["members"]["none"]["member 0"] == 1.0


def test_it_replaces_nothing_silently(here):
    done = sitta_command(*calibration(), cwd=here)
    assert done.returncode == 2
    assert "is there already" in done.stderr
    (here / "other.calibration.json").write_text("by hand")
    done = sitta_command(*calibration(out="other.toml"), cwd=here)
    assert "other.calibration.json is there already" in done.stderr
    assert (here / "other.calibration.json").read_text() == "by hand"


def test_no_input_becomes_its_profile(here):
    image = here / "phantom" / "alder" / "images" / "scene-0000.png"
    (here / "code.py").write_text("from sitta.models import load\nnet = load\n")
    before = image.read_bytes(), (here / "code.py").read_bytes()
    images = ("--images", "phantom/alder/images", "--overwrite")
    for words in (
        calibration("--overwrite", out=image),
        ["calibrate", "code.py:net", *images, "-o", "code.py"],
        ["profile", "new", "code.py:net", "-o", "code.py", "--overwrite"],
        ["inspect", "calibrated.toml", "--plot", "calibrated.toml", "--overwrite"],
    ):
        done = sitta_command(*words, cwd=here)
        assert done.returncode == 2
        assert "is an input" in done.stderr
    assert (image.read_bytes(), (here / "code.py").read_bytes()) == before


def test_of_two_images_of_one_name_none_is_left_out_silently(here, tmp_path):
    for name in ("a.png", "a.tif"):
        Image.new("L", (48, 48)).save(tmp_path / name)
    done = sitta_command(*calibration("--images", tmp_path, out="two.toml"), cwd=here)
    assert done.returncode == 2
    assert "holds two files of the name a: a.png, a.tif" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--images", "nowhere"), "There is no folder"),
        (("--masks", "phantom/rowan/masks"), "images have no mask"),
    ],
)
def test_wrong_use_is_told_in_a_sentence(here, words, message):
    done = sitta_command(*calibration(*words, out="wrong.toml"), cwd=here)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (here / "wrong.toml").exists()


def spoiled(here, folder, change):
    """The images of a site, changed, as files of the same names."""
    (here / folder).mkdir()
    for path in sorted((here / "phantom/rowan/images").iterdir()):
        with Image.open(path) as image:
            Image.fromarray(np.ascontiguousarray(change(np.asarray(image)))).save(
                here / folder / path.name
            )


def masks(folder):
    found = []
    for path in sorted((folder / "masks").iterdir()):
        with Image.open(path) as image:
            found.append(np.asarray(image))
    return found


def test_inverted_files_with_invert(here):
    """Inverted pixels, inverted for the model: the masks of the right ones."""
    spoiled(here, "inverted", lambda x: x.max() + x.min() - x)
    for out, words in (("right", ["phantom/rowan/images"]), ("mended", ["inverted", "--invert"])):
        command = ["predict", "phantom-alder", *words, "-o", out]
        assert sitta_command(*command, cwd=here).returncode == 0
    for right, mended in zip(masks(here / "right"), masks(here / "mended"), strict=True):
        assert right.any()
        np.testing.assert_array_equal(right, mended)


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_turned_files_with_rotate(here, degrees):
    """Files turned to the left, turned right for the model: masks lie in the turned file."""
    spoiled(here, f"turned{degrees}", lambda x: np.rot90(x, degrees // 90))
    runs = {"straight": ["phantom/rowan/images"]}
    runs |= {"back": [f"turned{degrees}", "--rotate", str(degrees)]}
    for out, words in runs.items():
        command = ["predict", "phantom-alder", *words, "-o", f"{out}{degrees}"]
        assert sitta_command(*command, cwd=here).returncode == 0
    pairs = (masks(here / f"{out}{degrees}") for out in runs)
    for straight, back in zip(*pairs, strict=True):
        assert straight.any()
        np.testing.assert_array_equal(np.rot90(straight, degrees // 90), back)


def test_other_angles_are_refused(here):
    words = ("predict", "phantom-alder", "phantom/rowan/images", "-o", "no", "--rotate", "45")
    done = sitta_command(*words, cwd=here)
    assert done.returncode == 2
    assert "rotate is out of range" in done.stderr


@pytest.mark.parametrize(
    ("words", "method"),
    [((), "adapt"), (("--method", "intent"), "intent"), (("--strategy", "average"), "intent")],
)
def test_the_usual_method_and_the_one_a_flag_away(here, words, method):
    out = f"usual{len(words)}{method}{words[0] if words else ''}"
    command = ("predict", "phantom-alder", "phantom/rowan/images", "-o", out, *words)
    assert sitta_command(*command, cwd=here).returncode == 0
    assert json.loads((here / out / "run.json").read_text())["method"] == method


def test_columns_of_members_hold_where_not_all_of_them_ran(here, tmp_path):
    """Empty cells for members that were not needed; weights of each row still sum to 1."""
    words = ("predict", "phantom-alder", "phantom/alder/images", "phantom/rowan/images")
    assert sitta_command(*words, "-o", tmp_path / "out", cwd=here).returncode == 0
    found = rows(tmp_path / "out")
    names = ("1.00", "0.80", "0.60", "0.40", "0.20", "0.00", "split")
    assert [c for c in found[0] if c.startswith("weight@")] == [f"weight@{n}" for n in names]
    skipped = 0
    for row in found:
        weights = [row[f"weight@{name}"] for name in names]
        assert sum(float(w) for w in weights if w) == pytest.approx(1, abs=1e-5)
        two = "two-members-agree" in row["notes"]
        skipped += two
        assert [w != "" for w in weights] == [True, *[not two] * 4, True, not two]
    assert 0 < skipped < len(found)
