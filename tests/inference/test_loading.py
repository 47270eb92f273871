"""Models: shipped, trained, or from the user's own code with weights in a file."""

import sys

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import sitta
from sitta.data.preprocess import Preprocess
from sitta.inference import load_model

CODE = """
from torch import nn

def net():
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Conv2d(4, 1, 1))

def text():
    return "no network"

def sized(channels):
    return net()

def broken():
    raise ValueError("no such\\n  width")
"""


@pytest.fixture
def code(tmp_path, monkeypatch):
    (tmp_path / "mynets.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("mynets", None)


def build():
    space = {}
    exec(CODE, space)  # noqa: S102  (the text above)
    return space["net"]()


def test_a_shipped_model_brings_its_preprocessing():
    found = load_model("phantom-alder")
    assert found.preprocess == Preprocess(size=(128, 128))
    assert found.classes == ("organ",)
    changed = load_model("phantom-alder", changes={"size": (64, 64)})
    assert changed.preprocess.size == (64, 64)
    assert changed.digest == found.digest


def test_a_checkpoint_brings_its_own(tmp_path):
    net = sitta.models.UNet(3, 4, channels=4, multipliers=(1, 2))
    usual = Preprocess(size=(20, 30), channels=3, scale="z-score")
    about = {"preprocess": usual.as_dict(), "classes": ["background", "a", "b", "c"]}
    sitta.models.save(net, tmp_path / "net.safetensors", about)
    found = load_model(str(tmp_path / "net.safetensors"))
    assert found.preprocess == usual
    assert found.classes == ("a", "b", "c")


@pytest.mark.parametrize("form", ["safetensors", "pt", "nested", "parallel"])
def test_your_own_network_with_weights(code, form):
    state = build().state_dict()
    path = code / ("w.safetensors" if form == "safetensors" else "w.pt")
    if form == "safetensors":
        save_file(state, path)
    else:
        prefixed = {f"module.{k}": v for k, v in state.items()}
        kept = {"pt": state, "nested": {"state_dict": state, "epoch": 3}, "parallel": prefixed}
        torch.save(kept[form], path)
    found = load_model("mynets:net", path, {"size": (16, 16)})
    assert torch.equal(found.model[0].weight, state["0.weight"])
    assert not found.model.training
    assert found.preprocess.size == (16, 16)
    assert load_model("mynets:net", path).digest == found.digest


def test_what_is_no_model(code, tmp_path):
    with pytest.raises(sitta.InvalidSetting, match="no 'nothing' to import from 'mynets'"):
        load_model("mynets:nothing")
    with pytest.raises(sitta.InvalidSetting, match="import from 'nowhere'"):
        load_model("nowhere:net")
    with pytest.raises(sitta.UnsupportedModel, match=r"returns no torch.nn.Module.*str"):
        load_model("mynets:text")
    with pytest.raises(sitta.SittaError, match="no model or file"):
        load_model("phantom-oak")
    with pytest.raises(sitta.InvalidSetting, match="network of your own"):
        load_model("phantom-alder", "w.pt")
    assert "" not in sys.path[:1]


def test_a_factory_that_cannot_be_called_is_told_in_a_sentence(code):
    with pytest.raises(sitta.InvalidSetting, match=r"mynets:sized cannot be called .*'channels'"):
        load_model("mynets:sized")
    with pytest.raises(sitta.InvalidSetting, match=r"mynets:__name__ is no function.*Got: str"):
        load_model("mynets:__name__")
    with pytest.raises(
        sitta.UnsupportedModel, match=r"ValueError: no such width \(mynets.py, line"
    ):
        load_model("mynets:broken")
    (code / "wrong.py").write_text("def net(:")
    with pytest.raises(sitta.UnsupportedModel, match="wrong cannot be imported: SyntaxError"):
        load_model("wrong:net")


def test_weights_that_cannot_be_used(code):
    torch.save(nn.Linear(1, 1), code / "object.pt")
    with pytest.raises(sitta.SittaError, match=r"more than tensors.*state_dict"):
        load_model("mynets:net", code / "object.pt")
    torch.save([1, 2], code / "list.pt")
    with pytest.raises(sitta.SittaError, match="no state dict"):
        load_model("mynets:net", code / "list.pt")
    torch.save({"0.weight": torch.zeros(1)}, code / "other.pt")
    with pytest.raises(sitta.UnsupportedModel, match="do not fit the network"):
        load_model("mynets:net", code / "other.pt")
    (code / "text.safetensors").write_text("x")
    with pytest.raises(sitta.SittaError, match="not a readable safetensors"):
        load_model("mynets:net", code / "text.safetensors")
    with pytest.raises(sitta.SittaError, match=r"no file of weights .*nowhere\.pt.*check the path"):
        load_model("mynets:net", code / "nowhere.pt")


@pytest.mark.parametrize("factory", ["net.py:build", "net:build", "net.py:late"])
def test_folders_with_modules_of_the_same_names_are_kept_apart(factory, tmp_path, capsys):
    for who in "AB":
        (tmp_path / who).mkdir()
        (tmp_path / who / "parts.py").write_text(f"WHO = '{who}'")
        (tmp_path / who / "later.py").write_text(f"WHO = '{who}'")
        (tmp_path / who / "net.py").write_text(
            CODE
            + "from parts import WHO\n"
            + "def build():\n    print('noise')\n    made = net()\n    made.who = WHO\n"
            + "    return made\n"
            + "def late():\n    import later\n    assert later.WHO == WHO\n    return build()\n"
        )
        (tmp_path / who / "model.toml").write_text(f'profile = 1\n[model]\nfactory = "{factory}"')
    paths = list(sys.path)
    for who in "ABA":
        assert load_model(str(tmp_path / who / "model.toml")).model.who == who
    assert sys.path == paths
    assert capsys.readouterr().out == ""  # it may be JSON
    assert sys.modules["torch"] is torch


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("home", ["", "elsewhere"])
def test_a_file_of_a_package_imports_relatively(marked, home, tmp_path):
    package = tmp_path / "my-vessels" / "models"
    package.mkdir(parents=True)
    (package / "net.py").write_text("from .blocks import net\nfrom ..tools import x\n")
    (package / "blocks.py").write_text(CODE)
    (package.parent / "tools.py").write_text("x = 1")
    for folder in (package, package.parent) if marked or home else ():
        (folder / "__init__.py").touch()
    (tmp_path / home).mkdir(exist_ok=True)
    profile = tmp_path / home / "model.toml"
    up = "../" if home else ""
    profile.write_text(f'profile = 1\n[model]\nfactory = "{up}my-vessels/models/net.py:net"')
    assert len(load_model(str(profile)).model) == 3


def test_code_that_reads_the_command_line_is_told(code, monkeypatch, capsys):
    (code / "script.py").write_text("import argparse\nargparse.ArgumentParser().parse_args()")
    monkeypatch.setattr(sys, "argv", ["sitta", "predict"])
    with pytest.raises(sitta.UnsupportedModel, match=r"script.py cannot be .*command line"):
        load_model("script.py:net")
