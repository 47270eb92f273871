"""Sliding windows: what fits goes through whole; statistics are those of the whole image."""

import pytest
import torch
from torch import nn

import sitta
from sitta.adaptation.sliding_window import windowed
from sitta.prediction.calibration import Calibration, ClassCalibration
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


def test_adapt_under_statistics_pooled_by_hand():
    """Every member normalised by hand with the moments of all windows together."""
    net = nn.Sequential()
    for n, (before, after) in enumerate([(1, 4), (4, 4), (4, 4)]):
        net.extend([nn.Conv2d(before, after, 1), nn.BatchNorm2d(after), nn.ReLU()])
        assert n < 3
    net.append(nn.Conv2d(4, 1, 1))
    trained(net, (1, 16, 16)).double()
    image = torch.rand(1, 32, 48, dtype=torch.float64) * torch.linspace(0, 2, 48)
    p = windowed(sitta.Adapt(net), (16, 16), overlap=0)(image)
    corners = [(a, b) for a in (0, 16) for b in (0, 16, 32)]
    seen = [_captured_by_hand(net, image[None, :, a : a + 16, b : b + 16]) for a, b in corners]
    for k, (lam, depth) in enumerate([(x, 0) for x in (1, 0.8, 0.6, 0.4, 0.2, 0)] + [(0, 1)]):
        x, layer = image[None], 0
        for module in net:
            if not isinstance(module, nn.BatchNorm2d):
                with torch.no_grad():
                    x = module(x)
                continue
            own = 1.0 if layer < depth else lam
            means = torch.stack([s[layer][0] for s in seen])
            inside = torch.stack([s[layer][1] for s in seen]).mean(0)
            var = inside + means.var(0, correction=0)
            mean = own * module.running_mean + (1 - own) * means.mean(0)
            var = own * module.running_var + (1 - own) * var
            x = torch.nn.functional.batch_norm(
                x, mean, var, module.weight.detach(), module.bias.detach(), eps=module.eps
            )
            layer += 1
        torch.testing.assert_close(p.members[k], x[0].sigmoid(), atol=1e-6, rtol=0)


def _captured_by_hand(net, x):
    """Mean and variance that each BatchNorm sees when all follow the window."""
    seen = []
    for module in net:
        if isinstance(module, nn.BatchNorm2d):
            seen.append((x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)))
            x = torch.nn.functional.batch_norm(
                x, *seen[-1], module.weight.detach(), module.bias.detach(), eps=module.eps
            )
        else:
            with torch.no_grad():
                x = module(x)
    return seen


def test_adapt_with_windows_of_their_own():
    net, image = shallow(), torch.rand(1, 32, 16)
    p = windowed(sitta.Adapt(net), (16, 16), overlap=0, statistics="window")(image)
    each = [sitta.Adapt(net, budget="full")(image[:, a : a + 16]) for a in (0, 16)]
    members = torch.cat([one.members for one in each], dim=-2)
    torch.testing.assert_close(p.members, members, atol=1e-5, rtol=1e-4)


def test_expected_dice_borrows_the_ends_window_by_window():
    """A method of one lambda does not put the whole image through the network at once."""
    net, image = shallow(), torch.rand(1, 32, 48)
    known = Calibration(12, 12, True, "", (ClassCalibration("organ", True, 0.0),))
    net.card = {"calibration": known.as_dict()}
    sides = []
    net[0].register_forward_pre_hook(lambda _, given: sides.append(given[0].shape[2:]))
    p = windowed(sitta.Source(net, lam=0.3), (16, 16), overlap=0)(image)
    assert set(sides) == {(16, 16)}
    whole = sitta.Source(net, lam=0.3)(image)
    assert p.record.ends.shape == (2, 1, 1, 32, 48)
    torch.testing.assert_close(
        torch.from_numpy(p.record.ends), torch.from_numpy(whole.record.ends), atol=1e-5, rtol=0
    )
