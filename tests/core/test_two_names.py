"""One layer under two names, as nnU-Net registers them, and one layer at two places."""

import copy

import pytest
import torch
from torch import nn

import sitta
from sitta.core.norm import MixedNorm
from sitta.core.twin import Twin
from tests import slow
from tests.nets import assert_untouched, snapshot, trained

GRID = (1.0, 0.5, 0.0)


class Block(nn.Module):
    """As in nnU-Net: its layers under names of their own, and again in a Sequential."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm = nn.BatchNorm2d(outputs)
        self.nonlin = nn.LeakyReLU(inplace=True)
        self.all_modules = nn.Sequential(self.conv, self.norm, self.nonlin)

    def forward(self, x):
        return self.all_modules(x)


class Decoder(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder  # as nnU-Net's decoder keeps it
        self.block, self.head = Block(10, 6), nn.Conv2d(6, 1, 1)

    def forward(self, skips):
        deep = nn.functional.interpolate(skips[1], scale_factor=2)
        return self.head(self.block(torch.cat([skips[0], deep], 1)))


class Named(nn.Module):
    """Every layer of the encoder has four names."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList([Block(1, 4), Block(4, 6)])
        self.decoder = Decoder(self.encoder)

    def forward(self, x):
        first = self.encoder[0](x)
        second = self.encoder[1](nn.functional.max_pool2d(first, 2))
        return 3 * self.decoder([first, second])


class Once(nn.Module):
    """The same network in which each layer has one name."""

    def __init__(self, named):
        super().__init__()
        blocks = [named.encoder[0], named.encoder[1], named.decoder.block]
        parts = ([copy.deepcopy(m) for m in (b.conv, b.norm, b.nonlin)] for b in blocks)
        self.blocks = nn.ModuleList(nn.Sequential(*part) for part in parts)
        self.head = copy.deepcopy(named.decoder.head)

    def forward(self, x):
        first = self.blocks[0](x)
        second = self.blocks[1](nn.functional.max_pool2d(first, 2))
        deep = nn.functional.interpolate(second, scale_factor=2)
        return 3 * self.head(self.blocks[2](torch.cat([first, deep], 1)))


@pytest.fixture
def nets():
    torch.manual_seed(3)
    named = trained(Named(), (1, 16, 16))
    return named, Once(named).eval(), torch.rand(2, 1, 16, 16) ** 2 * 1.5


def test_a_layer_of_many_names_is_counted_and_replaced_once(nets):
    named, once, _ = nets
    found = sitta.inspect(named).census
    assert len(found.mixable) == len(sitta.inspect(once).census.mixable) == 3
    assert found.parameters == sum(p.numel() for p in once.parameters())
    twin = Twin(named).module
    block = twin.encoder[0]
    assert block.norm is block.all_modules[1] is twin.decoder.encoder[0].norm
    assert isinstance(block.norm, MixedNorm)
    assert sum(isinstance(m, MixedNorm) for m in twin.modules()) == 3


@pytest.mark.parametrize("accelerate", [True, False])
def test_members_are_mixed_as_by_hand(nets, accelerate):
    named, _, images = nets
    before = snapshot(named)
    p = sitta.InTEnt(named, lambdas=GRID, accelerate=accelerate)(images)
    assert_untouched(named, before)
    for n, image in enumerate(images):
        expected = slow.member_logits(named, image, GRID).sigmoid()
        torch.testing.assert_close(p.members[:, n], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["tent", "sar", "fseg", "memo", "intent"])
def test_gradients_reach_a_layer_by_all_its_names(nets, name):
    named, once, images = nets
    more = {"sar": {"margin": 1.0}, "memo": {"seed": 1}, "intent": {"strategy": "sharpness"}}
    if name != "intent":
        still = sitta.method(name, named, steps=0, **more.get(name, {}))(images)
        more[name] = {"steps": 2, "rate": 0.05, **more.get(name, {})}
    one, other = (sitta.method(name, net, **more[name])(images) for net in (named, once))
    torch.testing.assert_close(one.probability, other.probability, rtol=0, atol=1e-5)
    if name != "intent":
        assert not torch.allclose(one.probability, still.probability, atol=1e-3)


def test_an_activation_that_a_sequential_repeats_is_run_each_time():
    """``children()`` lists a module once, ``forward`` runs it as often as it stands there."""
    torch.manual_seed(0)
    act = nn.Softplus()
    one = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), act
    two = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), act
    net = trained(nn.Sequential(*one, *two, nn.Conv2d(4, 1, 1)), (1, 8, 8))
    image = torch.rand(1, 8, 8)
    p = sitta.InTEnt(net, lambdas=GRID)(image)
    expected = slow.member_logits(net, image, GRID).sigmoid()
    torch.testing.assert_close(p.members, expected, rtol=0, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(p.members[0], net(image[None])[0].sigmoid())


def test_a_wrapper_of_two_names_leaves_both():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 1, 1)).eval()
    root = nn.Module()
    root.one = root.two = nn.DataParallel(net)
    other = Twin(root).module
    assert other.one is other.two
    assert not isinstance(other.two, nn.DataParallel)


def test_export_finds_a_layer_by_any_of_its_names(nets, tmp_path):
    pytest.importorskip("onnxruntime")
    from sitta.inference.backends.onnx import Graph

    named, _, images = nets
    done = sitta.export_onnx(named, tmp_path / "net.onnx", lambdas=GRID)
    members = Graph(done.path, threads=1)(images.numpy()).members
    expected = sitta.InTEnt(named, lambdas=GRID)(images).members
    torch.testing.assert_close(torch.from_numpy(members), expected, rtol=0, atol=1e-4)
