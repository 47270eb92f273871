"""Convolutions of doubled maps: the same as torch's, in any network that has them in a row."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import sitta
from sitta.core.accel import optimizer
from sitta.core.accel.upsample_conv import is_conv3x3, is_upsample2x, upsample_conv


@given(
    rows=st.integers(1, 3),
    inputs=st.integers(1, 4),
    outputs=st.integers(1, 4),
    high=st.integers(1, 7),
    wide=st.integers(1, 7),
    biased=st.booleans(),
)
def test_the_same_as_on_the_large_map(rows, inputs, outputs, high, wide, biased):
    chance = torch.Generator().manual_seed(0)
    x = torch.randn(rows, inputs, high, wide, generator=chance, dtype=torch.float64)
    weight = torch.randn(outputs, inputs, 3, 3, generator=chance, dtype=torch.float64)
    bias = torch.randn(outputs, generator=chance, dtype=torch.float64) if biased else None
    found = upsample_conv(x, weight, bias)
    expected = F.conv2d(F.interpolate(x, scale_factor=2), weight, bias, padding=1)
    torch.testing.assert_close(found, expected)
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_which_layers_it_is_for():
    for layer in (nn.Upsample(scale_factor=2.0), nn.UpsamplingNearest2d(scale_factor=2)):
        assert is_upsample2x(layer)
    for layer in (
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Upsample(size=(2, 2)),
        nn.Upsample(scale_factor=(1, 2)),
        nn.PixelShuffle(2),
    ):
        assert not is_upsample2x(layer)
    assert is_conv3x3(nn.Conv2d(1, 1, 3, padding=1))
    for changes in (
        {"padding": 0},
        {"padding": "same"},
        {"stride": 2},
        {"dilation": 2},
        {"groups": 2},
        {"padding_mode": "reflect"},
        {"kernel_size": 5},
    ):
        assert not is_conv3x3(nn.Conv2d(2, 2, **{"kernel_size": 3, "padding": 1, **changes}))
    assert not is_conv3x3(nn.Conv3d(1, 1, 3, padding=1))


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Upsample(scale_factor=2),
        nn.Conv2d(4, 1, 3, padding=1),
    ).eval()


@pytest.fixture
def calls(monkeypatch):
    """How often the shorter way is taken."""
    found = []

    def counted(x, weight, bias):
        found.append(len(x))
        return upsample_conv(x, weight, bias)

    monkeypatch.setattr(optimizer, "upsample_conv", counted)
    return found


def test_a_twin_takes_the_shorter_way_and_the_model_does_not(calls):
    net, image = network(), torch.rand(1, 12, 10)
    p = sitta.InTEnt(net)(image)
    assert calls == [6]
    torch.testing.assert_close(p.members[0], net(image[None])[0].sigmoid(), atol=1e-6, rtol=1e-6)
    assert calls == [6]


@pytest.mark.parametrize("number", [3, 4])
def test_layers_with_hooks_are_left_alone(calls, number):
    net, seen = network(), []
    net[number].register_forward_hook(lambda _, given, result: seen.append(result.shape))
    sitta.InTEnt(net)(torch.rand(1, 12, 10))
    assert calls == []
    assert [shape[2:] for shape in seen] == [(12, 10)]


def test_gradients_go_the_usual_way(calls):
    sitta.InTEnt(network(), strategy="sharpness", lambdas=[1.0, 0.0])(torch.rand(1, 8, 8))
    assert calls == []
