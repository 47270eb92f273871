"""Adapt against its formula worked out by hand, and what it promises."""

import dataclasses

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import sitta
from sitta.core.prior import ShapePrior
from sitta.prediction.calibration import Calibration, ClassCalibration
from tests.contract import MethodContract
from tests.nets import Net, case, trained

MEMBERS = [(1.0, 0), (0.8, 0), (0.6, 0), (0.4, 0), (0.2, 0), (0.0, 0), (0.0, 1)]  # lambda, depth
NAMES = ("1.00", "0.80", "0.60", "0.40", "0.20", "0.00", "split")


class TestAdapt(MethodContract):
    name = "adapt"


class TestAdaptInFull(MethodContract):
    name = "adapt"
    settings = {"budget": "full"}  # noqa: RUF012


def calibration(*classes, **more):
    """A calibration whose classes are given as (adapts, prior)."""
    made = tuple(
        ClassCalibration(f"class {n}", adapts, 0.01, prior)
        for n, (adapts, prior) in enumerate(classes)
    )
    return Calibration(12, 12, True, "0" * 16, made, **more)


def prior(dims=2):
    """Discs of several sizes, or balls."""
    side = {2: 24, 3: 12}[dims]
    axes = np.meshgrid(*[np.arange(side) + 0.5 - side / 2] * dims, indexing="ij")
    far = np.sqrt(sum(a**2 for a in axes))
    masks = np.stack([far < r * side for r in (0.2, 0.25, 0.3, 0.35)])
    return ShapePrior.fit(masks, masks)


def logits_by_hand(net, image, lam, depth):
    """Logits of one member for one image, every normalisation written out."""
    layers = iter(range(9))

    def normalised(x, norm):
        own = 1.0 if next(layers) < depth else lam
        axes = [0, *range(2, x.dim())]
        mean = own * norm.running_mean + (1 - own) * x.mean(axes)
        var = own * norm.running_var + (1 - own) * x.var(axes, correction=0)
        shape = [1, -1] + [1] * (x.dim() - 2)
        y = (x - mean.view(shape)) / (var.view(shape) + norm.eps).sqrt()
        return y * norm.weight.view(shape) + norm.bias.view(shape)

    with torch.no_grad():
        high = F.silu(normalised(net.enter[0](image[None]), net.enter[1]))
        low = F.relu(normalised(net.deep[0](high), net.deep[1]))
        both = torch.cat([high, F.interpolate(low, scale_factor=2)], dim=1)
        return 3 * net.head(F.silu(normalised(net.leave[0](both), net.leave[1])))[0]


def entropy_by_hand(p):
    """Balanced entropy of one foreground map: mean over both sides of their mean entropy."""
    p = np.clip(p.ravel(), 1e-12, 1 - 1e-12)
    bits = -(p * np.log2(p) + (1 - p) * np.log2(1 - p))
    return np.mean([bits[side].mean() for side in (p > 0.5, p <= 0.5) if side.any()])


def mild_or_sharp(entropies, empty):
    """Logarithms of weights: the power, or those of InTEnt where entropies hardly differ."""
    logs = np.log(np.maximum(entropies, 1e-6))
    finding = logs[~empty] if not all(empty) else logs[:1]
    sharp = min(1.0, (finding.max() - finding.min()) / 0.25)
    low, high = min(entropies), max(entropies)
    mild = (np.array(entropies) - low) / max(high - low, 1e-6)
    return -20 * sharp * logs - (1 - sharp) * mild


def anchor_by_hand(one, other):
    """Prior weight of the model as trained when nothing is known: more, the more the ends agree."""
    total = one.sum() + other.sum()
    dice = 2 * (one & other).sum() / total if total else 1.0
    return 1 / 7 + (0.5 - 1 / 7) * min(max((dice - 0.5) / 0.4, 0), 1)


def by_hand(net, image, softmax=False, known=(), ran=range(7)):
    """Weights ``(K, F)`` and the map, in NumPy, of the members that ran."""
    maps = []
    for lam, depth in [MEMBERS[k] for k in ran]:
        z = logits_by_hand(net, image, lam, depth)
        maps.append((z.softmax(0) if softmax else z.sigmoid()).numpy())
    maps = np.stack(maps)  # (K, C, *S)
    best = maps.argmax(axis=1)
    classes = range(1, maps.shape[1]) if softmax else range(maps.shape[1])
    weights = []
    for n, c in enumerate(classes):
        masks = best == c if softmax else maps[:, c] > 0.5
        empty = ~masks.reshape(len(maps), -1).any(axis=1)
        entropies = [
            1.0 if empty[k] else entropy_by_hand(member[c]) for k, member in enumerate(maps)
        ]
        anchor = 0.5 if known else anchor_by_hand(masks[0], masks[list(ran).index(5)])
        log = []
        for k, member in enumerate(maps):
            term = mild_or_sharp(entropies, empty)[k]
            term += np.log(anchor if k == 0 else (1 - anchor) / 6)
            if known:
                if known[n][1] is not None:
                    shape = known[n][1].plausibility(member[c][None])[0]
                    term -= 20 * np.log(1 - shape + 0.02)
                if not known[n][0] and k:
                    term = -np.inf
            log.append(term)
        w = np.exp(np.array(log) - max(log))
        weights.append(w / w.sum())
    weights = np.stack(weights, axis=1)
    each = np.concatenate([weights.mean(axis=1, keepdims=True), weights], 1) if softmax else weights
    whole = np.einsum("kc...,kc->c...", maps, each)
    return weights, whole / whole.sum(axis=0) if softmax else whole


