"""``sitta profile new``: a draft of what a network shows, with all that was said about it."""

import re
import shutil
import tomllib

import pytest
import torch
from safetensors.torch import save_file

import sitta
from tests import foreign
from tests.shell import sitta_command


@pytest.fixture
def here(tmp_path):
    shutil.copy(foreign.__file__, tmp_path / "nets.py")
    save_file(foreign.wnet(6).state_dict(), tmp_path / "wnet.safetensors")
    (tmp_path / "more.py").write_text(
        "from torch import nn\n\n\n"
        "def half():\n    return nn.Sequential(nn.Conv2d(1, 2, 1), nn.AvgPool2d(2))\n\n\n"
        "def down():\n    layers = nn.PixelUnshuffle(4), nn.Conv2d(16, 16, 1), nn.PixelShuffle(4)\n"
        "    return nn.Sequential(*layers)\n\n\n"
        "def flat():\n    return nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten(1, 2))\n\n\n"
        "number = 3\n"
    )
    return tmp_path


def new(here, *words):
    done = sitta_command("profile", "new", *words, "-o", "draft.toml", cwd=here)
    return done, here / "draft.toml"


def test_a_factory_with_arguments(here):
    words = ("nets.py:wnet", "--weights", "wnet.safetensors", "--argument", "width=6")
    done, path = new(here, *words, "--output", "1", "--size", "32x32", "--scale", "min-max")
    assert done.returncode == 0, done.stderr
    tables = tomllib.loads(path.read_text())
    assert tables["model"]["arguments"] == {"width": 6}
    assert tables["model"]["output"] == 1
    model = sitta.load(path)
    with torch.no_grad():
        assert len(model(torch.rand(1, 1, 32, 32))) == 2


def test_a_scale_with_a_number_for_each_channel(here):
    scale = "standardise divisor=65535 mean=0.1,0.2,0.3 std=1,2,3"
    done, path = new(here, "nets.py:colours", "--scale", scale)
    assert done.returncode == 0, done.stderr
    inputs = tomllib.loads(path.read_text())["preprocess"]
    assert (inputs["channels"], inputs["mean"], inputs["std"]) == (3, [0.1, 0.2, 0.3], [1, 2, 3])


def test_several_outputs_are_asked_for_wherever_they_lie(here):
    (here / "more.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Conv2d):\n    def forward(self, x):\n"
        "        y = super().forward(x)\n"
        "        return {'maps': [y, y[..., ::2, ::2]], 'features': y.relu()}\n\n\n"
        "def net():\n    return Net(1, 2, 1)\n"
    )
    done, path = new(here, "more.py:net")
    assert done.returncode == 0, done.stderr
    assert '# output = ...  # CHECK: "maps.0" or "features"; which' in path.read_text()


def test_classes_that_may_overlap_are_asked_for(here):
    done, path = new(here, "nets.py:four")
    assert done.returncode == 0
    assert 'activation = "sigmoid"  # CHECK' in path.read_text()


WRONG = {
    "no arguments": (("nets.py:wnet",), "missing a required argument: 'width'.*--argument NAME"),
    "an argument without a value": (("nets.py:wnet", "--argument", "width"), "NAME=VALUE"),
    "no number a channel": (
        ("nets.py:colours", "--scale", "standardise mean=0.5 std=1"),
        "mean needs one number per channel.*3 numbers",
    ),
    "no such output": (("nets.py:inside", "--output", "maps"), "no such output.*'small'.*'main'"),
    "no such activation": (("nets.py:four", "--activation", "relu"), "'activation' cannot be used"),
    "a map of another size": (
        ("more.py:half",),
        "no map of the size of its input.*1 x 128 x 128.*Got: 2 x 64 x 64",
    ),
    "sides that do not divide": (
        ("more.py:down", "--channels", "1", "--size", "33x40"),
        "multiples of 4. Got: 33x40.*--size 36x40",
    ),
    "too many names": (("nets.py:colours", "--classes", "a,b"), "has 1 label.*1 names. Got: a, b"),
    "too few names": (("nets.py:four", "--classes", "a,b"), "3 classes besides.*Got: a, b"),
    "no channels": (("more.py:flat",), r"shape \(1, 128, 128\).*unsqueeze\(1\)"),
    "no function": (("more.py:number",), "more.py:number is no function.*Got: int"),
    "no file": (("none.py:build",), "There is no file none.py"),
    "no weights": (("nets.py:four", "--weights", "none.pt"), "There is no file of weights"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_cannot_be_is_told_and_leaves_no_file(kind, here):
    words, said = WRONG[kind]
    done, path = new(here, *words)
    assert done.returncode == 2
    assert re.search(said, done.stderr), done.stderr
    assert done.stderr.count("Allowed") <= 1
    assert not path.exists()
