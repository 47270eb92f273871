"""Networks without running statistics: measured ones are mixed in; lambda 0 is the anchor."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import sitta
from sitta.core.calibrated_statistics import (
    SHORT_GRID,
    calibrated_layers,
    checked_statistics,
    measure_statistics,
    near,
)
from sitta.errors import InvalidSetting, UnsupportedModel
from tests.nets import Net, assert_untouched, case, snapshot

LAMBDAS = (0.0, 0.3, 1.0)


def instance(dims, affine):
    kind = {2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}[dims]
    return lambda channels: kind(channels, affine=affine, eps=1e-4)


def group(channels):
    return nn.GroupNorm(2, channels)


NORMS = {
    "instance 2d": (2, instance(2, True)),
    "instance 2d, plain": (2, instance(2, False)),
    "instance 3d": (3, instance(3, True)),
    "group 2d": (2, group),
    "group 3d": (3, group),
}


def made(kind, outputs=1):
    dims, norm = NORMS[kind]
    torch.manual_seed(1)
    net = Net(dims, outputs=outputs, norm=norm)
    with torch.no_grad():
        for p in net.parameters():
            if p.dim() == 1:
                p += 0.3 * torch.randn_like(p)
    side = {2: 12, 3: 6}[dims]
    return net.eval(), torch.rand(3, 1, *[side] * dims) ** 2, torch.rand(4, 1, *[side] * dims)


def groups(layer):
    return layer.num_groups if isinstance(layer, nn.GroupNorm) else layer.num_features


def own_statistics(layer, x):
    """Mean and variance of one image (1, C, *S), by its definition."""
    flat = x.double().reshape(groups(layer), -1)
    return flat.mean(dim=1), flat.var(dim=1, correction=0)


class ByHand(nn.Module):
    """A layer that normalises one image by the statistics that it is told."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.use, self.seen = layer, None, None

    def forward(self, x):
        self.seen = own_statistics(self.layer, x)
        mean, var = self.use or self.seen
        flat = x.double().reshape(groups(self.layer), -1)
        y = (flat - mean[:, None]) / (var[:, None] + self.layer.eps).sqrt()
        y = y.reshape(x.shape)
        if self.layer.weight is not None:
            shape = (1, -1, *[1] * (x.dim() - 2))
            y = y * self.layer.weight.double().view(shape) + self.layer.bias.double().view(shape)
        return y.to(x.dtype)


def by_hand(net):
    """A copy of a net with such layers, by name."""
    other, layers = copy.deepcopy(net), {}
    for name, layer in list(other.named_modules()):
        if isinstance(layer, (nn.GroupNorm, nn.InstanceNorm2d, nn.InstanceNorm3d)):
            parent, _, last = name.rpartition(".")
            layers[name] = ByHand(layer)
            setattr(other.get_submodule(parent), last, layers[name])
    return other, layers


@torch.no_grad()
def expected_logits(net, image, source, lambdas):
    """Members of one image ``(K, 1, C, *S)``: captured at lambda 0, then mixed in each layer."""
    other, layers = by_hand(net)
    other(image[None])
    captured = {name: layer.seen for name, layer in layers.items()}
    out = []
    for lam in lambdas:
        for name, layer in layers.items():
            layer.use = tuple(
                lam * s.double() + (1 - lam) * own
                for s, own in zip(source[name], captured[name], strict=True)
            )
        out.append(other(image[None]))
    return torch.stack(out)


@torch.no_grad()
@pytest.mark.parametrize("kind", NORMS)
def test_measured_statistics_are_the_mean_of_each_images_own(kind):
    net, _, domain = made(kind)
    before = snapshot(net)
    other, layers = by_hand(net)
    seen = {name: [] for name in layers}
    for image in domain:
        other(image[None])
        for name, layer in layers.items():
            seen[name].append(layer.seen)
    for given in (domain, list(domain), [domain[:1], domain[1:]]):
        measured = measure_statistics(net, given)
        assert list(measured) == list(layers) == list(calibrated_layers(net))
        for name, pair in measured.items():
            for at in (0, 1):
                mean = torch.stack([s[at] for s in seen[name]]).mean(dim=0).float()
                torch.testing.assert_close(pair[at], mean, rtol=1e-4, atol=1e-6)
    assert_untouched(net, before)


@torch.no_grad()
@pytest.mark.parametrize("accelerate", [True, False])
@pytest.mark.parametrize("kind", NORMS)
def test_members_are_those_mixed_by_hand(kind, accelerate):
    net, images, domain = made(kind)
    source = measure_statistics(net, domain)
    before = snapshot(net)
    how = {"lambdas": LAMBDAS, "source_statistics": source, "accelerate": accelerate}
    p = sitta.InTEnt(net, **how)(images)
    for n, image in enumerate(images):
        expected = expected_logits(net, image, source, LAMBDAS).sigmoid()
        torch.testing.assert_close(p.members[:, n : n + 1], expected, rtol=0, atol=2e-5)
    # The anchor is the network itself, and differs from what is at lambda 1.
    torch.testing.assert_close(p.source_mask, (net(images)[:, 0] > 0) * 1)
    torch.testing.assert_close(p.members[0], net(images).sigmoid())
    assert p.source_member == 0
    assert not torch.allclose(p.members[0], p.members[2], atol=1e-3)
    assert (p.distance > 0).all()
    assert_untouched(net, before)


