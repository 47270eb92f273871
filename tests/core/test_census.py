"""inspect: the census of normalisation layers and which methods apply."""

import torch
from torch import nn

import sitta
from tests.nets import CONV, Net


def test_counts_every_family():
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.BatchNorm2d(8, track_running_stats=False),
        nn.InstanceNorm2d(8),
        nn.InstanceNorm2d(8, track_running_stats=True, affine=True),
        nn.GroupNorm(2, 8),
        nn.LayerNorm([4, 5]),
        nn.SyncBatchNorm(8, affine=False),
    )
    found = sitta.inspect(net)
    c = found.census
    assert [(x.family, x.running, x.affine) for x in c.layers] == [
        ("BatchNorm", True, True),
        ("BatchNorm", False, True),
        ("InstanceNorm", False, False),
        ("InstanceNorm", True, True),
        ("GroupNorm", False, True),
        ("LayerNorm", False, True),
        ("BatchNorm", True, False),
    ]
    assert [x.name for x in c.mixable] == ["1", "4", "7"]
    assert c.rank == 2
    assert c.in_channels == 3
    assert c.layers[5].features == 5
    text = str(found)
    assert "1 BatchNorm2d without running statistics" in text
    assert "intent   applies" in text


def test_rank_is_the_highest_of_the_convolutions():
    for dims in (2, 3):
        assert sitta.inspect(Net(dims)).census.rank == dims
    unet = sitta.models.UNet(channels=4, multipliers=(1, 2))  # has BatchNorm1d and Conv1d inside
    assert sitta.inspect(unet).census.rank == 2
    assert sitta.inspect(nn.Linear(2, 2)).census.rank is None


def test_says_why_a_method_does_not_apply():
    for norm in (nn.InstanceNorm2d, lambda c: nn.GroupNorm(2, c), lambda _: nn.Identity()):
        found = sitta.inspect(Net(norm=norm))
        assert {"intent", "sita"}.isdisjoint(found.applies)
        assert (
            "no BatchNorm or InstanceNorm layer with running statistics" in found.problems["intent"]
        )
    assert "no normalisation layer" in str(sitta.inspect(nn.Conv2d(1, 1, 1)))


def test_subclasses_count_under_their_own_name():
    class Mine(nn.BatchNorm3d):
        pass

    found = sitta.inspect(nn.Sequential(CONV[3](1, 2, 3), Mine(2)))
    assert found.census.layers[0].kind == "Mine"
    assert found.applies == tuple(sitta.methods())


def test_inspecting_changes_nothing():
    net = Net().train()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    sitta.inspect(net)
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())
    assert net.training


def test_one_odd_convolution_does_not_make_a_model_3d():
    net = Net(2)
    net.odd = nn.Conv3d(1, 1, 1)
    assert sitta.inspect(net).census.rank == 2
