"""Every method against its slow reference, and the identities that tie them together."""

import pytest
import torch
from torch import nn

import sitta
from sitta.core.views import Turn, augmix, generator, jitter, views
from tests.adaptation import slow_methods as slow
from tests.nets import Net, case, trained

KINDS = [
    ("bn", 2, 1),
    ("bn", 2, 3),
    ("bn", 3, 1),
    ("bn", 3, 3),
    ("gn", 2, 1),
    ("gn", 3, 3),
    ("in", 2, 1),
]


def build(kind, dims, outputs):
    """A net in float64 and an image large enough for regions and contours."""
    torch.manual_seed(3)
    side = {2: 20, 3: 10}[dims]
    norm = {
        "bn": None,
        "gn": lambda c: nn.GroupNorm(2, c),
        "in": lambda c: nn.InstanceNorm2d(c, affine=True),
    }[kind]
    net = trained(Net(dims, 1, outputs, norm), (1, *[side] * dims)).double()
    return net, torch.rand(1, *[side] * dims, dtype=torch.float64) ** 2


def assert_equal(p, expected, outputs):
    found = p.probability
    found = torch.cat([1 - found, found]) if outputs == 1 else found
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("kind", "dims", "outputs"), KINDS)
@pytest.mark.parametrize(
    ("lam", "steps", "optimiser"), [(0.0, 1, "adam"), (0.5, 3, "sgd"), (1.0, 2, "adam")]
)
def test_tent(kind, dims, outputs, lam, steps, optimiser):
    net, image = build(kind, dims, outputs)
    p = sitta.Tent(net, lam, steps=steps, rate=0.02, optimiser=optimiser)(image)
    expected = slow.tent(net, image, lam, steps, 0.02, optimiser)
    assert_equal(p, expected, outputs)
    assert not torch.allclose(
        p.probability, sitta.Tent(net, lam, steps=0)(image).probability, atol=1e-4
    )


@pytest.mark.parametrize(("kind", "dims", "outputs"), KINDS)
@pytest.mark.parametrize(("lam", "steps"), [(0.0, 1), (0.5, 3), (1.0, 2)])
def test_sar(kind, dims, outputs, lam, steps):
    net, image = build(kind, dims, outputs)
    p = sitta.SAR(net, lam, steps=steps, rate=0.3, margin=0.99, rho=0.3)(image)
    assert_equal(p, slow.sar(net, image, lam, steps, 0.3, 0.99, 0.3), outputs)
    assert not torch.allclose(
        p.probability, sitta.Tent(net, lam, steps=0)(image).probability, atol=1e-4
    )


@pytest.mark.parametrize(("kind", "dims", "outputs"), KINDS)
@pytest.mark.parametrize(("lam", "steps", "contour"), [(0.0, 1, "strided"), (0.5, 2, "dense")])
def test_fseg(kind, dims, outputs, lam, steps, contour):
    net, image = build(kind, dims, outputs)
    radius = 4 if dims == 2 else 1
    p = sitta.FSeg(net, lam, steps=steps, rate=0.02, alpha=0.1, contour=contour, radius=radius)(
        image
    )
    expected = slow.fseg(net, image, lam, steps, 0.02, 0.1, contour == "dense", radius=radius)
    assert_equal(p, expected, outputs)


@pytest.mark.parametrize(("dims", "outputs"), [(2, 1), (2, 3), (3, 1), (3, 3)])
@pytest.mark.parametrize("weighting", ["mean", "pooled", "half"])
def test_sita(dims, outputs, weighting):
    net, image = build("bn", dims, outputs)
    rows = views(image, 5, generator(image, 7), jitter).images
    p = sitta.SITA(net, 0.3, views=4, weighting=weighting, seed=7)(image)
    assert_equal(p, slow.sita(net, rows, 0.3, weighting)[0], outputs)
    assert not torch.allclose(p.probability, sitta.Source(net, 0.3)(image).probability, atol=1e-4)


