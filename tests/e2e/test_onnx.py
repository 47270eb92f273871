"""``sitta predict x.onnx`` as it runs in a small image: no torch there, and the same results."""

import csv
import json
import re
import subprocess
import sys

import nibabel as nib
import numpy as np
import pytest
from typer.testing import CliRunner

import sitta
from sitta.cli import app, inspect, predict  # noqa: F401  (verbs register themselves)
from sitta.data import phantom
from sitta.data.images import read_mask
from sitta.data.preprocess import TASKS
from sitta.inference import Request
from sitta.inference import predict as run
from tests import ROOT
from tests.data.files import dataset, save
from tests.onnx_stub import CARD, export

NEVER = ("torch", "monai")  # whoever tries to import these is at fault
ABSENT = ("onnx", "onnxscript", "pandas", "safetensors", "scipy")  # others can do without these
SMALL_IMAGE = f"""
import sys

class Small:
    def find_spec(self, name, *_):
        if name.split(".")[0] in {NEVER}:
            raise RuntimeError(name + " was imported")
        if name.split(".")[0] in {ABSENT}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Small())
sys.argv[0] = "sitta"
from sitta.cli import main
main()
"""
EXACT = ("file", "slice", "notes")


def in_a_small_image(*words, cwd):
    command = [sys.executable, "-W", "error", "-c", SMALL_IMAGE, *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A PNG of each of two sites, a volume, a film and a broken file; and the graph."""
    root = tmp_path_factory.mktemp("onnx")
    (root / "in").mkdir()
    for site, size, name in (
        ("alder", (40, 48), "alder.png"),
        ("birch", (40, 48), "birch.png"),
        ("fir", (12, 40, 36), "scan.nii.gz"),
    ):
        phantom.write(root, site, 1, size)
        next((root / "phantom" / site / "images").iterdir()).rename(root / "in" / name)
    image, _ = phantom.draw("rowan", size=(48, 40))
    save(root / "in" / "film.dcm", dataset((image[0].numpy() * 4000).astype(np.int16)))
    (root / "in" / "broken.png").write_bytes(b"no picture")
    export(root / "net.onnx")
    return root


@pytest.fixture(scope="module")
def by_torch(folder):
    usual = {**TASKS["phantom"].as_dict(), **CARD["preprocess"]}
    plan = Request(
        "tests.onnx_stub:net", "intent", preprocess=usual, save=("probability", "members")
    )
    return run(plan, [folder / "in"], folder / "torch"), folder / "torch"


@pytest.fixture(scope="module")
def small(folder):
    words = ("net.onnx", "in", "-o", "small", "--save", "probability,members", "--json")
    return in_a_small_image("predict", *words, cwd=folder)


def table(out):
    return list(csv.DictReader((out / "summary.csv").read_text().splitlines()))


def test_it_runs_without_torch_past_a_broken_file(small, by_torch, folder):
    assert small.returncode == 1, small.stderr
    assert small.stderr == ""
    told, (theirs, _) = json.loads(small.stdout), by_torch
    assert told["counts"] == theirs.counts == {"done": 4, "skipped": 0, "failed": 1}
    assert told["failures"] == theirs.failures
    kept = json.loads((folder / "small" / "run.json").read_text())
    assert kept["versions"].keys() == {"sitta", "onnxruntime", "python"}
    assert kept["settings"]["strategy"] == "ent-baln"
    assert len(kept["model_hash"]) == 64
    assert (folder / "small" / "report.html").read_text().startswith("<!doctype html>")


def test_the_summary_is_that_of_torch(small, by_torch, folder):
    ours, theirs = table(folder / "small"), table(by_torch[1])
    assert len(ours) == 1 + 1 + 1 + 12
    assert {code for row in ours for code in row["notes"].split()} >= {"far-from-source"}
    for a, b in zip(ours, theirs, strict=True):
        assert a.keys() == b.keys()
        for name in a.keys() - {"seconds"}:
            if name in EXACT or not b[name]:
                assert a[name] == b[name], name
            else:
                assert float(a[name]) == pytest.approx(float(b[name]), abs=1e-5), name


def test_masks_and_maps_are_those_of_torch(small, by_torch, folder):
    names = sorted(p.relative_to(by_torch[1]) for p in by_torch[1].glob("m*/*.*"))
    assert len(names) == 4 * 7  # masks, and a map of each member
    for name in names:
        ours, theirs = folder / "small" / name, by_torch[1] / name
        if name.parts[0] == "masks":
            assert (read_mask(ours) == read_mask(theirs)).mean() > 0.9999
    scan = nib.load(folder / "small" / "masks" / "scan.nii.gz")
    assert np.array_equal(scan.affine, nib.load(folder / "in" / "scan.nii.gz").affine)
    outs = folder / "small", by_torch[1]
    ours, theirs = (nib.load(out / "probability" / "scan.nii.gz") for out in outs)
    np.testing.assert_allclose(np.asarray(ours.dataobj), np.asarray(theirs.dataobj), atol=1e-5)


def test_records_tell_the_report_the_same(small, by_torch, folder):
    def records(out):
        found = [json.loads(p.read_text()) for p in (out / ".sitta").iterdir()]
        return {record["name"]: record for record in found}

    ours, theirs = records(folder / "small"), records(by_torch[1])
    assert ours.keys() == theirs.keys()
    for name, record in ours.items():
        other = theirs[name]
        for key in ("kind", "shape", "slices", "shown", "lambdas", "source_member", "output"):
            assert record[key] == other[key], key
        for key in ("width", "height", "image", "source", "mask", "members"):
            assert record["picture"][key] == other["picture"][key], key


def test_what_is_done_is_not_done_again_and_options_still_count(small, folder):
    words = ["predict", str(folder / "net.onnx"), str(folder / "in" / "birch.png"), "--json"]

    def counts(*more):
        done = CliRunner().invoke(app, [*words, "-o", str(folder / "again"), *more])
        assert done.exit_code == 0, done.exception
        return json.loads(done.stdout)["counts"]

    assert counts()["done"] == 1
    assert counts()["skipped"] == 1
    assert counts("--size", "40x40")["done"] == 1
    same = ("--strategy", "ent-baln", "--step", "0.2", "--set", "activation=auto")
    assert counts(*same)["done"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--strategy", "vote"], r"exported with strategy=ent-baln.*export the model again"),
        (["--set", "lambdas=1,0"], "exported with lambdas="),
        (["--set", "lambdas"], "NAME=VALUE"),
        (["--method", "magic"], "holds the method intent"),
        (["--window", "8x8"], "no window"),
    ],
)
def test_wrong_words(folder, words, said):
    given = ["predict", str(folder / "net.onnx"), str(folder / "in"), "-o", str(folder / "no")]
    result = CliRunner().invoke(app, [*given, *words])
    assert isinstance(result.exception, sitta.InvalidSetting)
    assert re.search(said, str(result.exception))
    assert not (folder / "no").exists()


def test_inspect_without_torch(folder):
    done = in_a_small_image("inspect", "net.onnx", cwd=folder)
    assert done.returncode == 0, done.stderr
    for words in ("intent as one graph", "ent-baln", "any x 1 x any x any", "32 x 32", "organ"):
        assert words in done.stdout
    told = json.loads(in_a_small_image("inspect", "net.onnx", "--json", cwd=folder).stdout)
    assert told["graph"]["method"] == "intent"
    assert told["graph"]["settings"]["step"] == 0.2
    assert told["card"] == CARD
    assert told["preprocess"]["size"] == [32, 32]


def test_without_the_extra_the_line_to_install_it_is_named(folder):
    code = SMALL_IMAGE.replace("('onnx',", "('onnx', 'onnxruntime',")
    words = [sys.executable, "-c", code, "predict", "net.onnx", "in", "-o", "no"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "pip install -e '.[onnx]'" in done.stderr


def test_the_documented_small_image_is_the_one_that_is_tested():
    text = (ROOT / "docs" / "how-to" / "predict.md").read_text()
    line = re.search(r"pip install -c constraints.txt ([a-z0-9 ]*onnxruntime[a-z0-9 ]*)", text)
    listed = set(line[1].split())
    project = (ROOT / "pyproject.toml").read_text()
    base = re.search(r"\ndependencies = \[(.*?)\]\n", project, re.S)[1]
    needed = set(re.findall(r'"([a-z0-9]+)>', base)) - {*NEVER, *ABSENT}
    assert listed == needed | {"onnxruntime"}
