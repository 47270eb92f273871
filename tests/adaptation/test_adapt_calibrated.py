"""Adapt on networks without running statistics: a calibration has them; lambda 0 is the anchor."""

import copy
import json

import numpy as np
import pytest
import torch
from torch import nn

import sitta
from sitta.adaptation.sliding_window import windowed
from sitta.calibration import calibrate as module
from sitta.core.calibrated_statistics import NEAR, SHORT_GRID, measure_statistics
from sitta.prediction.calibration import Calibration, ClassCalibration
from tests.adaptation.test_adapt import entropy_by_hand, mild_or_sharp
from tests.core.test_calibrated_statistics import NORMS, made, sitta_dice
from tests.nets import assert_untouched, case, snapshot


def calibration(net, domain, adapts=True, shift=0.0):
    """Statistics of in-domain images, and one class that gains or does not."""
    measured = measure_statistics(net, domain).items()
    statistics = {name: (m.numpy() + shift, v.numpy()) for name, (m, v) in measured}
    classes = (ClassCalibration("organ", adapts, 0.01),)
    return Calibration(4, 4, True, "0" * 16, classes, statistics=statistics)


@torch.no_grad()
@pytest.mark.parametrize("kind", NORMS)
def test_weights_are_those_worked_out_by_hand(kind):
    net, images, domain = made(kind)
    before = snapshot(net)
    p = sitta.Adapt(net, calibration=calibration(net, domain))(images)
    assert_untouched(net, before)
    assert tuple(p.lambdas.tolist()) == SHORT_GRID == (0.0, 0.2, 0.4)
    assert p.source_member == 0
    torch.testing.assert_close(p.members[0], net(images).sigmoid())
    torch.testing.assert_close(p.source_mask, (net(images)[:, 0] > 0) * 1)
    mixed = sitta.InTEnt(net, source_statistics=measure_statistics(net, domain))(images).members
    torch.testing.assert_close(p.members, mixed, rtol=0, atol=1e-5)
    assert not torch.allclose(p.members[0], p.members[2], atol=1e-4)
    for n in range(len(images)):
        log, entropies, near = np.full(3, -np.inf), np.ones(3), np.zeros(3, bool)
        for k, member in enumerate(p.members[:, n, 0].numpy()):
            masks = p.member_masks[k, n][None], p.member_masks[0, n][None]
            alike = 2 * (masks[0] * masks[1]).sum() / max(1, (masks[0] + masks[1]).sum())
            empty = not masks[0].any() and not masks[1].any()
            near[k] = empty or float(alike) >= NEAR
            entropies[k] = entropy_by_hand(member) if (member > 0.5).any() else 1.0
        finds = np.array([bool(p.member_masks[k, n].any()) for k in range(3)])
        log[near] = mild_or_sharp(entropies[near], ~finds[near])
        log += np.log([0.5, 0.25, 0.25])
        expected = np.exp(log - log.max())
        torch.testing.assert_close(
            p.weights[:, n].double(), torch.from_numpy(expected / expected.sum()), rtol=0, atol=2e-3
        )


def test_change_and_rows_are_from_the_model_as_trained():
    net, images, domain = made("instance 2d")
    p = sitta.Adapt(net, calibration=calibration(net, domain))(images)
    own = (net(images)[:, 0] > 0) * 1
    torch.testing.assert_close(p.change, (1 - sitta_dice(p.mask, own)).to(p.change))
    assert p.record.rows()[0]["area_source"] == pytest.approx(float(own[0].float().mean()))


def test_a_member_far_from_the_model_as_trained_does_not_count():
    net, images, domain = made("instance 2d")
    p = sitta.Adapt(net, calibration=calibration(net, domain, shift=50.0))(images)
    for n in range(len(images)):
        for k in range(3):
            masks = p.member_masks[k, n][None], p.member_masks[0, n][None]
            assert float(p.weights[k, n]) == 0 or float(sitta_dice(*masks)) >= NEAR
    assert (p.weights[1:] == 0).any()


def test_a_class_that_does_not_gain_stays_as_trained():
    net, images, domain = made("group 2d")
    left = sitta.Adapt(net, calibration=calibration(net, domain, adapts=False))
    p = left(images)
    torch.testing.assert_close(p.probability, net(images).sigmoid())
    assert all("left-as-trained" in notes for notes in p.notes)
    assert p.record.ran.tolist() == [[True] * 3, [False] * 3, [False] * 3]
    whole = windowed(left, (8, 8))(images)
    assert torch.equal(whole.weights[0], torch.ones(3))


