"""A scale that is not that of training is told by an image of the source."""

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from sitta.inference.checkup import check
from tests.shell import sitta_command

NET = """
import torch
from torch import nn


def net():
    layers = nn.Conv2d({0}, 6, 3), nn.BatchNorm2d(6, momentum=1.0), nn.ReLU(), nn.Conv2d(6, 1, 1)
    torch.manual_seed(0)
    made = nn.Sequential(nn.ZeroPad2d(1), *layers)
    picture = torch.load("{1}", weights_only=True)
    made.train()(picture)
    return made.eval()
"""
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
SCALES = {
    "divide": lambda x: x / 255,
    "z-score": lambda x: (x - x.mean()) / x.std(),
    "standardise as for ImageNet": lambda x: (x / 255 - MEAN) / STD,
    "standardise to -1 and 1": lambda x: x / 127.5 - 1,
}


@pytest.fixture
def trained(tmp_path):
    def make(truth, scale):
        chance = np.random.default_rng(0)
        x = 90 + 40 * chance.random((32, 32, 3)) + np.array([30, 0, -30])
        x = x.astype(np.uint8)
        (tmp_path / "images").mkdir()
        Pillow.fromarray(x).save(tmp_path / "images" / "a.png")
        values = SCALES[truth](x.astype(float)).transpose(2, 0, 1)[None]
        torch.save(torch.tensor(values, dtype=torch.float32), tmp_path / "x.pt")
        (tmp_path / "net.py").write_text(NET.format(3, tmp_path / "x.pt"))
        (tmp_path / "model.toml").write_text(
            'profile = 1\n[model]\nfactory = "net.py:net"\n[preprocess]\nchannels = 3\n'
            f"size = [32, 32]\n{scale}\n"
        )
        return tmp_path / "model.toml", tmp_path / "images" / "a.png"

    return make


@pytest.mark.parametrize("truth", SCALES)
def test_the_scale_of_training_is_found(truth, trained):
    found = check(*map(str, trained(truth, 'scale = "min-max"')))
    (warning,) = (each for each in found.warnings if "closer" in each)
    assert warning.startswith(f"With scale {truth}")


def test_the_right_scale_is_not_doubted(trained):
    mean, std = ", ".join(map(str, MEAN)), ", ".join(map(str, STD))
    scale = f'scale = "standardise"\nmean = [{mean}]\nstd = [{std}]'
    path, image = trained("standardise as for ImageNet", scale)
    assert not [each for each in check(str(path), str(image)).warnings if "closer" in each]


@pytest.mark.parametrize(
    ("scale", "code", "said"),
    [
        ("", 2, "Nothing says how images were scaled in training"),
        ('scale = "min-max"', 0, "With scale divide the image is much closer"),
    ],
)
def test_calibrating_asks_for_the_scale_and_doubts_a_wrong_one(scale, code, said, trained):
    path, image = trained("divide", scale)
    out = path.with_name("calibrated.toml")
    done = sitta_command("calibrate", path, "--images", image.parent, "-o", out)
    assert done.returncode == code, done.stderr
    assert said in " ".join(done.stderr.split())
    assert out.exists() == (code == 0)
