"""InstanceNorm with running statistics is mixed as BatchNorm is; without them it is left alone."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import sitta
from sitta.core.norm import MixedNorm
from sitta.core.twin import Twin
from tests.nets import CONV, Net, assert_untouched, snapshot, trained

NORM = {2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}
GRID = (1.0, 0.7, 0.3, 0.0)


def case(dims=2, affine=True):
    torch.manual_seed(0)

    def norm(channels):
        return NORM[dims](channels, affine=affine, track_running_stats=True)

    shape = (1, *[8] * dims)
    return trained(Net(dims, norm=norm), shape), torch.rand(2, *shape) ** 2 * 1.7


def by_hand(net, image, lam):
    """Hooks on a copy: captured at this image's own statistics, then mixed with the source's."""
    captured = {}

    def hook(mixed):
        def normalised(layer, args, _out):
            x = args[0]
            axes = tuple(range(2, x.dim()))
            if not mixed:
                captured[layer] = x.mean(axes)[0], x.var(axes, correction=0)[0]
            mean, var = captured[layer]
            if mixed:
                mean = lam * layer.running_mean + (1 - lam) * mean
                var = lam * layer.running_var + (1 - lam) * var
            shape = (1, -1, *[1] * len(axes))
            y = (x - mean.view(shape)) / (var.view(shape) + layer.eps).sqrt()
            if layer.affine:
                y = y * layer.weight.view(shape) + layer.bias.view(shape)
            return y

        return normalised

    other = copy.deepcopy(net)
    layers = [m for m in other.modules() if isinstance(m, nn.modules.instancenorm._InstanceNorm)]
    for mixed in (False, True):
        handles = [m.register_forward_hook(hook(mixed)) for m in layers]
        out = other(image[None])
        for handle in handles:
            handle.remove()
    return out[0].sigmoid()


@torch.no_grad()
@pytest.mark.parametrize(("dims", "affine"), [(2, True), (2, False), (3, True)])
def test_members_are_mixed_as_by_hand(dims, affine):
    net, images = case(dims, affine)
    net, images = net.double(), images.double()
    before = snapshot(net)
    p = sitta.InTEnt(net, lambdas=GRID)(images)
    assert_untouched(net, before)
    torch.testing.assert_close(p.members[0], net(images).sigmoid(), rtol=0, atol=1e-12)
    for n, image in enumerate(images):
        for k, lam in enumerate(GRID):
            expected = by_hand(net, image, lam)
            torch.testing.assert_close(p.members[k, n], expected, rtol=0, atol=1e-11)
    assert not torch.allclose(p.members[0], p.members[-1], atol=1e-3)


def test_the_census_counts_it():
    net, _ = case()
    found = sitta.inspect(net)
    assert len(found.census.mixable) == 3
    assert set(found.applies) == set(sitta.methods())
    assert "3 InstanceNorm2d with running statistics" in str(found)


@pytest.mark.parametrize("name", ["tent", "sar", "fseg", "memo", "sita"])
def test_every_method_runs_on_it(name):
    net, images = case()
    more = {"sar": {"margin": 1.0}}.get(name, {})
    still = sitta.Source(net)(images).probability
    moved = sitta.method(name, net, **more)(images).probability
    assert moved.isfinite().all()
    assert not torch.allclose(moved, still, atol=1e-3)


def test_without_statistics_the_layer_stays_the_users_own():
    torch.manual_seed(0)
    layers = nn.InstanceNorm2d(4, affine=True), nn.BatchNorm2d(4)
    net = trained(nn.Sequential(CONV[2](1, 4, 3), *layers, CONV[2](4, 1, 1)), (1, 8, 8))
    unused = nn.InstanceNorm2d(4, track_running_stats=True)
    unused.track_running_stats = False  # it keeps them, and normalises by each image
    twin = Twin(nn.Sequential(*net[:2], unused, *net[2:])).module
    assert not isinstance(twin[1], MixedNorm)
    assert not isinstance(twin[2], MixedNorm)
    images = torch.rand(2, 1, 8, 8)
    with torch.no_grad():
        p = sitta.Source(net)(images)
        torch.testing.assert_close(p.probability, net(images).sigmoid())
    assert not sitta.inspect(nn.Sequential(CONV[2](1, 4, 3), unused)).census.mixable


def test_it_is_exported(tmp_path):
    pytest.importorskip("onnxruntime")
    from sitta.inference.backends.onnx import Graph

    net, images = case()
    done = sitta.export_onnx(net, tmp_path / "net.onnx", lambdas=GRID)
    members = Graph(done.path, threads=1)(images.numpy()).members
    expected = sitta.InTEnt(net, lambdas=GRID)(images).members
    torch.testing.assert_close(torch.from_numpy(members), expected, rtol=0, atol=1e-4)


def test_maps_without_an_axis_of_images_are_refused():
    class Squeezing(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.InstanceNorm2d(1, track_running_stats=True)

        def forward(self, x):
            return F.relu(torch.stack([self.norm(one) for one in x]))

    with pytest.raises(sitta.UnsupportedModel, match="without an axis of images"):
        sitta.InTEnt(Squeezing().eval())(torch.rand(1, 8, 8))
