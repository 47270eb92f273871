"""A shipped model exported, then run in a small image: what torch says, without torch."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from sitta.cli import app, export  # noqa: F401  (verbs register themselves)
from sitta.data import phantom
from sitta.data.images import read_mask
from sitta.inference import Request, load_model
from sitta.inference import predict as run
from tests.e2e.test_onnx import EXACT, in_a_small_image, table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("exported")
    for site, size in (("alder", (50, 70)), ("cedar", (64, 64)), ("fir", (50, 70))):
        phantom.write(root, site, 1, size)
    result = CliRunner().invoke(app, ["export", "phantom-alder", str(root / "n.onnx"), "--json"])
    assert result.exit_code == 0, result.exception
    told = json.loads(result.stdout)
    assert told["size"] == (root / "n.onnx").stat().st_size
    assert told["difference"] < 1e-4
    assert told["multiple"] == 1
    return root


def test_the_run_is_that_of_torch(folder):
    images = sorted((folder / "phantom").glob("*/images"))
    words = ("n.onnx", *images, "-o", "small", "--fit", "none", "--json")
    done = in_a_small_image("predict", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    as_they_are = {"fit": "none", "size": None}
    plan = Request("phantom-alder", "intent", preprocess=as_they_are)
    there = run(plan, images, folder / "torch")
    assert there.counts == json.loads(done.stdout)["counts"]
    ours, theirs = table(folder / "small"), table(folder / "torch")
    assert len(ours) == 3
    for a, b in zip(ours, theirs, strict=True):
        assert a.keys() == b.keys()
        for name in a.keys() - {"seconds"}:
            if name in EXACT or not b[name]:
                assert a[name] == b[name], name
            else:
                assert float(a[name]) == pytest.approx(float(b[name]), abs=1e-4), name
    for path in (folder / "torch" / "masks").rglob("*.png"):
        mine = folder / "small" / path.relative_to(folder / "torch")
        assert np.array_equal(read_mask(mine), read_mask(path))
    assert (folder / "small" / "report.html").read_text().startswith("<!doctype html>")
    kept = [json.loads((folder / n / "run.json").read_text()) for n in ("small", "torch")]
    assert kept[0]["settings"]["strategy"] == "ent-baln"
    assert "torch" not in kept[0]["versions"]


def test_the_card_comes_with_it(folder):
    done = in_a_small_image("inspect", "n.onnx", "--json", cwd=folder)
    told = json.loads(done.stdout)
    loaded = load_model("phantom-alder")
    known = json.loads(json.dumps(loaded.model.card))
    learnt = known.pop("calibration")  # told apart, and in short
    assert told["calibration"]["images"] == learnt["images"]
    assert [c["name"] for c in told["calibration"]["classes"]] == ["organ"]
    added = {"preprocess": loaded.preprocess.as_dict(), "classes": ["background", "organ"]}
    assert told["card"] == json.loads(json.dumps(known | added))
    assert told["card"]["source"] == "phantom/alder"
