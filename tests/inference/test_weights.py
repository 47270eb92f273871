"""Weights of a network of one's own, as trainers and wrappers save them."""

import re

import pytest
import torch
from torch import nn

import sitta
from sitta.inference import load_model
from sitta.inference.backends.weights import fill


def net(width=4):
    torch.manual_seed(width)
    return nn.Sequential(nn.Conv2d(1, width, 3), nn.BatchNorm2d(width), nn.Conv2d(width, 1, 1))


def prefixed(prefix):
    return {f"{prefix}{key}": value for key, value in net().state_dict().items()}


def forms():
    state = net().state_dict()
    optimiser = torch.optim.Adam(net().parameters())
    sum(p.sum() for p in optimiser.param_groups[0]["params"]).backward()
    optimiser.step()
    lightning = {
        "epoch": 3,
        "global_step": 100,
        "pytorch-lightning_version": "2.4.0",
        "state_dict": {**prefixed("model."), "loss.weight": torch.ones(2)},
        "optimizer_states": [optimiser.state_dict()],
        "hyper_parameters": {"lr": 1e-3, "name": "unet"},
    }
    return {
        **{prefix: prefixed(prefix) for prefix in ("model.", "module.", "net.", "network.")},
        "_orig_mod.": prefixed("_orig_mod."),
        "two wrappers": prefixed("module._orig_mod."),
        "compiled inside": {k.replace("0.", "0._orig_mod."): v for k, v in state.items()},
        "any that all share": prefixed("segmenter.backbone."),
        "lightning": lightning,
        "wrappers beside a loss": {**prefixed("model.module."), "loss.weight": torch.ones(2)},
        "nested": {"model": {"state_dict": state}, "optimizer": optimiser.state_dict()},
        "nnU-Net": {"network_weights": state, "init_args": {"fold": 0}, "trainer_name": "x"},
        "scalars beside": {**state, "epoch": 3, "best": 0.9, "names": ["a"]},
        "one name of its own": {"unet": state, "epoch": 1},
        "two sets, one usual": {"ema": net(4).state_dict(), "model_state_dict": state},
        "no counters": {k: v for k, v in state.items() if "num_batches" not in k},
    }


@pytest.mark.parametrize("form", forms())
def test_it_loads(form, tmp_path):
    torch.save(forms()[form], tmp_path / "w.pt")
    into = net(4)
    for p in into.parameters():
        nn.init.constant_(p, 7.0)
    fill(into, tmp_path / "w.pt")
    for name, value in net().state_dict().items():
        assert torch.equal(into.state_dict()[name], value), name


def test_several_that_fit_are_not_guessed(tmp_path):
    state = net().state_dict()
    torch.save({"student": state, "teacher": state}, tmp_path / "w.pt")
    with pytest.raises(sitta.SittaError, match=r"several sets.*Got: student, teacher"):
        fill(net(), tmp_path / "w.pt")


def test_a_mismatch_is_told_in_few_keys(tmp_path):
    many = {f"encoder.layer{n}.weight": torch.zeros(3) for n in range(4000)}
    torch.save({**net(6).state_dict(), **many, "2.bias": torch.zeros(1)}, tmp_path / "w.pt")
    with pytest.raises(sitta.UnsupportedModel) as error:
        fill(net(), tmp_path / "w.pt")
    said = str(error.value)
    assert len(said) < 1000
    assert "4000 unexpected: encoder.layer0.weight, encoder.layer1.weight" in said
    assert said.count("encoder.layer") == 5
    assert re.search(r"7 of another shape: 0\.weight \(6 x 1 x 3 x 3 in the file, 4 x 1", said)
    torch.save({"a.b": torch.zeros(1)}, tmp_path / "w.pt")
    with pytest.raises(sitta.UnsupportedModel, match=r"8 missing: 0\.weight,.*no name is the same"):
        fill(net(), tmp_path / "w.pt")
    torch.save(net(6).state_dict(), tmp_path / "w.pt")
    with pytest.raises(sitta.UnsupportedModel, match="check the channels, classes and widths"):
        fill(net(), tmp_path / "w.pt")
    torch.save({"epoch": 3, "names": ["a"]}, tmp_path / "w.pt")
    with pytest.raises(sitta.SittaError, match="holds no state dict"):
        fill(net(), tmp_path / "w.pt")


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_torchscript_has_a_reason_of_its_own(tmp_path, monkeypatch):
    script = torch.jit.script(net())
    script.save(str(tmp_path / "net.pt"))
    reason = r"is TorchScript.*layers cannot be exchanged.*eager network.*state dict"
    with pytest.raises(sitta.UnsupportedModel, match=reason):
        fill(net(), tmp_path / "net.pt")
    with pytest.raises(sitta.UnsupportedModel, match=reason):
        load_model(str(tmp_path / "net.pt"))
    (tmp_path / "scripted.py").write_text(
        "import torch\n\ndef made():\n    return torch.jit.load('net.pt')\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sitta.UnsupportedModel, match=f"What scripted:made returns {reason}"):
        load_model("scripted:made")
    for use in (sitta.inspect, sitta.InTEnt):
        with pytest.raises(sitta.UnsupportedModel, match="TorchScript"):
            use(script)
