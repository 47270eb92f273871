"""Networks of the field, as MONAI builds them, against the slow reference."""

import pytest
import torch

import sitta
from tests import slow
from tests.nets import assert_untouched, snapshot, trained

LAMBDAS = (1.0, 0.5, 0.0)


def build(name):
    from monai.networks import nets

    if name == "BasicUNet":
        return nets.BasicUNet(2, 1, 3, features=(4, 4, 8, 8, 8, 4), norm="batch"), (1, 32, 32)
    if name == "AttentionUnet":
        return nets.AttentionUnet(2, 1, 1, channels=(4, 8), strides=(2,)), (1, 16, 16)
    if name == "VNet":
        return nets.VNet(3, 1, 2), (1, 32, 32, 32)
    if name == "SegResNet":
        return nets.SegResNet(3, 4, 1, 2, norm="batch"), (1, 16, 16, 16)
    return nets.UNet(3, 1, 2, (4, 8), (2,), norm="batch"), (1, 12, 12, 12)


@pytest.mark.parametrize("name", ["BasicUNet", "AttentionUnet", "VNet", "SegResNet", "UNet"])
def test_monai_networks(name):
    net, shape = build(name)
    trained(net, shape, passes=2)
    image = torch.rand(shape) ** 2
    before = snapshot(net.train())
    p = sitta.InTEnt(net, lambdas=LAMBDAS)(image)
    assert_untouched(net, before)
    expected = slow.member_logits(net.eval(), image, LAMBDAS)
    channels = expected.shape[1]
    maps = [torch.from_numpy(slow.probability(z))[-channels:].float() for z in expected]
    torch.testing.assert_close(p.members, torch.stack(maps), rtol=0, atol=1e-4)


def test_a_meta_tensor_gives_what_its_tensor_gives():
    from monai.data import MetaTensor

    net, image = sitta.load("phantom-alder"), torch.rand(1, 16, 16)
    p = sitta.InTEnt(net)(MetaTensor(image))
    assert type(p.weights) is torch.Tensor
    assert type(p.probability) is type(p.image) is MetaTensor
    assert torch.equal(p.probability.as_tensor(), sitta.InTEnt(net)(image).probability)
