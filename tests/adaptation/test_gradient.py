"""Gradient methods in odd situations, their losses, and what every method claims to cost."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import sitta
from sitta.adaptation.fseg import nuclear_norm
from sitta.adaptation.gradient import Episode, affine_parameters
from sitta.adaptation.memo import marginal_entropy
from sitta.adaptation.tent import entropy_loss, half_entropy_loss
from tests.nets import Net, case, trained

GRADIENT = {"tent": {}, "sar": {}, "fseg": {}, "memo": {"views": 3}}


class Counter(torch.autograd.Function):
    """Passes on, and counts the rows that come by."""

    rows = {"forward": 0, "backward": 0}  # noqa: RUF012  (shared by all copies of a model)

    @staticmethod
    def forward(ctx, x):
        Counter.rows["forward"] += len(x)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        Counter.rows["backward"] += len(grad)
        return grad


class Counting(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return Counter.apply(self.net(x))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("source", {}),
        ("source", {"lam": 0.0}),
        ("source", {"lam": 0.5}),
        ("source", {"lam": 0.5, "statistics": "in-layer"}),
        ("source", {"lam": 0.0, "variance": "unbiased"}),
        ("intent", {}),
        ("intent", {"step": 0.1, "members_at_once": 3}),
        ("intent", {"variance": "unbiased"}),
        ("intent", {"lambdas": [0.5, 0.3]}),
        ("intent", {"lambdas": [1.0]}),
        ("intent", {"statistics": "in-layer"}),
        ("intent", {"strategy": "sharpness"}),
        ("intent", {"strategy": "sharpness", "statistics": "in-layer"}),
        ("tent", {}),
        ("tent", {"steps": 10}),
        ("sar", {"margin": 2.0}),
        ("sar", {"margin": 2.0, "steps": 3}),
        ("sar", {"margin": 2.0, "layers": "shallow"}),
        ("fseg", {}),
        ("sita", {}),
        ("sita", {"op": "vote", "views": 3}),
        ("memo", {"views": 5}),
        ("memo", {"views": 2, "steps": 3}),
    ],
)
@pytest.mark.parametrize("images", [1, 2])
def test_cost_is_what_a_model_sees(name, settings, images):
    net, batch = case(images=images)
    adapt = sitta.method(name, Counting(net), **settings)
    Counter.rows.update(forward=0, backward=0)
    adapt(batch)
    claimed = {"forward": images * adapt.cost.forward, "backward": images * adapt.cost.backward}
    assert Counter.rows == claimed


def test_no_reliable_pixel_returns_the_lambda_prediction():
    net, images = case()
    p = sitta.SAR(net, 0.3, margin=1e-9)(images)
    expected = sitta.Source(net, 0.3, statistics="in-layer")(images)
    torch.testing.assert_close(p.probability, expected.probability)
    assert all("no-reliable-pixel" in codes for codes in p.notes)


@pytest.mark.parametrize("name", GRADIENT)
def test_a_gradient_of_zero_returns_the_lambda_prediction(name):
    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(1)

        def forward(self, x):
            return self.norm(x) * 0 - 60.0  # saturated: the mask is background, beyond doubt

    p = sitta.method(name, Flat().eval(), **GRADIENT[name])(torch.rand(1, 12, 12))
    assert p.probability.isfinite().all()
    assert (p.mask == 0).all()
    assert "zero-gradient" in p.notes
    assert "no-foreground" in p.notes


@pytest.mark.parametrize("name", GRADIENT)
def test_a_saturated_mask_gives_no_nan(name):
    net, images = case()
    with torch.no_grad():
        net.head.bias.fill_(1e4)
    p = sitta.method(name, net, **GRADIENT[name])(images)
    assert p.probability.isfinite().all()
    assert (p.mask == 1).all()


@pytest.mark.parametrize("name", GRADIENT)
def test_an_update_that_overflows_is_undone(name):
    net, images = case()
    settings = {
        **GRADIENT[name],
        "lam": 1.0,
        **({"margin": 2.0} if name == "sar" else {}),
    }
    method = sitta.method(name, net, **settings)
    object.__setattr__(method, "rate", 1e25)  # far above what a setting may be
    p = method(images)
    expected = sitta.Source(net)(images)
    torch.testing.assert_close(p.probability, expected.probability)
    assert all("unstable-update" in codes for codes in p.notes)


@pytest.mark.parametrize("name", GRADIENT)
def test_models_without_batch_norm_run_at_their_own_statistics(name):
    for norm in (nn.InstanceNorm2d, lambda c: nn.GroupNorm(2, c)):
        net = trained(
            Net(norm=lambda c, n=norm: n(c, affine=True) if n is nn.InstanceNorm2d else n(c)),
            (1, 12, 12),
        )
        image = torch.rand(1, 12, 12)
        p = sitta.method(name, net, **GRADIENT[name])(image)
        assert "no-statistics" in p.notes
        assert p.probability.isfinite().all()


def test_layer_norm_is_adapted_too():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm, self.head = (
                nn.Conv2d(1, 4, 3, padding=1),
                nn.LayerNorm(4),
                nn.Conv2d(4, 1, 1),
            )

        def forward(self, x):
            return self.head(self.norm(self.conv(x).movedim(1, -1)).movedim(-1, 1))

    net = Last().eval()
    image = torch.rand(1, 8, 8)
    moved = sitta.Tent(net, rate=0.1)(image).probability
    assert not torch.allclose(moved, sitta.Source(net)(image).probability, atol=1e-3)


def test_without_any_norm_only_source_and_memo_apply():
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Conv2d(2, 1, 1))
    assert sitta.inspect(net).applies == ("source", "memo")
    for name in ("tent", "sar", "fseg"):
        with pytest.raises(sitta.UnsupportedModel, match="no normalisation layer with a scale"):
            sitta.method(name, net)
    assert sitta.MEMO(net, views=2)(torch.rand(1, 8, 8)).probability.isfinite().all()


def test_layers_that_the_forward_never_uses_are_skipped():
    net, images = case()
    net.unused = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))
    plain, _ = case()
    for name, settings in GRADIENT.items():
        a = sitta.method(name, net, **settings)(images)
        b = sitta.method(name, plain, **settings)(images)
        torch.testing.assert_close(a.probability, b.probability)


def test_affine_parameters_are_those_of_norm_layers_only():
    net = Net()
    found = set(affine_parameters(net))
    expected = {f"{b}.1.{p}" for b in ("enter", "deep", "leave") for p in ("weight", "bias")}
    assert found == expected
    assert affine_parameters(nn.BatchNorm2d(2)) == ["weight", "bias"]


@given(st.integers(1, 30), st.integers(2, 6), st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_nuclear_norm_equals_svd(n, c, seed, scale):
    a = (
        torch.rand(2, n, c, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        * scale
    )
    expected = torch.linalg.svdvals(a).sum(-1)
    torch.testing.assert_close(nuclear_norm(a), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("columns", [2, 3])
def test_nuclear_norm_has_a_finite_gradient_everywhere(columns):
    for a in (
        torch.zeros(1, 5, columns),
        torch.ones(1, 5, columns),
        torch.eye(5)[None, :, :columns],
    ):
        a = a.clone().requires_grad_()
        (g,) = torch.autograd.grad(nuclear_norm(a).sum(), a)
        assert g.isfinite().all()
    a = torch.rand(1, 6, columns, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(nuclear_norm, a)


def test_losses_against_closed_forms():
    z = torch.tensor([0.0, 2.0, -3.0]).view(1, 1, 3)
    p = z.sigmoid()
    full = -(p * p.log() + (1 - p) * (1 - p).log()).mean()
    torch.testing.assert_close(entropy_loss(z, "sigmoid"), full)
    torch.testing.assert_close(half_entropy_loss(z, "sigmoid"), -(p * p.log()).mean())
    four = torch.zeros(1, 4, 2)
    assert float(entropy_loss(four, "softmax")) == pytest.approx(math.log(4))
    assert float(half_entropy_loss(four, "softmax")) == pytest.approx(math.log(4))
    net, images = case()
    a, b = (
        sitta.Tent(net, rate=0.05, loss=x)(images).probability for x in ("entropy", "half-entropy")
    )
    assert not torch.allclose(a, b, atol=1e-4)


def test_marginal_entropy_is_of_the_mean_not_the_mean_of_entropies():
    opposed = torch.tensor([50.0, -50.0]).view(2, 1, 1)
    assert float(marginal_entropy(opposed, "sigmoid")) == pytest.approx(math.log(2))
    same = torch.tensor([50.0, 50.0]).view(2, 1, 1)
    assert float(marginal_entropy(same, "sigmoid")) == pytest.approx(0, abs=1e-6)
    z = torch.randn(3, 4, 5)
    q = z.softmax(1).mean(0)
    expected = -(q * q.log()).sum(0).mean()
    torch.testing.assert_close(marginal_entropy(z, "softmax"), expected)


def test_entropy_falls():
    net, images = case()
    for name in ("tent", "sar"):
        settings = {"steps": 10, "rate": 0.01, **({"margin": 2.0} if name == "sar" else {})}
        before = sitta.method(name, net, steps=0)(images).entropies
        after = sitta.method(name, net, **settings)(images).entropies
        assert (after < before).all()


def test_several_labels():
    net, images = case(outputs=3)
    for name, settings in GRADIENT.items():
        p = sitta.method(name, net, activation="sigmoid", **settings)(images)
        assert p.mask.shape == (3, 3, 12, 12)


def test_small_images_shrink_the_windows_of_fseg():
    net, _ = case()
    for contour in ("strided", "dense"):
        p = sitta.FSeg(net, contour=contour)(torch.rand(1, 4, 6))
        assert p.probability.isfinite().all()


def test_gradients_of_one_image_do_not_reach_the_next():
    net, images = case()
    adapt = sitta.Tent(net, steps=5, rate=0.05)
    alone = adapt(images[1]).probability
    adapt(images[0])
    torch.testing.assert_close(adapt(images[1]).probability, alone, rtol=0, atol=0)
    assert all(p.grad is None for p in net.parameters())
    again = copy.deepcopy(net)
    torch.testing.assert_close(sitta.Tent(again, steps=5, rate=0.05)(images[1]).probability, alone)


def test_nothing_is_updated_if_a_later_step_finds_nothing():
    net, images = case()
    with torch.no_grad():
        net.head.weight.mul_(40)
    p = sitta.Tent(net, 0.5, steps=30, rate=1e5)(images)
    expected = sitta.Source(net, 0.5, statistics="in-layer")(images)
    for n, codes in enumerate(p.notes):
        if {"zero-gradient", "unstable-update"} & set(codes):
            torch.testing.assert_close(p.probability[n], expected.probability[n])
    assert any({"zero-gradient", "unstable-update"} & set(codes) for codes in p.notes)


def test_a_gradient_that_is_not_finite_updates_nothing():
    class Steep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * torch.inf

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(1)

        def forward(self, x):
            return Steep.apply(self.norm(x))

    image = torch.rand(1, 12, 12)
    for name, settings in GRADIENT.items():
        more = {"margin": 2.0} if name == "sar" else {}
        p = sitta.method(name, Net().eval(), lam=1.0, **settings, **more)(image)
        assert "unstable-update" in p.notes
        torch.testing.assert_close(p.probability, sitta.Source(Net().eval())(image).probability)


def test_no_norm_layer_in_use_is_a_gradient_of_zero():
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(1, 1, 1), nn.GroupNorm(1, 1)

        def forward(self, x):
            return self.conv(x)

    for name in ("tent", "sar", "fseg"):
        more = {"margin": 2.0} if name == "sar" else {}
        assert "zero-gradient" in sitta.method(name, Idle(), **more)(torch.rand(1, 12, 12)).notes


def test_sar_may_leave_the_deep_layers_alone():
    net, images = case()
    adapt = sitta.SAR(net, layers="shallow", margin=2.0)
    with adapt._twins.borrow() as twin:
        names = adapt._names(Episode(twin, images[:1], 0.0, False))
    assert names == ["enter.1.weight", "enter.1.bias"]  # not deep.1 (lowest), not leave.1 (last)
    assert not torch.equal(
        adapt(images).probability, sitta.SAR(net, margin=2.0)(images).probability
    )


def test_options_of_fseg():
    net, images = case()
    base = sitta.FSeg(net, rate=0.05, alpha=0.5)(images).probability
    for more in ({"length": "classes"}, {"scale": "size"}, {"contour": "dense"}):
        other = sitta.FSeg(net, rate=0.05, alpha=0.5, **more)(images).probability
        assert not torch.allclose(base, other, atol=1e-5)


def test_one_image_that_overflows_does_not_change_the_others():
    class Cube(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(1)

        def forward(self, x):
            return self.norm(x) ** 3

    good, bad = torch.rand(1, 8, 8) * 3, torch.rand(1, 8, 8) * 1e15
    for op in ("vote", "top-k"):
        adapt = sitta.SITA(Cube().eval(), op=op, views=2)
        both, alone = adapt(torch.stack([good, bad])), adapt(good)
        torch.testing.assert_close(both.weights[:, 0], alone.weights)
        assert both.weights[0, 1] == 0
        assert both.probability.isfinite().all()
        torch.testing.assert_close(both.weights.sum(0), torch.ones(2))
