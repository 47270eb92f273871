"""``accelerate=False`` turns every inference optimisation off, and changes no number."""

import pytest
import torch
from torch import nn

import sitta
from sitta.core.accel import allocator, optimizer, shared_prefix
from sitta.core.surgery import restore
from tests.nets import case, trained

SETTINGS = {
    "source": {"lam": 0.4},
    "intent": {},
    "tent": {"steps": 2},
    "sita": {"views": 3},
    "memo": {"views": 3},
}


def upsampling():
    """A net in which everything that can be optimised is."""
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.BatchNorm2d(8),
        nn.SiLU(),
        nn.Conv2d(8, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Upsample(scale_factor=2),
        nn.Conv2d(8, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 1, 1),
    )
    return trained(net, (1, 12, 12)), torch.rand(3, 1, 12, 12)


NETS = {
    "2D": case,
    "3D": lambda: case(dims=3),
    "classes": lambda: case(outputs=3),
    "float64": lambda: case(dtype=torch.float64),
    "upsampling": upsampling,
    "unet": lambda: (
        trained(sitta.models.UNet(channels=4, multipliers=(1, 2)), (1, 16, 16)),
        torch.rand(2, 1, 16, 16),
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("kind", NETS)
def test_both_ways_give_the_same_numbers(name, kind):
    net, images = NETS[kind]()
    fast, plain = (
        sitta.method(name, net, accelerate=on, **SETTINGS[name])(images) for on in (True, False)
    )
    for field in ("members", "probability", "entropies", "weights"):
        torch.testing.assert_close(getattr(fast, field), getattr(plain, field), rtol=0, atol=2e-5)


def test_switched_off_nothing_is_optimised(monkeypatch):
    def refuse(*_args, **_settings):
        raise AssertionError("an optimisation was used")

    net, images = upsampling()
    with sitta.InTEnt(net)._twins.borrow() as twin:
        optimised = [type(m).__name__ for m in twin.module.modules()]
        assert {"OptimizedSequential", "OptimizedConv2d", "MixedBatchNorm2d"} <= set(optimised)
    monkeypatch.setattr(optimizer, "upsample_conv", refuse)
    monkeypatch.setattr(shared_prefix.SharedPrefix, "begin", refuse)
    monkeypatch.setattr(optimizer, "_normalise_in_place", refuse)
    seen = []
    net[0].register_forward_hook(
        lambda _m, _i, y: seen.append(y.is_contiguous(memory_format=torch.channels_last))
    )
    adapt = sitta.InTEnt(net, accelerate=False)
    adapt(images)
    assert seen
    assert not any(seen)
    with adapt._twins.borrow() as twin:
        assert not any("Optimized" in type(m).__name__ for m in twin.module.modules())


def test_restore_undoes_every_change_of_class():
    net, _ = upsampling()
    with sitta.InTEnt(net)._twins.borrow() as twin:
        restore(twin.module)
        for mine, theirs in zip(twin.module.modules(), net.modules(), strict=True):
            assert type(mine) is type(theirs)
            assert vars(mine).keys() == vars(theirs).keys()


def test_methods_leave_the_allocator_alone(monkeypatch):
    touched = []
    monkeypatch.setattr(allocator, "_tune", lambda *parameters: touched.append(parameters))
    net, images = case()
    sitta.InTEnt(net)(images)
    sitta.Tent(net)(images)
    assert not touched
    allocator.keep_between_passes()
    assert touched
