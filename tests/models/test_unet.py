"""The improved U-Net: structure, sizes, presets, published checkpoints."""

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import sitta
from sitta.models import UNet
from sitta.models.blocks import Attention, Down, ResBlock, Up, pad_to_multiple
from tests import ROOT

GOLDEN = ROOT / "tests" / "golden" / "weights.safetensors"


def millions(net):
    return sum(p.numel() for p in net.parameters()) / 1e6


@pytest.mark.parametrize(
    ("name", "size"), [("compact", 1.04), ("paper", 60.25), ("reference", 39.85)]
)
def test_presets(name, size):
    with torch.device("meta"):
        net = UNet.preset(name, in_channels=1, out_channels=1)
    assert millions(net) == pytest.approx(
        size, abs=0.005
    )  # paper and reference: the published sums
    attention = [m for m in net.modules() if isinstance(m, Attention)]
    assert len(attention) == {"compact": 4}.get(name, 6)
    assert {m.norm.num_features for m in attention} == {m.qkv.in_channels for m in attention}
    assert sum(isinstance(m, Down) for m in net.modules()) == 3
    assert sum(isinstance(m, Up) for m in net.modules()) == 3


def test_reference_has_29_norms_and_one_convolution_a_block():
    with torch.device("meta"):
        net = UNet.preset("reference")
    assert len(sitta.inspect(net).census.mixable) == 29
    assert all(m.second is None for m in net.modules() if isinstance(m, ResBlock))


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (8, 8), (9, 8), (50, 37)])
def test_any_input_size(size):
    net = UNet(1, 2, channels=4).eval()
    assert net(torch.rand(1, 1, *size)).shape == (1, 2, *size)


def test_a_size_that_fits_is_not_padded_and_others_are_by_repetition():
    x = torch.rand(1, 1, 8, 16)
    assert pad_to_multiple(x, 8) is x
    y = pad_to_multiple(torch.rand(1, 1, 5, 7), 8)
    assert torch.equal(y[..., 7], y[..., 6])
    assert torch.equal(y[..., 5, :], y[..., 4, :])


def test_flat_levels_keep_the_slices():
    net = UNet.preset("compact3d", in_channels=1, out_channels=3).eval()
    seen = []
    for part in net.down:
        part.register_forward_hook(lambda _, __, y: seen.append(tuple(y.shape[2:])))
    assert net(torch.rand(1, 1, 6, 16, 20)).shape == (1, 3, 6, 16, 20)
    assert {(8, 16, 20), (8, 8, 10), (4, 4, 5)} == set(seen)  # six slices grow to eight
    again = UNet(**net.config)
    assert again.load_state_dict(net.state_dict())
    assert "flat" not in UNet(channels=4, multipliers=(1, 2)).config
    with pytest.raises(sitta.InvalidSetting, match="for volumes"):
        UNet.preset("compact3d", dims=2)


def test_volumes():
    net = UNet(1, 3, channels=4, multipliers=(1, 2), dims=3).eval()
    assert net(torch.rand(2, 1, 5, 6, 7)).shape == (2, 3, 5, 6, 7)
    assert sitta.inspect(net).census.rank == 3
    p = sitta.InTEnt(net)(torch.rand(1, 6, 8, 8))
    assert p.mask.shape == (6, 8, 8)


def test_outputs_start_at_zero():
    net = UNet(channels=4)
    assert (net.eval()(torch.rand(1, 1, 16, 16)) == 0).all()
    for m in net.modules():
        if isinstance(m, Attention):
            assert (m.out.weight == 0).all()
        if isinstance(m, ResBlock):
            assert (m.second[-1].weight == 0).all()


def test_dropout_only_in_training():
    net = UNet(channels=4, dropout=0.5)
    assert sum(isinstance(m, nn.Dropout) for m in net.modules()) > 0
    for p in net.parameters():
        nn.init.normal_(p, std=0.1)
    x = torch.rand(2, 1, 16, 16)
    assert torch.equal(net.eval()(x), net(x))
    assert not torch.equal(net.train()(x), net(x))


def test_attention_equals_plain_arithmetic():
    layer = Attention(8, heads=2).eval()
    nn.init.normal_(layer.out.weight)
    x = torch.randn(1, 8, 3, 3)
    flat = x.flatten(2)
    qkv = layer.qkv(layer.norm(flat))[0]
    rows = []
    for head in qkv.chunk(2):
        q, k, v = head.chunk(3)
        scores = (q.T @ k / 2).softmax(-1)  # sqrt of 4 channels a head
        rows.append(v @ scores.T)
    expected = flat + layer.out(torch.cat(rows)[None])
    torch.testing.assert_close(layer(x).flatten(2), expected)


@pytest.mark.parametrize("prefix", ["", "module."])
def test_from_reference_reads_its_configuration(prefix):
    state = {prefix + k: v for k, v in load_file(GOLDEN).items()}
    net = UNet.from_reference(state)
    assert net.config["channels"] == 4
    assert net.config["multipliers"] == (1, 2, 4, 8)
    assert net.config["blocks"] == 2
    assert not net.config["full_blocks"]
    assert not net.training


def test_from_reference_refuses_other_files():
    with pytest.raises(sitta.UnsupportedModel, match="not a checkpoint of the published"):
        UNet.from_reference({"conv.weight": torch.zeros(1)})
    state = load_file(GOLDEN)
    for missing in ("input_blocks.4.0.in_layers.0.weight", "input_blocks.1.0.in_layers.2.weight"):
        broken = {k: v for k, v in state.items() if k != missing}
        with pytest.raises(sitta.UnsupportedModel, match="does not fit"):
            UNet.from_reference(broken)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"dims": 4}, "dims"), ({"heads": 3}, "heads"), ({"multipliers": ()}, "multipliers")],
)
def test_wrong_settings(settings, message):
    with pytest.raises(sitta.InvalidSetting, match=message):
        UNet(**{"channels": 4, **settings})
    with pytest.raises(sitta.InvalidSetting, match=r"compact, paper, reference.*'large'"):
        UNet.preset("large")
