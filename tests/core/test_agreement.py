"""Distance to the source's statistics, change of the mask, and limits that a model brings along."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import sitta
from sitta.core.moments import divergence
from sitta.data import phantom
from sitta.prediction.notes import NOTES
from tests import uncalibrated
from tests.nets import Net, trained


def slow_distance(model, image):
    """KL of each BatchNorm's input at lambda 0 from its running statistics, by hooks and NumPy."""
    found = []

    def hook(layer, inputs, _):
        x = inputs[0].detach().double().transpose(0, 1).flatten(1).numpy()  # (C, pixels)
        mean, var = x.mean(1), x.var(1) + layer.eps
        source = layer.running_mean.double().numpy(), layer.running_var.double().numpy() + layer.eps
        kl = np.log(np.sqrt(source[1] / var)) + (var + (mean - source[0]) ** 2) / (2 * source[1])
        found.append(float((kl - 0.5).mean()))

    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    kept = [(m.running_mean.clone(), m.running_var.clone(), m.momentum) for m in norms]
    handles = [m.register_forward_hook(hook) for m in norms]
    for m in norms:
        m.train()
        m.momentum = 0.0
    with torch.no_grad():
        model(image[None])
    for m, (mean, var, momentum), handle in zip(norms, kept, handles, strict=True):
        m.eval()
        m.momentum = momentum
        handle.remove()
        assert torch.equal(m.running_mean, mean)
        assert torch.equal(m.running_var, var)
    return float(np.mean(found))


@pytest.fixture
def model():
    return sitta.load("phantom-alder")


def test_distance_is_the_divergence_of_every_layer_at_lambda_0(model):
    images, _ = phantom.batch("cedar", 3, (64, 64))
    p = sitta.InTEnt(model)(images)
    for n, image in enumerate(images):
        assert float(p.distance[n]) == pytest.approx(slow_distance(model, image), rel=1e-3)
        assert float(p[n].distance) == float(p.distance[n])


@pytest.mark.parametrize(
    "settings", [{"members_at_once": 1}, {"members_at_once": 2}, {"strategy": "sharpness"}]
)
def test_distance_does_not_depend_on_how_members_are_run(model, settings):
    image, _ = phantom.draw("rowan", size=(32, 32))
    usual = sitta.InTEnt(model)(image).distance
    torch.testing.assert_close(sitta.InTEnt(model, **settings)(image).distance, usual)


def test_other_scanners_are_further_away(model):
    own = sitta.InTEnt(model)(phantom.batch("alder", 4, seed=5)[0]).distance
    other = sitta.InTEnt(model)(phantom.batch("birch", 4, seed=5)[0]).distance
    assert other.min() > own.max()


@pytest.mark.parametrize("name", sitta.methods())
def test_every_method_tells_the_distance_unless_it_never_looked(name):
    model, images = trained(Net(), (1, 16, 16)), torch.rand(2, 1, 16, 16)
    p = sitta.method(name, model)(images)
    assert p.distance.shape == (2,)
    assert bool(p.distance.isfinite().all()) == (name != "source")


def test_a_divergence_that_overflows_is_the_largest_number():
    found = divergence(torch.tensor([1e38]), torch.ones(1), torch.zeros(1), torch.ones(1), 0.0)
    assert torch.isfinite(found)
    assert found > 1e37
    flat = divergence(torch.zeros(1), torch.zeros(1), torch.zeros(1), torch.ones(1), 1e-5)
    assert float(flat) == pytest.approx(0.5 * (1e-5 - 1 - math.log(1e-5)), rel=1e-3)


def test_change_is_one_minus_dice_between_source_and_final_mask(model):
    images, _ = phantom.batch("rowan", 4)
    p = sitta.InTEnt(model)(images)
    a, b = p.source_mask.flatten(1).float(), p.mask.flatten(1).float()
    dice = 2 * (a * b).sum(1) / (a.sum(1) + b.sum(1))
    torch.testing.assert_close(p.change, 1 - dice)
    assert p[1].change.shape == ()
    assert sitta.InTEnt(model, lambdas=[0.5, 0.0])(images).change is None
    assert float(sitta.Source(model)(images).change.max()) == 0


def test_limits_come_with_the_model(tmp_path, monkeypatch):
    monkeypatch.setenv("SITTA_ZOO", str(uncalibrated.write(tmp_path)))
    model = sitta.load("phantom-alder")
    image, _ = phantom.draw("rowan", size=(64, 64))
    model.card = {}
    usual = sitta.InTEnt(model)(image)
    assert "far-from-source" not in usual.notes
    model.card = {"trust": {"agreement": float(usual.agreement) + 1e-3, "distance": 1e-3}}
    strict = sitta.InTEnt(model)(image)
    assert {"members-disagree", "far-from-source"} <= set(strict.notes)
    model.card = {"trust": {"agreement": float(usual.agreement) - 1e-3, "distance": 1e9}}
    assert not {"members-disagree", "far-from-source"} & set(sitta.InTEnt(model)(image).notes)
    assert NOTES["far-from-source"].sentence in strict.summary()


def test_the_model_that_ships_knows_its_own_scanner(model):
    """None of its own images is flagged, and most of those of an old scanner are."""
    flags = {"members-disagree", "far-from-source"}
    found = {
        site: [flags & set(notes) for notes in sitta.InTEnt(model)(phantom.batch(site, 4)[0]).notes]
        for site in ("alder", "rowan")
    }
    assert not any(found["alder"])
    assert sum("far-from-source" in notes for notes in found["rowan"]) >= 3


def test_a_model_with_another_kind_of_card():
    net = trained(Net(), (1, 16, 16))
    net.card = "a string of the user's own"
    assert sitta.InTEnt(net)(torch.rand(1, 16, 16)).notes is not None