@pytest.mark.parametrize("kind", ["instance 2d", "group 3d"])
def test_a_window_as_large_as_the_image_changes_nothing(kind):
    net, images, domain = made(kind)
    adapt = sitta.Adapt(net, calibration=calibration(net, domain))
    whole = windowed(adapt, images.shape[2:])(images)
    torch.testing.assert_close(whole.members, adapt(images).members)
    sides = [n - 2 for n in images.shape[2:]]
    parts = windowed(adapt, sides, overlap=0.5)(images)
    assert parts.lambdas.tolist() == list(SHORT_GRID)
    assert parts.source_member == 0


def test_every_spelling_is_the_same():
    net, images, domain = made("instance 2d")
    held = calibration(net, domain)
    plain = sitta.Adapt(net, calibration=held)(images).probability
    again = Calibration.from_dict(json.loads(json.dumps(held.as_dict())))
    carrying = copy.deepcopy(net)
    carrying.card = {"calibration": held.as_dict()}
    for adapt in (
        sitta.Adapt(net, profile=held),
        sitta.Adapt(net, calibration=held.as_dict()),
        sitta.method("adapt", net, calibration=again),
        sitta.Adapt(carrying),
        copy.deepcopy(sitta.Adapt(net, calibration=held)),
    ):
        torch.testing.assert_close(adapt(images).probability, plain, rtol=0, atol=2e-3)
    with pytest.raises(sitta.InvalidSetting, match="say the same"):
        sitta.Adapt(net, calibration=held, profile=held)


def test_it_is_asked_for_where_it_is_missing_and_refused_where_it_is_of_another_model():
    net, _, domain = made("group 2d")
    with pytest.raises(sitta.UnsupportedModel, match=r"sitta calibrate, or sitta.Adapt\(model, c"):
        sitta.Adapt(net)
    other, *_ = made("instance 3d")
    other = nn.Sequential(other)
    with pytest.raises(sitta.InvalidSetting, match="layers that this model does not have"):
        sitta.Adapt(other, calibration=calibration(net, domain))
    with_batch, images = case()
    held = calibration(net, domain)
    p = sitta.Adapt(with_batch, calibration=held)(images)  # it has statistics of its own
    assert p.lambdas[0] == 1


def test_layer_norm_is_refused_with_the_reason():
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.LayerNorm(8), nn.Conv2d(4, 1, 1))
    for kind in (sitta.InTEnt, sitta.Adapt):
        with pytest.raises(sitta.UnsupportedModel, match="LayerNorm, its statistics are those of"):
            kind(net)
    assert "one position" in sitta.inspect(net).problems["adapt"]
    with pytest.raises(sitta.UnsupportedModel, match="nothing to measure"):
        measure_statistics(net, torch.rand(2, 1, 8, 8))


def test_inspect_says_what_can_be_measured():
    net, _, domain = made("group 2d")
    told = sitta.inspect(net)
    assert "adapt" not in told.applies
    assert any("sitta calibrate measures" in hint for hint in told.hints)
    assert "hint: Experimental: 3 layers" in str(told)
    net.card = {"calibration": calibration(net, domain).as_dict()}
    assert "adapt" in sitta.inspect(net).applies
    assert sitta.inspect(case()[0]).hints == ()


@pytest.mark.parametrize("kind", ["instance 2d", "group 2d"])
def test_calibrate_gates_it(kind, monkeypatch):
    monkeypatch.setattr(module, "PER_IMAGE", (2, 2))
    net, images, domain = made(kind)
    held = sitta.calibrate(net, domain, (net(domain)[:, 0] > 0.1) * 1)
    assert set(held.statistics) == set(measure_statistics(net, domain))
    assert set(held.members["none"]) >= {"adapt", "member 0"}
    (organ,) = held.classes
    looks = held.members
    gain = np.mean([looks[k]["adapt"] - looks[k]["member 0"] for k in looks if k != "none"])
    assert organ.adapts in (True, False)
    assert not organ.adapts or gain > -0.05
    p = sitta.Adapt(net, calibration=held)(images)
    if not organ.adapts:
        torch.testing.assert_close(p.probability, net(images).sigmoid())
    assert p.record.expected_dice is None or len(p.record.expected_dice[0]) == 3