CASES = [(2, 1, False), (2, 4, True), (2, 3, False), (3, 1, False), (3, 3, True)]


@pytest.mark.parametrize(("dims", "outputs", "softmax"), CASES)
@pytest.mark.parametrize("knows", ["nothing", "gates", "shapes"])
def test_the_formula_worked_out_by_hand(dims, outputs, softmax, knows):
    net, images = case(dims, outputs, torch.float64)
    count = outputs - softmax
    shape = prior(dims) if knows == "shapes" else None
    known = [(n != 1, shape) for n in range(count)]  # the second class is left as trained
    settings = {} if knows == "nothing" else {"profile": calibration(*known)}
    activation = "softmax" if softmax else "sigmoid"
    p = sitta.Adapt(net, budget="full", activation=activation, **settings)(images)
    for n, image in enumerate(images):
        weights, whole = by_hand(net, image, softmax, known if knows != "nothing" else ())
        np.testing.assert_allclose(p.weights[:, n].numpy(), weights.mean(axis=1), atol=2e-5)
        np.testing.assert_allclose(p.probability[n].numpy(), whole, atol=2e-5)


def test_members_are_named_and_listed_from_source_to_image():
    net, images = case()
    p = sitta.Adapt(net, budget="full")(images)
    assert p.record.names == NAMES
    assert p.lambdas.tolist() == [1.0, 0.8, 0.6, 0.4, 0.2, 0.0, 1 / 3]
    assert p.source_member == 0
    with torch.no_grad():
        torch.testing.assert_close(p.members[0], net(images).sigmoid())


@pytest.mark.parametrize("outputs", [1, 4])
def test_members_at_once_do_not_matter(outputs):
    net, images = case(outputs=outputs)
    whole = sitta.Adapt(net, budget="full")(images)
    for size in (1, 2, 3):
        p = sitta.Adapt(net, budget="full", members_at_once=size)(images)
        torch.testing.assert_close(p.members, whole.members, atol=1e-6, rtol=0)
        torch.testing.assert_close(p.weights, whole.weights, atol=1e-4, rtol=0)


def test_the_adaptive_budget_keeps_the_ends_where_they_agree():
    """Its weights are those of the formula on the two members alone."""
    net, images = case(dtype=torch.float64)
    for norm in (m for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d)):
        norm.momentum = 1.0
    with torch.no_grad():
        net.train().deep[3].eval()  # without dropout
        net(images[:1])  # the first image is as in training
    net.eval()
    full = sitta.Adapt(net, budget="full")(images)
    p = sitta.Adapt(net)(images)
    agree = ["two-members-agree" in codes for codes in p.notes]
    assert any(agree)
    assert not all(agree)
    for n, two in enumerate(agree):
        one, other = full.member_masks[0, n], full.member_masks[5, n]
        dice = 2 * (one & other).sum() / (one.sum() + other.sum()).clamp(min=1)
        assert two == (dice >= 0.9), dice
        expected = full.weights[:, n].clone()
        if two:
            expected.zero_()
            expected[[0, 5]] = torch.from_numpy(by_hand(net, images[n], ran=(0, 5))[0][:, 0])
        torch.testing.assert_close(p.weights[:, n], expected, atol=2e-5, rtol=0)
        assert p.record.ran[:, n].tolist() == ([True, *[not two] * 4, True, not two])


def test_members_that_did_not_run_do_not_show():
    net, images = case()
    p = sitta.Adapt(net, profile=calibration((False, None)))(images)
    record = p.record
    assert record.ran.sum(axis=0).tolist() == [2, 2, 2]
    assert np.isnan(record.areas[1:5]).all()
    assert "member-overflow" not in p.notes[0]
    ends = record.member_masks[[0, 5]]
    total = ends.sum(axis=(0, 2, 3))
    both = ends.all(axis=0).sum(axis=(1, 2))
    np.testing.assert_allclose(p.agreement, 2 * both / np.maximum(total, 1), atol=1e-6)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("budget", ["adaptive", "full"])
def test_a_closed_gate_leaves_the_model_as_trained(outputs, budget):
    net, images = case(outputs=outputs)
    shut = calibration(*[(False, None)] * max(1, outputs - 1))
    p = sitta.Adapt(net, budget=budget, profile=shut)(images)
    assert torch.equal(p.probability, p.members[0])
    trained_alone = sitta.Source(net)(images)
    assert torch.equal(p.mask, trained_alone.mask)
    torch.testing.assert_close(p.probability, trained_alone.probability, atol=1e-6, rtol=0)
    assert all("left-as-trained" in codes for codes in p.notes)
    assert not p.record.change.any()


