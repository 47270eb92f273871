"""``sitta predict`` as a person runs it: killed, resumed, misused."""

import csv
import json
import time

import pytest
from typer.testing import CliRunner

import sitta
from sitta.cli import app, inspect, predict  # noqa: F401  (verbs register themselves)
from sitta.data.images import read
from sitta.inference import Request
from sitta.inference import predict as run
from tests.inference import bad
from tests.shell import sitta_command, start

WORDS = ["predict", "phantom-alder"]
SMALL = ["--size", "48x48"]


def contents(folder):
    return {p.name: p.read_bytes() for p in sorted((folder / "masks").iterdir())}


def figures(folder):
    rows = list(csv.DictReader((folder / "summary.csv").read_text().splitlines()))
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def test_killed_again_and_again_it_ends_with_the_same_files(images, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run(Request("phantom-alder", preprocess={"size": (48, 48)}), [images], whole)
    for wanted in (2, 9):
        process = start(*WORDS, images, "-o", cut, *SMALL)
        while len(list(cut.glob(".sitta/[!.]*.json"))) < wanted and process.is_alive():
            time.sleep(0.01)
        process.kill()
        process.join()
        for path in cut.glob("masks/*.png"):
            read(path)  # whole at any moment
    assert len(list(cut.glob(".sitta/[!.]*.json"))) < 24
    done = sitta_command(*WORDS, images, "-o", cut, *SMALL, "--json")
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)["counts"]
    assert counts["skipped"] >= 9
    assert sum(counts.values()) == 24
    assert contents(cut) == contents(whole)
    assert figures(cut) == figures(whole)


def test_what_a_person_sees(images, tmp_path):
    folder = bad.fill(tmp_path / "in")
    done = sitta_command(*WORDS, folder, images, "-o", tmp_path / "out", *SMALL)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    assert lines[0] == ["predicted", "done", "before", "failed", "seconds"]
    assert lines[2][:3] == ["24", "0", str(len(bad.REASONS))]
    assert "Look at these first" in done.stdout
    assert "report.html" in done.stdout
    assert (tmp_path / "out" / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "magic"], "There is no such method"),
        (["--fit", "none", "--size", "64x64"], "takes no size"),
        (["--strategy", "best"], "strategy is out of range"),
        (["--method", "intent", "--set", "step=2"], "step is out of range"),
        (["--set", "speed=1"], "no setting 'speed'"),
        (["--set", "step"], "NAME=VALUE"),
        (["--save", "mask"], "no map mask"),
        (["--size", "4"], "one number a side"),
        (["--device", "abacus"], "cannot be used"),
        (["--window", "8x8x8"], "A window needs one number a side"),  # it ends the whole run
    ],
)
def test_wrong_words(images, tmp_path, words, said):
    given = ["predict", "phantom-alder", str(images), "-o", str(tmp_path / "out"), *words]
    result = CliRunner().invoke(app, given)
    assert isinstance(result.exception, sitta.SittaError)
    assert said in str(result.exception)


def test_settings_of_any_method_by_name(images, tmp_path):
    given = ["predict", "phantom-alder", str(next(images.iterdir())), "-o", str(tmp_path), *SMALL]
    more = ["--method", "tent", "--set", "steps=2", "--set", "optimiser=sgd", "--json"]
    result = CliRunner().invoke(app, [*given, *more])
    assert result.exit_code == 0, result.exception
    kept = json.loads((tmp_path / "run.json").read_text())
    assert kept["settings"] == {"steps": 2, "optimiser": "sgd"}
    assert kept["model_hash"]


def test_inspect():
    result = CliRunner().invoke(app, ["inspect", "phantom-alder"])
    assert "29 BatchNorm2d with running statistics" in result.stdout
    assert "128 x 128" in result.stdout
    told = json.loads(CliRunner().invoke(app, ["inspect", "phantom-alder", "--json"]).stdout)
    assert told["methods"]["intent"] is True
    assert told["preprocess"]["size"] == [128, 128]
    assert len(told["sha256"]) == 64
