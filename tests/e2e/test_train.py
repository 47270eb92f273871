"""``sitta train`` and ``sitta data`` as a person runs them: killed, misused, on a full disk."""

import csv
import json
import random
import time

import pytest
import torch

import sitta
from sitta.data import phantom
from tests.shell import sitta_command, start


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    for site in ("alder", "birch"):
        phantom.write(folder, site, 10, (32, 32))
    return folder


def command(root, out, *more):
    where = ["train", "--data", root, "--task", "phantom", "--source", "alder", "--out", out]
    how = ["--recipe", "fast", "--size", "32x32", "--epochs", "12", "--batch", "4"]
    return [*where, *how, *more]


def epochs(out):
    log = out / "log.csv"
    return len(list(csv.DictReader(log.read_text().splitlines()))) if log.exists() else 0


def test_killed_again_and_again_it_ends_with_the_same_weights(root, tmp_path):
    whole = sitta_command(*command(root, tmp_path / "whole", "--json"))
    assert whole.returncode == 0, whole.stderr
    cut, chance = tmp_path / "cut", random.Random(0)  # noqa: S311  (moments, not secrets)
    for wanted in (2, 6):
        process = start(*command(root, cut, "--save-every", "0", "--resume"))
        while epochs(cut) < wanted and process.is_alive():
            time.sleep(0.05)
        time.sleep(chance.random() / 5)
        process.kill()
        process.join()
        for file in cut.glob("*.safetensors"):
            sitta.load(file)  # whole at any moment
    assert epochs(cut) < 12
    again = sitta_command(*command(root, cut, "--resume", "--json"))
    assert again.returncode == 0, again.stderr
    a, b = (sitta.load(tmp_path / d / "phantom-alder.safetensors") for d in ("whole", "cut"))
    for (name, x), y in zip(a.state_dict().items(), b.state_dict().values(), strict=True):
        assert torch.equal(x, y), name
    assert json.loads(whole.stdout)["dice"] == json.loads(again.stdout)["dice"]


def test_a_disk_that_is_full_gives_a_sentence_and_no_half_checkpoint(root, tmp_path):
    said = tmp_path / "said"
    out = tmp_path / "out"
    process = start(*command(root, out, "--save-every", "0"), err=said, room=300_000)
    process.join()
    assert process.exitcode == 2
    assert said.read_text().strip().splitlines()[-1].startswith("sitta: ")
    assert "Traceback" not in said.read_text()
    assert not list(out.glob("*.safetensors"))


def test_a_folder_that_cannot_be_written(root, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    done = sitta_command(*command(root, tmp_path / "file" / "out"))
    assert done.returncode == 2
    assert done.stderr.startswith("sitta: Not a directory: ")


def test_the_lines_of_a_run_and_its_picture(root, tmp_path):
    done = sitta_command(*command(root, tmp_path / "out"), "--epochs", "2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("phantom/alder: 10 images of 1 x 32 x 32; 2 of 10 subjects")
    assert lines[1].startswith("epoch   1  loss ")
    assert "validation Dice" in lines[2]
    assert lines[-2].endswith("phantom-alder.safetensors")
    assert (tmp_path / "out" / "curve.png").read_bytes()[1:4] == b"PNG"


def damaged(folder):
    """Ways in which a domain can be wrong, and a word of what is said about each."""
    image, mask = folder / "images" / "scene-0003.png", folder / "masks" / "scene-0003.png"
    return {
        "no partner": mask.unlink,
        "is empty (0 bytes)": lambda: image.write_bytes(b""),
        "cut short": lambda: image.write_bytes(image.read_bytes()[:300]),
        "another size": lambda: mask.write_bytes(_png(20, 32, 1)),
        "no mask of two classes": lambda: mask.write_bytes(_png(32, 32, 9)),
        "holds two files of the name": lambda: (folder / "images" / "scene-0003.jpg").write_bytes(
            b"x"
        ),
    }


def _png(height, width, values):
    import io

    import numpy as np
    from PIL import Image

    found = io.BytesIO()
    pixels = np.arange(height * width).reshape(height, width) % (values + 1)
    Image.fromarray(pixels.astype(np.uint8)).save(found, "PNG")
    return found.getvalue()


WAYS = ["no partner", "is empty (0 bytes)", "cut short", "another size", "no mask of two classes"]


@pytest.mark.parametrize("said", [*WAYS, "holds two files of the name"])
def test_bad_data_is_named_by_check_and_refused_by_train(tmp_path, said):
    from typer.testing import CliRunner

    from sitta.cli import app, data, train  # noqa: F401  (verbs register themselves)

    phantom.write(tmp_path, "alder", 5, (32, 32))
    damaged(tmp_path / "phantom" / "alder")[said]()
    checked = CliRunner().invoke(app, ["data", "check", str(tmp_path), "--json"])
    problems = json.loads(checked.stdout)["domains"][0]["problems"]
    assert checked.exit_code == 1
    assert len(problems) == 1
    assert said in problems[0] or "has no mask" in problems[0]
    words = ["train", "--data", tmp_path, "--task", "phantom", "--source", "alder"]
    result = CliRunner().invoke(app, [*map(str, words), "--out", str(tmp_path / "out")])
    assert isinstance(result.exception, sitta.SittaError)
    assert said in str(result.exception)
    assert not list(tmp_path.glob("out/*.safetensors"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--task", "brain"], "no domain brain/alder"),
        (["--source", "oak"], "phantom/alder, phantom/birch"),
        (["--data", "nowhere"], "no folder nowhere"),
        (["--recipe", "slow"], "paper, fast"),
        (["--preset", "huge"], "compact, paper, reference"),
        (["--size", "128by128"], "128x128"),
        (["--device", "abacus"], "cannot be used"),
        (["--rate", "-1"], "rate is out of range"),
    ],
)
def test_wrong_words(root, tmp_path, words, said):
    from typer.testing import CliRunner

    from sitta.cli import app, train  # noqa: F401

    given = ["train", "--data", str(root), "--task", "phantom", "--source", "alder", *words]
    result = CliRunner().invoke(app, [*given, "--out", str(tmp_path)])
    assert isinstance(result.exception, sitta.SittaError)
    assert said in str(result.exception)


def test_check_show_and_phantom(root, tmp_path):
    done = sitta_command("data", "check", root, COLUMNS="100")
    assert done.returncode == 0, done.stdout
    assert "phantom/birch" in done.stdout
    assert "32x32" in done.stdout
    assert "No problems." in done.stdout
    picture = tmp_path / "overview.png"
    shown = sitta_command("data", "show", root, "-o", picture)
    assert shown.stdout.strip() == f"Picture: {picture}"
    assert picture.read_bytes()[1:4] == b"PNG"
    again = sitta_command("data", "show", root, "-o", picture)
    assert "is there already" in again.stderr
    image = next((root / "phantom").glob("*/images/*"))
    before = image.read_bytes()
    over = sitta_command("data", "show", root, "-o", image, "--overwrite")
    assert "is an input" in over.stderr
    assert image.read_bytes() == before
    how = ("--sites", "elm", "--images", "2", "--size", "8x16x16")
    drawn = sitta_command("data", "phantom", tmp_path, *how)
    assert drawn.stdout.startswith("2 images from elm in ")
    assert len(list(tmp_path.glob("phantom/elm/images/*.nii.gz"))) == 2
    wrong = sitta_command("data", "phantom", tmp_path, "--sites", "oak")
    assert wrong.returncode == 2
    assert "There is no such site" in wrong.stderr