def test_a_member_that_finds_nothing_comes_last():
    """Whatever its entropy, it counts as one that knows nothing."""
    net, images = case(dtype=torch.float64)
    with torch.no_grad():
        p = sitta.Adapt(net, budget="full")(images)
        for member in range(7):  # a bias between the largest logit of a member and of the others
            top = torch.logit(p.members.flatten(3)[:, 0, 0].amax(dim=1).clamp(1e-9, 1 - 1e-9))
            level = top[member] + 1e-6
            if (top > level).any():
                break
        net.head.bias -= level / 3
    shifted = sitta.Adapt(net, budget="full")(images[:1])
    empty = ~shifted.member_masks.flatten(1).any(dim=1)
    assert empty.any()
    assert not empty.all()
    assert (shifted.entropies[empty] == 1).all()
    assert shifted.entropies[~empty].max() < 1
    assert shifted.weights[empty].max() < shifted.weights[~empty].min()


def test_all_members_empty_give_an_empty_mask_and_the_prior_weights():
    net, images = case()
    with torch.no_grad():
        net.head.bias -= 50
    p = sitta.Adapt(net, budget="full")(images)
    assert not p.mask.any()
    expected = torch.tensor([0.5, *[0.5 / 6] * 6])  # the ends agree: nothing speaks for a shift
    torch.testing.assert_close(p.weights, expected[:, None].expand(7, 3))
    assert all("no-foreground" in codes for codes in p.notes)


class Overflow(Net):
    """Gives what is not finite when its deepest activations are large."""

    def forward(self, x):
        out = super().forward(x)
        bad = out.flatten(1).abs().amax(dim=1) > self.limit
        return torch.where(bad.view(-1, 1, 1, 1), torch.inf, out)


def test_members_that_are_not_finite_do_not_count():
    torch.manual_seed(0)
    net = trained(_with(Overflow(), limit=1e9), (1, 12, 12)).double()
    images = torch.rand(4, 1, 12, 12, dtype=torch.float64) * 3
    with torch.no_grad():
        raw = sitta.Adapt(net, budget="full")(images).members.logit()
    tops = raw.flatten(2).abs().amax(dim=2)  # (K, N)
    net.limit = float(tops.flatten().median())
    p = sitta.Adapt(net)(images)
    lost = ~p.record.usable & p.record.ran
    assert lost.any()
    assert p.probability.isfinite().all()
    assert p.members.isfinite().all()
    assert not p.weights.numpy()[lost].any()
    torch.testing.assert_close(p.weights.sum(dim=0), torch.ones(4, dtype=torch.float64))
    for n in range(4):
        assert ("member-overflow" in p.notes[n]) == lost[:, n].any()


def _with(net, **more):
    for name, value in more.items():
        setattr(net, name, value)
    return net


def test_half_precision_comes_close():
    net, images = case()
    whole = sitta.Adapt(net, budget="full")(images)
    short = sitta.Adapt(net.to(torch.bfloat16), budget="full")(images.to(torch.bfloat16))
    assert short.probability.isfinite().all()
    assert (short.members - whole.members).abs().mean() < 0.02


def test_weights_are_of_each_class_by_itself():
    """Closing the gate of one label moves its map alone."""
    net, images = case(outputs=2)
    how = {"activation": "sigmoid", "budget": "full"}
    both = sitta.Adapt(net, profile=calibration((True, None), (True, None)), **how)(images)
    one = sitta.Adapt(net, profile=calibration((True, None), (False, None)), **how)(images)
    assert torch.equal(one.probability[:, 0], both.probability[:, 0])
    assert torch.equal(one.probability[:, 1], one.members[0, :, 1])
    assert not torch.equal(one.probability[:, 1], both.probability[:, 1])


def test_what_the_model_brings_along_is_used():
    net, images = case()
    net.card = {"calibration": calibration((False, None)).as_dict()}
    assert "left-as-trained" in sitta.Adapt(net)(images).notes[0]
    open_again = sitta.Adapt(net, profile=calibration((True, None)))
    assert "left-as-trained" not in open_again(images).notes[0]


def test_cost_is_that_of_all_members():
    net, _ = case()
    assert sitta.Adapt(net).cost.forward == len(MEMBERS)


def test_a_model_without_running_statistics_is_refused():
    net = Net(norm=lambda c: torch.nn.GroupNorm(2, c))
    with pytest.raises(sitta.UnsupportedModel, match="no BatchNorm"):
        sitta.Adapt(net)


def test_settings_travel_with_a_copy():
    net, _ = case()
    adapt = sitta.Adapt(net, budget="full", profile=calibration((True, prior())))
    fields = {f.name: getattr(adapt, f.name) for f in dataclasses.fields(adapt) if f.init}
    assert sitta.Adapt(**{**fields, "model": net}).budget == "full"
