"""A new kind of normalisation layer needs its adapter and nothing else."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from typer.testing import CliRunner

import sitta
from sitta import cli
from sitta.cli import inspect, predict  # noqa: F401  (they register themselves)
from sitta.core import norm_adapters
from tests.core.toy_norm import ToyAdapter, ToyNorm, ToyWithoutONNX
from tests.nets import assert_untouched, snapshot


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(norm_adapters, "ADAPTERS", [ToyAdapter(), *norm_adapters.ADAPTERS])
    torch.manual_seed(0)
    conv = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 3, 3, padding=1)
    net = nn.Sequential(conv[0], ToyNorm(4), nn.ReLU(), conv[1], ToyNorm(3), nn.Conv2d(3, 1, 1))
    return net.eval(), torch.rand(2, 1, 16, 16) * 1.7 - 0.2


def by_hand(net, image, lam):
    """Logits of one member: statistics captured at lambda 0, then mixed, layer by layer."""
    captured, x = [], image[None]
    for layer in net:
        if isinstance(layer, ToyNorm):
            captured.append((x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)))
            x = normalised(layer, x, *captured[-1])
        else:
            x = layer(x)
    x, statistics = image[None], iter(captured)
    for layer in net:
        if isinstance(layer, ToyNorm):
            mean, var = next(statistics)
            mean = lam * layer.centre + (1 - lam) * mean
            x = normalised(layer, x, mean, lam * layer.spread**2 + (1 - lam) * var)
        else:
            x = layer(x)
    return x


def normalised(layer, x, mean, var):
    mean, var, gain = (t.view(1, -1, 1, 1) for t in (mean, var, layer.gain))
    return (x - mean) / (var + 1e-3).sqrt() * gain


def test_census_and_inspect_know_it(toy):
    found = sitta.inspect(toy[0])
    layers = [(x.family, x.features, x.running, x.affine) for x in found.census.layers]
    assert layers == [("ToyNorm", 4, True, True), ("ToyNorm", 3, True, True)]
    assert set(found.applies) == set(sitta.methods())
    assert "2 ToyNorm with running statistics" in str(found)
    group = sitta.inspect(nn.Sequential(nn.Conv2d(1, 2, 1), nn.GroupNorm(1, 2)))
    assert "no ToyNorm or BatchNorm or InstanceNorm layer" in group.problems["intent"]


def test_commands_and_the_report_know_it(toy, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "toynets", SimpleNamespace(net=lambda: toy[0]))
    Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).save(tmp_path / "a.png")

    def run(*words):
        done = CliRunner().invoke(cli.app, [str(word) for word in words])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    told = run("inspect", "toynets:net", "--json")
    assert [layer["family"] for layer in told["census"]["layers"]] == ["ToyNorm", "ToyNorm"]
    assert told["methods"]["intent"]
    how = ("--activation", "logits", "--json")
    run("predict", "toynets:net", tmp_path / "a.png", "-o", tmp_path / "out", *how)
    assert "toynets:net" in (tmp_path / "out" / "report.html").read_text("utf-8")


@torch.no_grad()
@pytest.mark.parametrize("accelerate", [True, False])
def test_members_are_mixed_as_by_hand(toy, accelerate):
    net, images = toy
    before = snapshot(net)
    p = sitta.InTEnt(net, accelerate=accelerate)(images)
    assert_untouched(net, before)
    torch.testing.assert_close(p.members[0], net(images).sigmoid(), rtol=0, atol=1e-6)
    for k, lam in enumerate(p.lambdas.tolist()):
        for n, image in enumerate(images):
            expected = by_hand(net, image, lam).sigmoid()[0]
            torch.testing.assert_close(p.members[k, n], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["tent", "sar", "fseg", "memo"])
def test_gradient_methods_update_its_gain(toy, name):
    net, images = toy
    settings = {"margin": 1.0} if name == "sar" else {}
    still = sitta.method(name, net, steps=0, **settings)(images)
    moved = sitta.method(name, net, steps=3, rate=0.1, **settings)(images)
    assert not torch.equal(still.probability, moved.probability)


def test_a_subclass_that_never_normalises_is_refused(toy):
    class Own(ToyNorm):
        def forward(self, x):
            return x * self.gain.view(1, -1, 1, 1)

    net, images = toy
    net[1] = Own(4)
    with pytest.raises(sitta.UnsupportedModel, match="never calls ToyNorm's"):
        sitta.InTEnt(net)(images)


def test_it_is_exported_or_refused_by_name(toy, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    net, _ = toy
    written = sitta.export_onnx(net, tmp_path / "toy.onnx")  # compares with torch itself
    assert written.difference < 1e-4
    monkeypatch.setattr(norm_adapters, "ADAPTERS", [ToyWithoutONNX()])
    with pytest.raises(sitta.UnsupportedModel, match="adapter ToyWithoutONNX declares none"):
        sitta.export_onnx(net, tmp_path / "none.onnx")
