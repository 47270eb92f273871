"""Graphs: the same answers as torch, and clear words for what is no such file or asks too much."""

import json
import sys

import numpy as np
import pytest
import torch

import sitta
from sitta.data import phantom
from sitta.errors import MissingExtra
from sitta.inference import Request, load_model, predict
from sitta.inference.backends.manifest import Manifest
from sitta.inference.backends.onnx import NEEDED, Graph
from tests.onnx_stub import ABOUT, CARD, LAMBDAS, export, net

NAMES = ("probability", "members", *NEEDED, "distance", "areas", "area", "change")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return export(tmp_path_factory.mktemp("graph") / "net.onnx")


def by_torch(images):
    return sitta.InTEnt(net())(images).record


@pytest.mark.parametrize("size", [(32, 32), (21, 40)])
@pytest.mark.parametrize("site", ["alder", "birch", "fir", "maple"])
def test_it_answers_as_torch_does(path, site, size):
    images, _ = phantom.batch(site, 3, size)
    ours, theirs = Graph(path, threads=1)(images.numpy()), by_torch(images)
    for name in NAMES:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-5)
    assert np.array_equal(ours.mask, theirs.mask)
    assert ours.notes == theirs.notes
    assert ours.anchor == theirs.anchor == 0


def test_degenerate_images(path):
    images = torch.rand(4, 1, 16, 16)
    images[1], images[2], images[3] = 0.5, images[0] * 1e6, images[0] - 1e4
    ours, theirs = Graph(path)(images.numpy()), by_torch(images)
    assert ours.notes == theirs.notes
    assert {"constant-image", "all-foreground"} <= {code for codes in ours.notes for code in codes}


def test_members_that_are_not_finite_do_not_count(path):
    images = np.random.default_rng(0).random((2, 1, 40, 40)).astype(np.float32)
    images[1] *= 1e36
    found, theirs = Graph(path)(images), by_torch(torch.from_numpy(images))
    assert found.usable[:, 1].tolist() == [True] + 5 * [False]
    assert np.array_equal(found.usable, theirs.usable)
    assert found.notes == theirs.notes
    np.testing.assert_allclose(found.weights, theirs.weights, atol=1e-5)
    images[1] *= 100
    with pytest.raises(sitta.InvalidImage, match="not finite under any lambda"):
        Graph(path)(images)


def test_it_brings_preprocessing_classes_and_limits(path):
    loaded = load_model(str(path), changes={"scale": "z-score"})
    assert loaded.preprocess.size == (32, 32)
    assert loaded.preprocess.scale == "z-score"
    assert loaded.classes == ("organ",)
    assert loaded.runtime.keys() == {"onnxruntime"}
    assert len(loaded.digest) == 64
    assert loaded.settings["strategy"] == "ent-baln"
    assert loaded.model.card == CARD


