"""Sliding windows: what fits goes through whole; statistics are those of the whole image."""

import pytest
import torch
from torch import nn

import sitta
from sitta.adaptation.sliding_window import windowed
from tests.nets import Net, case, trained


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("statistics", ["volume", "window"])
def test_an_image_that_fits_goes_through_whole(dims, statistics):
    net, images = case(dims=dims)
    whole = sitta.InTEnt(net)(images)
    parts = windowed(sitta.InTEnt(net), (64,) * dims, statistics=statistics)(images)
    assert torch.equal(whole.probability, parts.probability)


def shallow():
    """One BatchNorm and no neighbourhood: pooled statistics are exact, and so are windows."""
    net = nn.Sequential(nn.Conv2d(1, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 1, 1))
    return trained(net, (1, 16, 16))


@pytest.mark.parametrize("method", [sitta.InTEnt, sitta.Source])
def test_statistics_of_the_volume_are_exact_where_they_can_be(method):
    net, image = shallow(), torch.rand(1, 32, 48) * torch.linspace(0, 2, 48)
    adapt = method(net) if method is sitta.InTEnt else method(net, lam=0.3)
    whole = adapt(image)
    parts = windowed(adapt, (16, 16), overlap=0)(image)
    torch.testing.assert_close(parts.probability, whole.probability, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(parts.distance, whole.distance, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(parts.weights, whole.weights, atol=1e-4, rtol=1e-3)
    each = windowed(adapt, (16, 16), overlap=0, statistics="window")(image)
    assert (each.probability - whole.probability).abs().max() > 1e-3


def test_a_deep_network_comes_close():
    net = sitta.load("phantom-alder")
    image, _ = sitta.data.phantom.draw("cedar", size=(192, 192))
    whole = sitta.InTEnt(net)(image)
    volume = windowed(sitta.InTEnt(net), (128, 128), overlap=0.5)(image)
    window = windowed(sitta.InTEnt(net), (128, 128), overlap=0.5, statistics="window")(image)

    def gap(p):
        return float((p.members[-1] - whole.members[-1]).abs().mean())

    assert gap(volume) < gap(window)


def test_several_images_are_independent_and_the_model_is_untouched():
    net = trained(Net(), (1, 16, 16))
    images = torch.rand(2, 1, 40, 24)
    adapt = windowed(sitta.InTEnt(net), (16, 16))
    both = adapt(images)
    assert torch.equal(both.probability[1], adapt(images[1]).probability)
    assert both.mask.shape == (2, 40, 24)


def test_what_cannot_go_window_by_window():
    net = trained(Net(), (1, 16, 16))
    for method in (sitta.Tent(net), sitta.InTEnt(net, strategy="sharpness")):
        with pytest.raises(sitta.InvalidSetting, match="cannot go window by window"):
            windowed(method, (8, 8))
    with pytest.raises(sitta.InvalidSetting, match="volume or window"):
        windowed(sitta.InTEnt(net), (8, 8), statistics="slice")
    with pytest.raises(sitta.InvalidSetting, match="one number a side"):
        windowed(sitta.InTEnt(net), (8, 8, 8))(torch.rand(1, 16, 16))
