"""What a twin saves must not show in any number, nor in what it was given."""

import copy
import sys

import pytest
import torch
from torch import nn

import sitta
from sitta.core.accel.optimizer import Optimizer
from sitta.core.moments import affine_rows, is_channels_last, moments
from sitta.core.twin import Twin
from tests import ROOT, slow
from tests.nets import assert_untouched, case, snapshot, trained

LAMBDAS = [1, 0.8, 0.6, 0.4, 0.2, 0]
sys.path.insert(0, str(ROOT / "benchmarks"))


def assert_members(net, images):
    """Members of one pass equal those of passes by themselves, by the slow reference."""
    before = snapshot(net)
    p = sitta.InTEnt(net)(images)
    assert_untouched(net, before)
    for n in range(len(images)):
        expected = slow.member_logits(net, images[n], LAMBDAS, "biased").sigmoid()
        torch.testing.assert_close(p.members[:, n], expected, rtol=0, atol=1e-5)
    return p


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_moments_with_channels_last_are_stable(offset):
    x = (torch.randn(2, 3, 64, 64) * 0.01 + offset).to(memory_format=torch.channels_last)
    assert is_channels_last(x)
    mean, var = moments(x)
    torch.testing.assert_close(var, x.double().var((2, 3), correction=0).float(), rtol=1e-5, atol=0)
    torch.testing.assert_close(mean, x.double().mean((2, 3)).float(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("over", [True, False])
def test_affine_rows_into_memory(layout, over):
    x = torch.randn(2, 3, 4, 5).to(memory_format=layout)
    scale, shift = torch.randn(2, 3), torch.randn(2, 3)
    expected = x * scale[..., None, None] + shift[..., None, None]
    out = x if over else torch.empty_like(x)
    found = affine_rows(x, scale, shift, out)
    assert found.data_ptr() == out.data_ptr()
    torch.testing.assert_close(found, expected)
    assert is_channels_last(affine_rows(out, scale, shift)) == (layout is torch.channels_last)


class Branches(nn.Module):
    """Calls layers of an ``nn.Sequential`` one by one, and keeps what each returns."""

    def __init__(self):
        super().__init__()
        self.body, self.again = (
            nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.SiLU())
            for _ in range(2)
        )
        self.more, self.most = (
            nn.Sequential(nn.BatchNorm2d(4), nn.Dropout(0.5), nn.ReLU(), nn.Conv2d(4, 4, 1))
            for _ in range(2)
        )
        self.head = nn.Conv2d(4, 1, 1)

    def forward(self, x):
        a = self.body[0](x)
        b = self.body[1](a)
        c = self.body[2](b)
        d = self.more(c)
        return self.head(a + b + c + d + self.most(d) + self.again(x))


def test_what_the_model_keeps_is_not_written_over():
    net = trained(Branches(), (1, 8, 8))
    assert_members(net, torch.rand(2, 1, 8, 8))


def test_a_hook_sees_what_it_would_see():
    net, images = case()
    kept = []
    for layer in net.modules():
        if isinstance(layer, (nn.BatchNorm2d, nn.Conv2d)):
            layer.register_forward_hook(lambda _m, i, o: kept.append((i[0], o, o.clone())))
    sitta.InTEnt(net)(images)
    assert len(kept) == 7
    assert all(len(i) == 18 and torch.equal(o, was) for i, o, was in kept)


class Stem(nn.Module):
    """Layers before the first BatchNorm, in the ways that models have of calling them."""

    def __init__(self, way):
        super().__init__()
        self.way, self.rows = way, []
        self.first, self.second = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.act, self.norm, self.head = nn.SiLU(), nn.BatchNorm2d(3), nn.Conv2d(3, 1, 1)
        self.over = nn.ReLU(inplace=True)
        self.side = nn.Conv2d(1, 3, 1)

    def forward(self, x):
        if self.way == "changed":
            x *= 2
            x[::2] += 0.1  # rows of even number: no longer the same
        y = self.first(x)
        if self.way == "in place":
            y.mul_(1.5)[1:].add_(0.2)
        z = self.over(y) if self.way == "over" else self.act(y)
        return self.head(self.norm(self.second(z) + y) + self.side(x))


@pytest.mark.parametrize("way", ["plain", "over"])
def test_layers_before_the_first_norm(way):
    net = trained(Stem(way), (1, 8, 8))
    assert_members(net, torch.rand(2, 1, 8, 8))


def test_layers_before_the_first_norm_see_an_image_once(monkeypatch):
    net, seen = trained(Stem("plain"), (1, 8, 8)), []
    real = nn.Conv2d._conv_forward

    def counted(self, x, *args):
        seen.append(len(x))
        return real(self, x, *args)

    monkeypatch.setattr(nn.Conv2d, "_conv_forward", counted)
    sitta.InTEnt(net)(torch.rand(2, 1, 8, 8))
    assert seen == [2, 2, 2, 12]  # first, second and side for the images, head for all members


@pytest.mark.parametrize("way", ["changed", "in place"])
def test_rows_that_the_model_has_changed_are_not_taken_for_the_same(way):
    net = trained(Stem(way), (1, 8, 8))
    image, lambdas = torch.rand(1, 1, 8, 8), torch.tensor([0.0, 1.0])
    with torch.no_grad():
        found = Twin(net).run(image, lambdas, pool="own", same_rows=True)
        rows = Twin(net).run(image.repeat(2, 1, 1, 1), lambdas, pool="own")
    torch.testing.assert_close(found, rows)
    assert not torch.allclose(found[0], found[1])


class Views(nn.Module):
    """Views a map as if it were contiguous, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(1, 4, 3), nn.BatchNorm1d(4), nn.Conv2d(4, 1, 1)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        y = self.conv(x)
        rows = self.norm(y.view(len(y), 4, -1).view(len(y), -1).view(len(y), 4, -1))
        return self.head(rows.view_as(y)) * self.calls


@pytest.mark.parametrize("at_once", [None, 4])
def test_a_model_that_needs_contiguous_maps_gets_them(at_once):
    net = trained(Views(), (1, 8, 8))
    net.calls.zero_()
    adapt, image = sitta.InTEnt(net, members_at_once=at_once), torch.rand(1, 8, 8)
    first, second = adapt(image), adapt(image)
    assert torch.equal(first.members, second.members)
    with torch.no_grad():
        expected = copy.deepcopy(net)(image[None])[0].sigmoid()
    torch.testing.assert_close(first.members[0], expected)
    assert first.distance.isfinite()


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_maps_are_given_back_contiguous_and_fit_for_gradients(layout):
    net, images = case(outputs=4)
    p = sitta.InTEnt(net)(images.to(memory_format=layout))
    assert p.members.is_contiguous()
    assert not p.probability.is_inference()
    weight = torch.ones(1, requires_grad=True)
    (p.probability * weight).sum().backward()
    assert weight.grad > 0


def test_optimisation_leaves_the_training_path_alone():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 1, 1)).double()
    plain = copy.deepcopy(net)
    Optimizer(net)
    x = torch.rand(1, 1, 6, 6, dtype=torch.float64)
    grads = [torch.autograd.grad(n(x).square().sum(), n.parameters()) for n in (net, plain)]
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_the_published_procedure_is_what_it_is_timed_as():
    from published import Published  # benchmarks/

    net, images = case(images=1)
    maps, rises = Published(net, tuple(LAMBDAS))(images[0])
    ours = sitta.InTEnt(net, strategy="sharpness", variance="unbiased")(images[0])
    torch.testing.assert_close(ours.members, maps, rtol=0, atol=1e-5)
    torch.testing.assert_close(ours.entropies, rises, rtol=1e-3, atol=1e-5)
