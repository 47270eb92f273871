"""Every degenerate case in which the formulas or the published code break down, one test each."""

import math

import pytest
import torch
from torch import nn

import sitta
from sitta.core.entropy import balanced_entropy, mean_entropy, pixel_entropy
from sitta.core.integration import integrate, weigh
from sitta.core.masks import labels
from sitta.inference.demo import dice
from tests import slow
from tests.nets import Net, case, trained

UNIFORM = torch.full((6,), 1 / 6)


def net_of(logits):
    """A net with one BatchNorm, whose logits are a function of the image."""

    class Given(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(1)

        def forward(self, x):
            return logits(self.norm(x))

    return Given().eval()


def test_all_entropies_equal_give_uniform_weights():
    net, images = case()
    for name, norm in net.named_modules():  # source statistics = those of this very image
        if isinstance(norm, nn.BatchNorm2d):
            mean, var = dict(zip(_norms(net), slow.capture(net, images[0], "biased"), strict=True))[
                name
            ]
            norm.running_mean.copy_(mean)
            norm.running_var.copy_(var)
    for strategy in ("ent-baln", "ent-norm", "ent-min", "ent-topk", "entropy"):
        p = sitta.InTEnt(net, strategy=strategy)(images[0])
        torch.testing.assert_close(p.weights, UNIFORM)
        assert "equal-entropies" in p.notes
        assert p.mask.sum() > 0


def _norms(net):
    return [name for name, m in net.named_modules() if isinstance(m, nn.BatchNorm2d)]


def test_no_batch_norm_is_refused_with_the_census():
    net = trained(Net(norm=lambda c: nn.GroupNorm(2, c)), (1, 12, 12))
    with pytest.raises(sitta.UnsupportedModel, match=r"3 GroupNorm without running statistics"):
        sitta.InTEnt(net)


def test_entropies_that_differ_by_noise_give_uniform_weights():
    noise = torch.tensor([[0.3], [0.3 + 4e-7], [0.3 - 4e-7]])
    for strategy in ("ent-baln", "ent-norm", "sharpness", "ent-min", "ent-topk"):
        torch.testing.assert_close(weigh(strategy, noise), torch.full((3, 1), 1 / 3))
    apart = weigh("ent-norm", torch.tensor([[0.3], [0.3 + 4e-6]]))
    assert float(apart[0] / apart[1]) == pytest.approx(math.e, rel=0.05)


def test_a_member_without_foreground_has_the_mean_entropy_and_a_note():
    z = torch.full((1, 1, 4, 4), -2.0)
    assert balanced_entropy(z, "sigmoid") == pytest.approx(mean_entropy(z, "sigmoid"))
    # Half the pixels exceed 0 at source statistics; at the image's they straddle it.
    net = net_of(lambda h: h - 0.5)
    p = sitta.InTEnt(net)(torch.linspace(-0.4, 0.4, 64).view(1, 8, 8))
    assert p.areas[0] == 0
    assert p.areas[-1] > 0
    assert "foreground-in-some-members" in p.notes


def test_no_member_with_foreground_ranks_like_ent_norm():
    net = net_of(lambda h: 0.2 * h - 9)
    image = torch.rand(1, 8, 8) * 4
    balanced, plain = (sitta.InTEnt(net, strategy=s)(image) for s in ("ent-baln", "ent-norm"))
    torch.testing.assert_close(balanced.weights, plain.weights)
    assert "no-foreground" in balanced.notes
    assert balanced.mask.sum() == 0


def test_a_member_that_is_all_foreground_has_the_mean_entropy_and_a_note():
    z = torch.full((1, 1, 4, 4), 2.0)
    assert balanced_entropy(z, "sigmoid") == pytest.approx(mean_entropy(z, "sigmoid"))
    net = net_of(lambda h: 0.2 * h + 9)
    p = sitta.InTEnt(net)(torch.rand(1, 8, 8))
    assert p.weights.isfinite().all()
    assert p.mask.all()
    assert "all-foreground" in p.notes


@pytest.mark.parametrize("z", [0.0, 16.64, 17.0, 104.0, -104.0, 1e4, -1e4, 3e38])
def test_saturated_probabilities_have_finite_entropy_and_gradient(z):
    for shape, activation in (((1, 1, 2), "sigmoid"), ((1, 3, 2), "softmax")):
        logits = torch.full(shape, z)
        if activation == "softmax":
            logits = torch.stack(
                [logits[:, 0], -logits[:, 0].clamp(-1e30, 1e30), 0 * logits[:, 0]], 1
            )
            logits = logits.clamp(-1e30, 1e30)
        logits.requires_grad_()
        entropy = pixel_entropy(logits, activation)
        (gradient,) = torch.autograd.grad(entropy.sum(), logits)
        assert entropy.isfinite().all()
        assert (entropy >= 0).all()
        assert gradient.isfinite().all()


def test_one_saturated_pixel_does_not_spoil_the_sharpness():
    net = net_of(lambda h: torch.where(h == h.amax((2, 3), keepdim=True), 200.0 * h, h))
    p = sitta.InTEnt(net, strategy="sharpness")(torch.rand(1, 8, 8) + 0.1)
    assert p.entropies.isfinite().all()
    assert p.entropies.std() > 0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_pixels_that_are_not_finite_are_refused(value):
    net, images = case()
    images[1, 0, 2, 3] = value
    with pytest.raises(sitta.InvalidImage, match="not finite numbers"):
        sitta.InTEnt(net)(images)


def test_constant_image_is_finite_and_noted():
    net, images = case()
    p = sitta.InTEnt(net)(torch.full_like(images[0], 0.5))
    assert p.probability.isfinite().all()
    assert "constant-image" in p.notes


def test_constant_channel_is_finite():
    net, images = case()
    with torch.no_grad():
        net.enter[0].weight[2] = 0  # channel 2 is its bias everywhere: variance 0 under lambda 0
    p = sitta.InTEnt(net)(images)
    assert p.members.isfinite().all()


def test_1x1_feature_map_keeps_source_statistics_and_leaves_a_note():
    class Squeezing(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(2)
            self.gate = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)
            )
            self.head = nn.Conv2d(2, 1, 1)

        def forward(self, x):
            h = self.norm(x)
            return self.head(h * self.gate(h))

    net = trained(Squeezing(), (2, 8, 8))
    image = torch.rand(2, 8, 8)
    p = sitta.InTEnt(net, variance="unbiased")(image)
    assert p.members.isfinite().all()
    assert "tiny-feature-map" in p.notes
    assert "tiny-feature-map" in sitta.InTEnt(net, members_at_once=1)(image).notes
    assert "tiny-feature-map" not in sitta.Source(net)(image).notes
    h = nn.functional.batch_norm(image[None], None, None, net.norm.weight, net.norm.bias, True)
    expected = net.head(h * net.gate(h)).sigmoid()[0].detach()  # the gate at source statistics
    torch.testing.assert_close(sitta.Source(net, 0.0)(image).probability, expected)