@torch.no_grad()
def test_in_layer_statistics_and_parts_give_what_they_should():
    net, images, domain = made("group 2d")
    source = measure_statistics(net, domain)
    how = {"lambdas": (0.0, 0.5), "source_statistics": source}
    whole = sitta.InTEnt(net, **how)(images)
    parts = sitta.InTEnt(net, **how, members_at_once=1)(images)
    torch.testing.assert_close(whole.members, parts.members, rtol=0, atol=1e-6)
    one = sitta.InTEnt(net, **how)(images[1])
    torch.testing.assert_close(one.members, whole.members[:, 1], rtol=0, atol=1e-6)
    other = sitta.InTEnt(net, **how, statistics="in-layer")(images)
    torch.testing.assert_close(other.members[0], whole.members[0], rtol=0, atol=1e-6)
    assert not torch.allclose(other.members[1], whole.members[1], atol=1e-5)


def test_the_short_grid_is_the_default_and_change_is_from_lambda_0():
    net, images, domain = made("instance 2d")
    p = sitta.InTEnt(net, source_statistics=measure_statistics(net, domain))(images)
    assert tuple(p.lambdas.tolist()) == SHORT_GRID
    dice = sitta_dice(p.mask, (net(images)[:, 0] > 0) * 1)
    torch.testing.assert_close(p.change, (1 - dice).to(p.change))
    row = p.record.rows()[0]
    assert row["area_source"] == pytest.approx(float((net(images[:1]) > 0).float().mean()))


def sitta_dice(one, other):
    both, total = (one * other).sum((1, 2)).float(), (one + other).sum((1, 2)).float()
    return torch.where(total > 0, 2 * both / total.clamp(min=1), 1.0)


def test_a_member_far_from_the_anchor_does_not_count():
    net, images, domain = made("instance 2d")
    source = measure_statistics(net, domain)
    broken = {name: (mean + 50, var) for name, (mean, var) in source.items()}
    p = sitta.InTEnt(net, source_statistics=broken)(images)
    masks = p.member_masks
    for n in range(len(images)):
        for k in range(3):
            close = float(sitta_dice(masks[k, n][None], masks[0, n][None])) >= 0.7
            assert (float(p.weights[k, n]) > 0) == close
    assert (p.weights[1:] == 0).any()
    assert all("member-overflow" not in notes for notes in p.notes)


@pytest.mark.parametrize("classes", [1, 3])
def test_nearness_is_the_mean_dice_of_the_classes(classes):
    activation = "sigmoid" if classes == 1 else "softmax"
    logits = torch.full((3, 1, classes, 10), -4.0)
    if classes == 3:
        logits[:, :, 0] = 0.0
    logits[0, 0, -1, :6] = logits[1, 0, -1, :5] = logits[2, 0, -1, 5:] = 4.0
    # Against the anchor's six pixels: five of them, and one of five.
    assert near(logits, activation, 0)[:, 0].tolist() == [True, True, False]
    assert near(torch.full((2, 1, 1, 9), -1.0), "sigmoid", 0).all()


def test_without_statistics_nothing_changes():
    net, images, _ = made("group 2d")
    torch.testing.assert_close(sitta.Source(net)(images).probability, net(images).sigmoid())
    with pytest.raises(UnsupportedModel, match=r"no BatchNorm.*for source_statistics"):
        sitta.InTEnt(net)


def test_what_cannot_be_is_said():
    net, _, domain = made("group 2d")
    source = measure_statistics(net, domain)
    with_batch, _ = case()
    with pytest.raises(InvalidSetting, match="keeps running statistics"):
        sitta.InTEnt(with_batch, source_statistics=source)
    with pytest.raises(UnsupportedModel, match="nothing to measure"):
        measure_statistics(with_batch, domain)
    with pytest.raises(UnsupportedModel, match="nothing to measure"):
        measure_statistics(nn.Sequential(nn.Conv2d(1, 4, 3), nn.LayerNorm(10)), domain)
    with pytest.raises(InvalidSetting, match="does not have"):
        checked_statistics(net, {**source, "other": next(iter(source.values()))})
    name = next(iter(source))
    for mean, var in (
        (torch.zeros(5), torch.ones(2)),
        (torch.zeros(2), -torch.ones(2)),
        (torch.full((2,), np.nan), torch.ones(2)),
    ):
        with pytest.raises(InvalidSetting, match="cannot be used"):
            checked_statistics(net, {name: (mean, var)})
    with pytest.raises(InvalidSetting, match="Tent cannot mix"):
        sitta.Tent(net, source_statistics=source)
    with pytest.raises(InvalidSetting, match="no source_statistics"):
        sitta.export_onnx(net, "out.onnx", source_statistics=source)


def test_copies_keep_them():
    net, images, domain = made("group 2d")
    adapt = sitta.InTEnt(net, source_statistics=measure_statistics(net, domain))
    twice = copy.deepcopy(adapt)
    assert torch.equal(twice(images).probability, adapt(images).probability)


def test_a_batch_norm_model_keeps_its_anchor_and_loses_it_where_it_is_not_finite():
    net, images = case()
    p = sitta.InTEnt(net, lambdas=(0.0, 1.0))(images)
    assert p.source_member == 1
    assert sitta.InTEnt(net, lambdas=(0.0, 0.5))(images).source_member is None
    assert sitta.Tent(net, lam=1.0)(images).source_member is None
    assert p.record.with_members(np.array([1])).anchor == 0
    assert p.record.with_members(np.array([0])).anchor is None
