"""How a graph is judged: at the model's own size and range, by masks and probabilities."""

import dataclasses

import numpy as np
import pytest
import torch

import sitta
from sitta.core.integration import STRATEGIES, Strategy
from sitta.data import Preprocess
from sitta.export import build, check
from sitta.export.rewrite import Rewriter
from sitta.inference.backends.onnx import Graph
from tests.export.halves import remembered
from tests.export.test_export import small

OURS = {"output": "logits", "lambdas": (1.0, 0.5, 0.0)}
OWN = Preprocess(size=(40, 30), scale="standardise", mean=(0.4,), std=(0.2,))


@pytest.fixture(scope="module")
def trace():
    return remembered(build.trace)


@pytest.fixture
def traced_once(trace, monkeypatch):
    monkeypatch.setattr(build, "trace", trace)


@pytest.fixture(scope="module")
def net():
    return small()


@pytest.fixture(scope="module")
def exported(net, tmp_path_factory):
    path = tmp_path_factory.mktemp("check") / "net.onnx"
    return sitta.export_onnx(net, path, preprocess=OWN, **OURS)


def test_it_is_compared_at_the_models_own_size_and_range(exported):
    assert exported.compared == ((1, 1, 40, 30), (2, 1, 40, 32))
    assert exported.difference < 1e-5
    assert exported.pixels <= 1e-4
    assert "probabilities within" in str(exported)
    images = check.images(1, 2, 2, False, (40, 30), OWN)
    assert (images[0].min().item(), images[0].max().item()) == pytest.approx((-2, 3))
    scored = check.images(1, 2, 2, False, (40, 30), Preprocess(size=(40, 30), scale="z-score"))
    assert scored[1].std(dim=(1, 2, 3), correction=0).tolist() == pytest.approx([1, 1])
    large = check.images(1, 3, 16, False, (512, 512, 512))
    assert all(x[0, 0].numel() <= 2**21 for x in large)
    assert not any(side % 16 for x in large for side in x.shape[2:])


@pytest.mark.usefixtures("traced_once")
def test_the_callers_shape_comes_first(net, tmp_path):
    done = sitta.export_onnx(net, tmp_path / "net.onnx", shape=(24, 20), preprocess=OWN, **OURS)
    assert done.compared[0] == (1, 1, 24, 20)
    for shape in ((24,), (23, 20)):
        with pytest.raises(sitta.InvalidSetting, match=r"shape does not fit.*multiples of 2"):
            sitta.export_onnx(net, tmp_path / "other.onnx", shape=shape, **OURS)


def last_left_out(norms):
    return dict(list(norms.items())[:-1])


def changed(**by):
    def change(norms):
        first, norm = next(iter(norms.items()))
        values = {name: getattr(norm, name) * factor for name, factor in by.items()}
        return {**norms, first: dataclasses.replace(norm, **values)}

    return change


BROKEN = {
    "another eps": changed(eps=1e4),
    "another mean": changed(mean=1.2),
    "another variance": changed(var=1.05),
    "another weight": changed(weight=0.98),
    "a layer left out": last_left_out,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_wrong_graph_is_never_written(net, tmp_path, monkeypatch, name):
    real = Rewriter._find
    monkeypatch.setattr(Rewriter, "_find", lambda self, s: BROKEN[name](real(self, s)))
    with pytest.raises(sitta.SittaError, match=r"The graph is not what the model is"):
        sitta.export_onnx(net, tmp_path / "net.onnx", preprocess=OWN, **OURS)
    assert not list(tmp_path.iterdir())


def test_rounding_at_a_few_pixels_is_no_mistake(net, exported):
    method, image = sitta.InTEnt(net, **OURS), torch.rand(1, 1, 128, 128)
    graph = Graph(exported.path, threads=1)
    values = graph._session.run(None, {"image": image.numpy()})
    found = dict(zip(graph.outputs, values, strict=True))
    for pixels, fine in ((1, True), (20, False)):
        members = found["members"].copy()
        members.reshape(3, -1)[:, :pixels] += 0.01
        seen = check.differences(found | {"members": members}, method, "sigmoid", image)
        assert (seen["members"] <= check.LIMITS["members"]) == fine
        mask = found["mask"].copy()
        mask.reshape(-1)[:pixels] ^= 1
        seen = check.differences(found | {"mask": mask}, method, "sigmoid", image)
        assert (seen["mask"] <= check.LIMITS["mask"]) == fine
    for amount, fine in ((4e-4, True), (6e-4, False)):
        moved = found | {"probability": found["probability"] + np.float32(amount)}
        seen = check.differences(moved, method, "sigmoid", image)
        assert (seen["probability"] <= check.LIMITS["probability"]) == fine


def to_a_power(scores, _topk):
    """Entropies to the power of -20, of which the lowest is the unit: the others overflow."""
    lowest = torch.where(scores.isfinite(), scores, torch.inf).amin(dim=0)
    share = (lowest / scores.clamp(min=1e-6)) ** 20
    return share / share.sum(dim=0)


@pytest.mark.usefixtures("traced_once")
def test_a_new_strategy_is_exported_as_it_is(net, tmp_path, monkeypatch):
    monkeypatch.setitem(STRATEGIES, "toy-power", Strategy(to_a_power, "H^-20"))
    done = sitta.export_onnx(net, tmp_path / "net.onnx", strategy="toy-power", **OURS)
    images = torch.rand(2, 1, 16, 24)
    ours = Graph(done.path, threads=1)(images.numpy())
    theirs = sitta.InTEnt(net, strategy="toy-power", **OURS)(images)
    np.testing.assert_allclose(ours.weights, theirs.weights, atol=1e-3)
    np.testing.assert_allclose(ours.probability, theirs.probability, atol=5e-4)