def test_a_gradient_of_zero_gives_uniform_weights():
    net = net_of(lambda h: h * 0 + 60.0)  # saturated: no direction raises the entropy
    p = sitta.InTEnt(net, strategy="sharpness")(torch.rand(1, 8, 8))
    assert (p.entropies == 0).all()
    torch.testing.assert_close(p.weights, UNIFORM)


@pytest.mark.parametrize("members", [2, 4, 6, 10])
def test_a_tied_vote_is_background(members):
    maps = torch.cat([torch.full((members // 2, 1, 1, 3), v) for v in (0.9, 0.1)])
    weights = weigh("vote", torch.rand(members, 1))
    found = integrate(maps, weights, "vote", "sigmoid")
    assert (found == 0.5).all()
    assert not (found > 0.5).any()


def test_dice_of_empty_masks():
    empty, some = torch.zeros(1, 4, 4, dtype=torch.long), torch.ones(1, 4, 4, dtype=torch.long)
    assert dice(empty, empty) == 1
    assert dice(some, empty) == 0
    assert dice(empty, some) == 0


def test_a_batch_is_many_adaptations():
    net, images = case()
    odd = torch.stack([images[0], images[0] * 50, torch.zeros_like(images[0])])
    p = sitta.InTEnt(net)(odd)
    alone = sitta.InTEnt(net)(images[0])
    torch.testing.assert_close(p.probability[0], alone.probability, rtol=0, atol=1e-5)


def test_a_member_that_overflows_does_not_count():
    net = net_of(lambda h: h**3)  # at source statistics the cube overflows; normalised it does not
    image = torch.rand(1, 8, 8) * 1e15 - 3e14
    p = sitta.InTEnt(net)(image)
    assert "member-overflow" in p.notes
    assert p.weights[0] == 0
    assert float(p.weights.sum()) == pytest.approx(1)
    assert p.probability.isfinite().all()
    assert p.entropies.isfinite().all()


def test_an_image_that_overflows_under_every_lambda_is_refused():
    net, images = case()
    with pytest.raises(sitta.InvalidImage, match="overflow"):
        sitta.InTEnt(net)(torch.full_like(images, 3e38))


def test_at_lambda_1_the_image_does_not_matter_even_if_its_statistics_overflow():
    net, images = case()
    huge = images * 1e25  # squares overflow in float32, the values do not
    p = sitta.InTEnt(net)(huge)
    with torch.no_grad():
        expected = net(huge).sigmoid()
    assert expected.isfinite().all()
    torch.testing.assert_close(p.members[0], expected)
    assert p.weights[0].min() > 0


def test_a_probability_of_one_half_is_background():
    p = torch.tensor([0.5, 0.50001, 0.49999]).view(1, 1, 3)
    assert labels(p, "sigmoid").tolist() == [[0, 1, 0]]
    two = torch.tensor([[0.5, 0.4], [0.5, 0.6]]).view(1, 2, 2)
    assert labels(two, "softmax").tolist() == [[0, 1]]


def test_ties_may_go_to_the_foreground():
    maps = torch.tensor([0.9, 0.9, 0.1, 0.1]).view(4, 1, 1, 1)
    weights = weigh("vote", torch.rand(4, 1))
    assert integrate(maps, weights, "vote", "sigmoid", ties="foreground").item() > 0.5
    both = torch.tensor([[0.9, 0.0, 0.1], [0.1, 0.0, 0.9]]).view(2, 1, 3, 1)
    weights = weigh("vote", torch.rand(2, 1))
    for ties, winner in (("background", 0), ("foreground", 2)):
        assert integrate(both, weights, "vote", "softmax", ties=ties).argmax(1).item() == winner
    net, images = case()
    ends = [1.0, 0.0]  # two members: wherever they differ, the vote is tied
    with torch.no_grad():
        net.head.bias -= net(images).median() / 3
    more = sitta.InTEnt(net, lambdas=ends, strategy="vote", ties="foreground")(images)
    less = sitta.InTEnt(net, lambdas=ends, strategy="vote")(images)
    assert (more.mask >= less.mask).all()
    assert (more.mask != less.mask).any()


def test_an_empty_member_may_count_as_uninformative():
    net = net_of(lambda h: h - 0.5)
    image = torch.linspace(-0.4, 0.4, 64).view(1, 8, 8)
    p = sitta.InTEnt(net, empty="uninformative")(image)
    empty = p.areas == 0
    assert empty.any()
    assert not empty.all()
    assert (p.entropies[empty] == 1).all()
    assert p.weights[empty].max() < p.weights[~empty].min()
    nothing = sitta.InTEnt(net_of(lambda h: h - 99), empty="uninformative")(image)
    torch.testing.assert_close(nothing.weights, UNIFORM)


def test_dice_of_two_empty_masks_is_what_one_says():
    empty = torch.zeros(2, 4, 4, dtype=torch.long)
    assert dice(empty, empty, empty=0.0).tolist() == [0, 0]


def test_a_model_without_parameters():
    net = nn.Sequential(nn.BatchNorm2d(1, affine=False)).eval()
    image = torch.rand(1, 8, 8)
    p = sitta.InTEnt(net, strategy="sharpness")(image)
    torch.testing.assert_close(p.weights, UNIFORM)
    assert "memo" not in sitta.inspect(net).applies
    with pytest.raises(sitta.UnsupportedModel, match="no parameters"):
        sitta.MEMO(net)