def test_what_it_does_not_compute_is_left_out(path, tmp_path):
    phantom.write(tmp_path, "birch", 1, (32, 32))
    images = tmp_path / "phantom" / "birch" / "images"
    less = export(tmp_path / "less.onnx", without=("members", "distance", "mask"))
    run = predict(Request(str(less)), [images], tmp_path / "out")
    assert run.counts["failed"] == 0
    (row,) = run.records[0]["rows"]
    for name in ("change", "distance", "area_source"):
        assert row[name] is None
    assert row["areas"] == [None] * 6
    assert row["notes"] == ["members-disagree"]
    picture = json.loads(next((tmp_path / "out" / ".sitta").iterdir()).read_text())["picture"]
    assert picture["members"] == []
    assert picture["source"] is None
    with pytest.raises(sitta.InvalidSetting, match=r"does not tell its members.*export"):
        predict(Request(str(less), save=("members",)), [images], tmp_path / "out")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"method": "tent"},
            r"holds the method intent, and no other.*Got: tent.*checkpoint",
        ),
        (
            {"settings": {"strategy": "vote"}},
            r"strategy=ent-baln.*Got: strategy=vote.*export",
        ),
        (
            {"settings": {"step": 0.5}},
            r"with step=0.2.*sitta export MODEL out.onnx --step 0.5",
        ),
        ({"settings": {"lambdas": (1.0, 0.0)}}, "exported with lambdas="),
        ({"settings": {"activation": "softmax"}}, "activation=sigmoid"),
        ({"settings": {"speed": 3}}, r"holds no setting 'speed'.*strategy=ent-baln"),
        ({"window": (16, 16)}, "no window slides"),
        ({"device": "cuda"}, r"runs on the CPU here.*auto, cpu"),
        ({"weights": "w.pt"}, "network of your own"),
    ],
)
def test_a_plan_that_contradicts_the_file_is_refused(path, tmp_path, asked, said):
    phantom.write(tmp_path, "alder", 1, (32, 32))
    with pytest.raises(sitta.InvalidSetting, match=said):
        predict(Request(str(path), **asked), [tmp_path / "phantom"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_plan_that_says_the_same_is_fine(path):
    same = {"strategy": "ent-baln", "step": 0.2, "lambdas": LAMBDAS, "activation": "auto"}
    Graph(path).require(Request(str(path), settings=same, device="cpu", save=("members",)))


def test_a_file_with_lambdas_of_its_own_has_no_step(tmp_path):
    settings = {**ABOUT["settings"], "lambdas": list(LAMBDAS)}
    graph = Graph(export(tmp_path / "x.onnx", about={**ABOUT, "settings": settings}))
    with pytest.raises(sitta.InvalidSetting, match="holds no setting 'step'"):
        graph.require(Request("x.onnx", settings={"step": 0.2}))


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (None, r"another program than Sitta wrote it.*sitta export"),
        ("{", "cannot be read"),
        ([1], "format that this version does not know"),
        ({**ABOUT, "format": 2}, r"Allowed: 1. Got: 2. What to do: update Sitta"),
        ({**ABOUT, "lambdas": None}, "does not tell its lambdas"),
        ({**ABOUT, "lambdas": ["one"]}, "does not tell its lambdas"),
        ({**ABOUT, "activation": "relu"}, "does not tell its activation"),
    ],
)
def test_foreign_files_are_refused(tmp_path, about, said):
    told = json.dumps(about) if isinstance(about, list) else about
    with pytest.raises(sitta.UnsupportedModel, match=said):
        Graph(export(tmp_path / "x.onnx", about=told))


def test_files_that_are_not_what_they_should_be(tmp_path):
    with pytest.raises(sitta.SittaError, match=r"no file .*nowhere.onnx"):
        load_model(str(tmp_path / "nowhere.onnx"))
    (tmp_path / "text.onnx").write_text("no graph")
    with pytest.raises(sitta.UnsupportedModel, match=r"cannot be run: it is damaged"):
        load_model(str(tmp_path / "text.onnx"))
    with pytest.raises(sitta.UnsupportedModel, match="does not compute weights, usable"):
        Graph(export(tmp_path / "less.onnx", without=("weights", "usable")))
    few = Graph(export(tmp_path / "few.onnx", about={**ABOUT, "lambdas": [1.0]}))
    with pytest.raises(sitta.UnsupportedModel, match="tells of 1 lambdas and has 6 members"):
        few(np.zeros((1, 1, 8, 8)))


def test_inputs_that_do_not_fit(path):
    graph = Graph(path)
    with pytest.raises(sitta.InvalidImage, match=r"any x 1 x any x any. Got: 2 x 3 x 8 x 8"):
        graph(np.zeros((2, 3, 8, 8)))
    with pytest.raises(sitta.InvalidImage, match="does not take inputs of this shape"):
        graph(np.zeros((1, 1, 8, 8, 8)))
    with pytest.raises(sitta.InvalidImage, match="not finite numbers"):
        graph(np.full((1, 1, 8, 8), np.nan))
    with pytest.raises(sitta.InvalidImage, match="cannot be run on inputs of 1 x 1 x 0 x 8"):
        graph(np.zeros((1, 1, 0, 8)))


def test_without_onnxruntime_the_extra_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r"pip install -e '\.\[onnx\]'"):
        load_model(str(path))


def test_a_manifest_is_read_as_it_was_written():
    told = Manifest("1.0", "intent", {"topk": 2}, (1.0, 0.5), "softmax", {"source": "x"}, 8)
    assert Manifest.read("net.onnx", told.write()) == told