@pytest.mark.parametrize("outputs", [1, 3])
def test_sita_op_by_vote(outputs):
    for seed in range(4):
        net, image = build("bn", 2, outputs)
        image = image * (1 + seed)
        rows = views(image, 6, generator(image, seed), jitter).images
        grid = (1.0, 0.75, 0.5, 0.25, 0.0)
        maps = torch.stack([slow.sita(net, rows, lam) for lam in grid])  # (K, V, C, *S)
        h = torch.stack([slow.entropy_map(m).flatten(1).mean(1) for m in maps])  # (K, V)
        votes = [(h.argmin(0) == k).sum().item() for k in range(5)]
        best = min((k for k in range(5) if votes[k] == max(votes)), key=lambda k: h[k, 0].item())
        p = sitta.SITA(net, op="vote", step=0.25, views=5, seed=seed)(image)
        assert p.weights.tolist() == [float(k == best) for k in range(5)]
        assert_equal(p, maps[best, 0], outputs)


def undo_by_index(turn, shape):
    """The way back, found from where each pixel went."""
    went = turn(torch.arange(shape.numel()).view(shape)).flatten()
    back = went.argsort()
    return lambda m: m.flatten(1)[:, back].view(m.shape)


@pytest.mark.parametrize(("kind", "dims", "outputs"), KINDS)
@pytest.mark.parametrize(
    ("steps", "prior", "lam"), [(1, "official", 16 / 17), (2, "intent-paper", 15 / 16)]
)
def test_memo(kind, dims, outputs, steps, prior, lam):
    net, image = build(kind, dims, outputs)
    seen = views(image, 4, generator(image, 5), augmix)
    backs = [undo_by_index(t, image.shape[1:]) for t in seen.turns]
    p = sitta.MEMO(net, prior=prior, views=4, steps=steps, rate=0.05, seed=5)(image)
    expected = slow.memo(net, image, seen.images, backs, lam, steps, 0.05)
    assert_equal(p, expected, outputs)
    assert p.lambdas.item() == pytest.approx(lam)


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_no_steps_is_source_in_layer(lam):
    net, images = case()
    expected = sitta.Source(net, lam, statistics="in-layer")(images).probability
    for method in (sitta.Tent, sitta.SAR, sitta.FSeg):
        torch.testing.assert_close(method(net, lam, steps=0)(images).probability, expected)
    plain = sitta.Source(net, lam, statistics="in-layer", variance="unbiased")(images).probability
    torch.testing.assert_close(sitta.MEMO(net, lam, steps=0)(images).probability, plain)


def test_sar_without_filter_and_radius_is_sgd_on_entropy():
    net, image = build("bn", 2, 1)
    p = sitta.SAR(net, 0.4, margin=2.0, rho=0.0, rate=0.3)(image)
    assert_equal(
        p, slow.tent(net, image, 0.4, 1, 0.3 / 1.9, "sgd"), 1
    )  # first Nesterov step: 1 + 0.9


def test_sita_of_the_image_alone_is_source_in_layer():
    net, images = case()
    p = sitta.SITA(net, 0.6, views=0)(images)
    expected = sitta.Source(net, 0.6, statistics="in-layer")(images)
    torch.testing.assert_close(p.probability, expected.probability)


def test_memo_of_the_image_alone_is_a_step_on_its_entropy():
    net, image = build("gn", 2, 1)
    p = sitta.MEMO(net, views=1, rate=0.05)(image)
    other = slow.prepare(net, 1.0)
    loss = slow.entropy_map(slow.classes(other(image[None]))).mean()
    g = torch.autograd.grad(loss, list(other.parameters()))
    with torch.no_grad():
        for x, d in zip(other.parameters(), g, strict=True):
            x -= 0.05 * d
    assert_equal(p, slow.classes(other(image[None]))[0].detach(), 1)


@pytest.mark.parametrize("topk", [1, 2, 3])
def test_sita_op_top_k_is_ent_topk_on_the_same_members(topk):
    net, images = case()
    p = sitta.SITA(net, op="top-k", views=0, topk=topk)(images)
    q = sitta.InTEnt(net, strategy="ent-topk", statistics="in-layer", topk=topk)(images)
    torch.testing.assert_close(p.weights, q.weights)
    torch.testing.assert_close(p.probability, q.probability)


def test_sita_refuses_lambda_1():
    net, _ = case()
    with pytest.raises(sitta.InvalidSetting, match=r"At lambda 1 nothing of the views.*Source"):
        sitta.SITA(net, 1.0)


def test_turn_of_the_index_is_the_turn():
    x = torch.rand(2, 5, 5)
    turn = Turn((-1,), 3)
    torch.testing.assert_close(undo_by_index(turn, x.shape[1:])(turn(x)), x)
