"""Tensors that stand in for parameters, and leave when the pass is over."""

import pytest
import torch
from torch import nn

import sitta
from sitta.core.parameters import ParameterSubstitution
from tests.nets import assert_untouched, snapshot


class TwoNames(nn.Module):
    """One BatchNorm under two names, and one weight in two layers."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 1)
        self.head = nn.Conv2d(4, 4, 1)
        self.head.weight = self.second.weight
        self.norm = self.again = nn.BatchNorm2d(4)

    def forward(self, x):
        x = self.again(self.second(self.norm(self.first(x))))
        return self.head(x)[:, :1]


def test_every_name_of_a_parameter_is_served_and_given_back():
    net = TwoNames()
    own = {name: id(p) for name, p in net.named_parameters(remove_duplicate=False)}
    lent = {name: torch.zeros_like(p) for name, p in net.named_parameters()}
    with ParameterSubstitution(net).substituted(lent):
        assert net.head.weight is net.second.weight is lent["second.weight"]
        assert net.again.weight is lent["norm.weight"]
        assert not net(torch.rand(1, 1, 5, 5)).any()
    assert own == {name: id(p) for name, p in net.named_parameters(remove_duplicate=False)}


def test_parameters_come_back_after_an_error():
    net = nn.Linear(1, 1)
    own = net.weight
    with (
        pytest.raises(RuntimeError),
        ParameterSubstitution(net).substituted({"weight": torch.zeros(1, 3)}),
    ):
        net(torch.ones(1, 1))
    assert net.weight is own


def test_an_unknown_name_changes_nothing():
    net = nn.Linear(1, 1)
    own = net.weight
    with (
        pytest.raises(KeyError),
        ParameterSubstitution(net).substituted({"weight": torch.zeros(1, 1), "wait": own}),
    ):
        pass
    assert net.weight is own


@pytest.mark.parametrize(
    ("name", "settings"), [("intent", {"strategy": "sharpness"}), ("tent", {"rate": 0.1})]
)
def test_an_image_leaves_no_trace_in_a_layer_with_two_names(name, settings):
    net = TwoNames().eval()
    before = snapshot(net)
    adapt = sitta.method(name, net, **settings)
    image, other = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    first = adapt(image).probability
    adapt(other)
    assert torch.equal(adapt(image).probability, first)
    assert_untouched(net, before)
