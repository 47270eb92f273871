"""MixedNorm and the twin on every kind of BatchNorm and every odd model."""

import copy

import pytest
import torch
from torch import nn

import sitta
import sitta.prediction
from sitta.core.moments import affine_rows, moments
from sitta.core.twin import Twin
from tests import slow
from tests.nets import CONV, case, trained


def sequence(norm, dims=2):
    return nn.Sequential(CONV[dims](1, 4, 3, padding=1), norm, nn.SiLU(), CONV[dims](4, 1, 1))


def lambda_0(net, image):
    """BatchNorm in train mode on this image alone: torch's own batch statistics."""
    other = copy.deepcopy(net).eval()
    for m in other.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            m.train()
    with torch.no_grad():
        return other(image[None])[0].sigmoid()


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("kind", ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"])
def test_every_kind_of_batch_norm(kind, affine):
    norm = getattr(nn, kind)(4, affine=affine)
    dims = {"BatchNorm1d": 2, "BatchNorm3d": 3}.get(kind, 2)
    if kind == "BatchNorm1d":
        norm = nn.Sequential(nn.Flatten(2), norm, nn.Unflatten(2, (6, 6)))
    net = sequence(norm, dims)
    shape = (1, *[6] * dims)
    if kind == "SyncBatchNorm":  # trains on a GPU only: its statistics are set by hand
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(0.5, 2)
        net.eval()
    else:
        trained(net, shape)
    images = torch.rand(2, *shape)
    p = sitta.InTEnt(net)(images)
    with torch.no_grad():
        torch.testing.assert_close(p.members[0], net.eval()(images).sigmoid())
    if kind == "SyncBatchNorm":  # cannot train on a CPU; BatchNorm2d with its tensors can
        plain = nn.BatchNorm2d(4, affine=affine)
        plain.load_state_dict(norm.state_dict())
        net = nn.Sequential(net[0], plain, *net[2:])
    for n in range(2):
        torch.testing.assert_close(p.members[-1, n], lambda_0(net, images[n]))
    assert not torch.allclose(p.members[0], p.members[-1], atol=1e-3)


def test_a_subclass_keeps_what_it_adds():
    class NormRelu(nn.BatchNorm2d):
        def forward(self, x):
            return super().forward(x).relu() + 1

    net = trained(sequence(NormRelu(4)), (1, 8, 8))
    image = torch.rand(1, 8, 8)
    p = sitta.InTEnt(net)(image)
    torch.testing.assert_close(p.members[0], net(image[None])[0].sigmoid().detach())
    torch.testing.assert_close(p.members[-1], lambda_0(net, image))


def test_a_subclass_that_normalises_by_itself_is_refused():
    class Own(nn.BatchNorm2d):
        def forward(self, x):
            return (x - self.running_mean.view(1, -1, 1, 1)) * 2

    net = trained(sequence(Own(4)), (1, 8, 8))
    with pytest.raises(sitta.UnsupportedModel, match=r"Layer '1' \(Own\).*super"):
        sitta.InTEnt(net)(torch.rand(1, 8, 8))


class Twice(nn.Module):
    """One BatchNorm at two places: each has statistics of its own for this image."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.head = nn.BatchNorm2d(4), nn.Conv2d(4, 1, 1)

    def forward(self, x):
        return self.head(self.norm(self.b(self.norm(self.a(x)).relu())))


def test_one_module_used_twice():
    net = trained(Twice(), (1, 8, 8))
    image = torch.rand(1, 8, 8)
    p = sitta.InTEnt(net)(image)
    torch.testing.assert_close(p.members[0], net(image[None])[0].sigmoid().detach())
    torch.testing.assert_close(p.members[-1], lambda_0(net, image))
    parts = sitta.InTEnt(net, members_at_once=1)(image)
    torch.testing.assert_close(parts.members, p.members, rtol=0, atol=1e-6)


def test_without_running_statistics_each_image_stays_by_itself():
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4, track_running_stats=False),
        nn.BatchNorm2d(4),
        nn.Conv2d(4, 1, 1),
    ).eval()
    images = torch.rand(3, 1, 8, 8)
    p = sitta.InTEnt(net)(images)
    for n in range(3):  # a batch in net itself would mix the images
        with torch.no_grad():
            torch.testing.assert_close(p.members[0, n], net(images[n : n + 1])[0].sigmoid())
    only = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, track_running_stats=False))
    with pytest.raises(sitta.UnsupportedModel, match="without running statistics"):
        sitta.InTEnt(only)


def test_pool_mean_averages_over_views():
    net = trained(sequence(nn.BatchNorm2d(4)), (1, 8, 8))
    views = torch.rand(5, 1, 8, 8)
    one = Twin(net)
    with torch.no_grad():
        found = one.run(views, torch.full((5,), 0.3), pool="mean")[:, 0]
        h = net[0](views)
        mean = 0.3 * net[1].running_mean + 0.7 * h.mean((2, 3)).mean(0)
        var = 0.3 * net[1].running_var + 0.7 * h.var((2, 3), correction=0).mean(0)
        norm = nn.functional.batch_norm(h, mean, var, net[1].weight, net[1].bias)
        torch.testing.assert_close(found, net[2:](norm))


@pytest.mark.parametrize("pool", ["own", "first"])
@pytest.mark.parametrize("unbiased", [False, True])
def test_pool_own_and_first_in_one_layer(pool, unbiased):
    net = trained(sequence(nn.BatchNorm2d(4)), (1, 5, 5))
    image, lambdas = torch.rand(1, 1, 5, 5), torch.tensor([0.0, 0.4])
    with torch.no_grad():
        found = Twin(net).run(image.repeat(2, 1, 1, 1), lambdas, pool=pool, unbiased=unbiased)[1]
        h = net[0](image)
        mean = 0.4 * net[1].running_mean + 0.6 * h.mean((0, 2, 3))
        var = 0.4 * net[1].running_var + 0.6 * h.var((0, 2, 3), correction=int(unbiased))
        norm = nn.functional.batch_norm(h, mean, var, net[1].weight, net[1].bias)
        torch.testing.assert_close(found, net[2:](norm))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_statistics_of_half_precision_are_float32(dtype):
    x = (torch.rand(2, 3, 40, 40) * 100 + 300).to(dtype)
    mean, var = moments(x)
    assert mean.dtype == var.dtype == torch.float32
    torch.testing.assert_close(mean, x.double().mean((2, 3)).float())
    torch.testing.assert_close(var, x.double().var((2, 3), correction=0).float(), rtol=1e-5, atol=0)
    net = sequence(nn.BatchNorm2d(4)).eval().to(torch.bfloat16)
    p = sitta.InTEnt(net)(torch.rand(1, 8, 8) * 50)
    assert p.probability.dtype == torch.float32  # the network in half precision, figures in full
    assert p.probability.isfinite().all()
    torch.testing.assert_close(p.weights.sum(), torch.tensor(1.0))


def test_moments_are_exact_far_from_zero():
    x = torch.randn(1, 2, 256, 256) * 0.01 + 100
    mean, var = moments(x)
    torch.testing.assert_close(var, x.double().var((2, 3), correction=0).float(), rtol=1e-5, atol=0)
    torch.testing.assert_close(mean, x.double().mean((2, 3)).float(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_moments_and_their_gradients(layout):
    x = torch.randn(2, 3, 4, 5, dtype=torch.float64).to(memory_format=layout).requires_grad_()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        mean, var = moments(x)
    torch.testing.assert_close(mean, x.mean((2, 3)))
    torch.testing.assert_close(var, x.var((2, 3), correction=0))
    assert torch.autograd.gradcheck(moments, (x,))
    large = [t for t in kept if t.numel() == x.numel()]
    assert [t.data_ptr() for t in large] == [x.data_ptr()]  # no copy of the activations


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_affine_rows_and_its_gradients(layout):
    x = torch.randn(2, 3, 4, 5, dtype=torch.float64).to(memory_format=layout).requires_grad_()
    scale, shift = (torch.randn(2, 3, dtype=torch.float64).requires_grad_() for _ in range(2))
    expected = x * scale[..., None, None] + shift[..., None, None]
    torch.testing.assert_close(affine_rows(x, scale, shift), expected)
    assert torch.autograd.gradcheck(affine_rows, (x, scale, shift))


def test_gradients_flow_through_in_layer_statistics():
    net = trained(sequence(nn.BatchNorm2d(4)), (1, 6, 6)).double()
    one, image = Twin(net), torch.rand(1, 1, 6, 6, dtype=torch.float64)

    def through(weight):
        return one.run(image, torch.zeros(1), pool="own", parameters={"0.weight": weight}).sum()

    assert torch.autograd.gradcheck(through, net[0].weight.detach().clone().requires_grad_())


class Folding(nn.Module):
    """Folds an axis into the batch before it normalises, as axial and window attention do."""

    def __init__(self, norm):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(1, 4, 3, padding=1), norm, nn.Conv2d(4, 1, 1)

    def forward(self, x):
        y = self.conv(x)
        n, c, h, w = y.shape
        rows = y.permute(0, 2, 1, 3).reshape(n * h, c, w)
        return self.head(self.norm(rows).view(n, h, c, w).permute(0, 2, 1, 3))


@pytest.mark.parametrize("variance", ["biased", "unbiased"])
def test_an_axis_folded_into_the_batch_still_belongs_to_its_image(variance):
    net = trained(Folding(nn.BatchNorm1d(4)), (1, 6, 7))
    images = torch.rand(2, 1, 6, 7)
    p = sitta.InTEnt(net, variance=variance)(images)
    for n in range(2):
        expected = slow.member_logits(net, images[n], [1, 0.8, 0.6, 0.4, 0.2, 0], variance)
        torch.testing.assert_close(p.members[:, n], expected.sigmoid(), rtol=0, atol=1e-5)
    own = sitta.Source(net, 0.0, statistics="in-layer")(images).probability
    torch.testing.assert_close(own[0], lambda_0(net, images[0]))
    parts = sitta.InTEnt(net, members_at_once=1, variance=variance)(images)
    torch.testing.assert_close(parts.members, p.members, rtol=0, atol=1e-6)
    free = Folding(nn.BatchNorm1d(4, track_running_stats=False)).eval()
    with torch.no_grad():
        alone = free(images[1:])[0].sigmoid()
    torch.testing.assert_close(sitta.Source(free)(images).probability[1], alone)


def test_rows_that_belong_to_no_image_are_refused():
    class Extra(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(1)

        def forward(self, x):
            return self.norm(torch.cat([x, x[:1]]))[:-1]

    with pytest.raises(sitta.UnsupportedModel, match="3 rows for a batch of 2"):
        sitta.Source(Extra().eval(), 0.5)(torch.rand(1, 6, 6))


@pytest.mark.parametrize("bias", [-3.0, 2.0])
def test_half_precision_counts_more_pixels_than_it_can_hold(bias):
    net = sequence(nn.BatchNorm2d(4)).eval()
    with torch.no_grad():
        net[-1].bias.fill_(bias)
    image = torch.rand(1, 280, 280)
    expected = sitta.InTEnt(net)(image)
    found = sitta.InTEnt(copy.deepcopy(net).half())(image)
    torch.testing.assert_close(found.entropies, expected.entropies, rtol=0, atol=5e-3)
    torch.testing.assert_close(found.agreement, expected.agreement, rtol=0, atol=5e-3)
    torch.testing.assert_close(found.weights.sum(), torch.tensor(1.0))


def test_autocast_rounds_the_network_and_nothing_else():
    net, images = case()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        p = sitta.InTEnt(net)(images)
        agreed, differ = p.agreement, p.disagreement
    assert p.probability.dtype == torch.float32
    torch.testing.assert_close(p.weights.sum(0), torch.ones(3))
    again = (p.members * p.weights[:, :, None, None, None]).sum(0)
    torch.testing.assert_close(p.probability, again, rtol=0, atol=1e-6)
    fresh = sitta.Prediction(p._raw, batched=True)
    torch.testing.assert_close(agreed, fresh.agreement, rtol=0, atol=0)
    torch.testing.assert_close(differ, fresh.disagreement, rtol=0, atol=0)
