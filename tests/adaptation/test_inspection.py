"""What ``inspect`` warns of."""

import re

import pytest
import torch
from torch import nn

import sitta
from sitta.models import zoo
from tests.nets import case, trained


class Frozen(nn.Module):
    """BatchNorm as constants; of the shape of torchvision's and detectron's FrozenBatchNorm2d."""

    def __init__(self, channels):
        super().__init__()
        for name, start in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.1)):
            self.register_buffer(name, torch.full((channels,), start))
        self.register_buffer("running_var", torch.full((channels,), 2.0))

    def forward(self, x):
        scale = self.weight * (self.running_var + 1e-5).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale[:, None, None] + shift[:, None, None]


def stack(*norms):
    layers = [m for norm in norms for m in (nn.Conv2d(4, 4, 3, padding=1), norm)]
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), *layers, nn.Conv2d(4, 1, 1))


def bn(count, **settings):
    return [nn.BatchNorm2d(4, **settings) for _ in range(count)]


def test_a_usual_network_has_no_warning():
    assert sitta.inspect(case()[0]).warnings == ()
    for entry in zoo.entries():
        if entry.name.startswith("phantom"):
            assert sitta.inspect(sitta.load(entry.name)).warnings == ()


CASES = {
    "few beside others": (
        lambda: trained(stack(*bn(1), nn.GroupNorm(2, 4), nn.GroupNorm(2, 4)), (1, 8, 8)),
        ["Running statistics in 1 of 3 normalisation layers only"],
    ),
    "few for the convolutions": (
        lambda: trained(
            nn.Sequential(stack(*bn(1)), *[nn.Conv2d(1, 1, 3, padding=1) for _ in range(3)]),
            (1, 8, 8),
        ),
        ["in 1 of the normalisation layers only, for 6 convolutions"],
    ),
    "frozen": (
        lambda: trained(stack(*bn(2), Frozen(4)), (1, 8, 8)),
        [r"Frozen BatchNorm \(1 layer: 6\).*no lambda mixes"],
    ),
    "no statistics": (
        lambda: trained(stack(*bn(2), *bn(1, track_running_stats=False)), (1, 8, 8)),
        [r"Without running statistics \(1 layer: 6\)"],
    ),
    "never trained": (
        lambda: stack(*bn(4)).eval(),
        [r"Never trained \(4 layers: 2, 4, 6, \.\.\.\)"],
    ),
    "instance": (lambda: stack(*[nn.InstanceNorm2d(4) for _ in range(3)]), []),
}


@pytest.mark.parametrize("name", CASES)
def test_warnings(name):
    build, said = CASES[name]
    found = sitta.inspect(build())
    assert len(found.warnings) == len(said)
    for warning, pattern in zip(found.warnings, said, strict=True):
        assert re.search(pattern, warning)
        assert f"warning: {warning}" in str(found)


def test_a_frozen_layer_is_run_as_it_is():
    net = trained(stack(*bn(1), Frozen(4)), (1, 8, 8))
    image = torch.rand(1, 8, 8)
    members = sitta.InTEnt(net, lambdas=(1.0, 0.0))(image).members
    with torch.no_grad():
        torch.testing.assert_close(members[0], net(image[None])[0].sigmoid())
    other = nn.Sequential(*[nn.BatchNorm2d(4) if isinstance(m, Frozen) else m for m in net])
    other[4].load_state_dict(net[4].state_dict(), strict=False)
    thawed = sitta.InTEnt(other.eval(), lambdas=(1.0, 0.0))(image).members
    torch.testing.assert_close(thawed[0], members[0])
    assert not torch.allclose(thawed[1], members[1], atol=1e-3)
