"""Every kind of wrong input gets an error of its own that says what to do."""

import numpy as np
import pytest
import torch
from torch import nn

import sitta
from tests.nets import case


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (torch.rand(3, 12, 12), r"wrong number of channels.*Allowed: 1.*Got: 3"),
        (torch.rand(12, 12), r"2 axes.*2D.*\(C, H, W\).*image\[None\]"),
        (torch.rand(1, 1, 1, 12, 12), r"5 axes"),
        (torch.zeros(1, 12, 12, dtype=torch.uint8), r"floating-point.*uint8.*/ 255"),
        (torch.zeros(1, 12, 12, dtype=torch.bool), r"floating-point.*bool"),
        (torch.zeros(1, 12, 12, dtype=torch.complex64), r"floating-point.*complex64"),
        (torch.full((1, 12, 12), float("nan")), r"not finite.*144 NaN and 0 infinite of 144"),
        (torch.full((1, 12, 12), float("inf")), r"not finite.*0 NaN and 144 infinite"),
        (np.full((1, 12, 12), 1e300), r"not finite.*float32"),
        (torch.rand(1, 0, 12), r"empty"),
        (torch.rand(0, 1, 12, 12), r"empty"),
        ("image.png", r"not an array of numbers.*str"),
        (None, r"not an array of numbers.*NoneType"),
    ],
)
@pytest.mark.parametrize("name", ["source", "intent"])
def test_wrong_images(name, image, message):
    net, _ = case()
    with pytest.raises(sitta.InvalidImage, match=message):
        sitta.method(name, net)(image)


def test_volume_for_a_2d_model_and_picture_for_a_3d_one():
    net, images = case(3)
    with pytest.raises(sitta.InvalidImage, match=r"3 axes, but the model works in 3D"):
        sitta.InTEnt(net)(images[0, :, 0])


def test_what_is_accepted():
    net, images = case()
    expected = sitta.InTEnt(net)(images[0]).probability
    for same in (images[0].double(), images[0].numpy(), images[0].clone().requires_grad_()):
        found = sitta.InTEnt(net)(same).probability
        torch.testing.assert_close(found, expected)
        assert found.dtype == torch.float32


def test_an_error_of_the_model_itself_comes_through_with_a_note():
    class Picky(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(1)

        def forward(self, x):
            if x.shape[-1] % 8:
                raise ValueError("sides must be divisible by 8")
            return self.norm(x)

    with pytest.raises(ValueError, match="divisible by 8") as caught:
        sitta.InTEnt(Picky())(torch.rand(1, 9, 9))
    assert not isinstance(caught.value, sitta.SittaError)
    assert "(1, 1, 9, 9)" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lambdas": []}, r"lambdas holds no value"),
        ({"lambdas": "0.5"}, r"lambdas holds no value.*'0.5'"),
        ({"lambdas": [0.5, 1.2]}, r"lambdas is out of range.*>= 0 and <= 1.*1.2"),
        ({"lambdas": [float("nan")]}, r"lambdas is out of range"),
        ({"step": 0}, r"step is out of range.*> 0 and <= 1.*Got: 0"),
        ({"step": 1.5}, r"step is out of range"),
        ({"step": "0.2"}, r"step is out of range.*a number.*'0.2'"),
        ({"step": True}, r"step is out of range"),
        ({"strategy": "mean"}, r"strategy is out of range.*average, vote.*'mean'"),
        ({"statistics": "batch"}, r"captured, in-layer"),
        ({"variance": None}, r"biased, unbiased.*None"),
        ({"members_at_once": 0}, r"members_at_once.*whole number >= 1"),
        ({"members_at_once": 1.5}, r"members_at_once.*whole number"),
        ({"topk": 0}, r"topk"),
        ({"rho": 0.0}, r"rho.*> 0"),
        ({"activation": "tanh"}, r"auto, sigmoid, softmax"),
    ],
)
def test_wrong_settings(settings, message):
    net, _ = case()
    with pytest.raises(sitta.InvalidSetting, match=message):
        sitta.InTEnt(net, **settings)


def test_lambdas_may_be_any_sequence_of_numbers():
    net, images = case()
    for lambdas in ((1, 0), np.linspace(1, 0, 3), torch.linspace(1, 0, 3)):
        assert len(sitta.InTEnt(net, lambdas=lambdas)(images[0]).weights) == len(lambdas)


def test_not_a_model():
    with pytest.raises(sitta.UnsupportedModel, match=r"not a torch.nn.Module.*function"):
        sitta.InTEnt(lambda x: x)


def test_source_needs_batch_norm_below_lambda_1_only():
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Conv2d(4, 1, 1)
    ).eval()
    image = torch.rand(1, 8, 8)
    with torch.no_grad():
        expected = net(image[None])[0].sigmoid()
    torch.testing.assert_close(sitta.Source(net)(image).probability, expected)
    with pytest.raises(sitta.UnsupportedModel, match="1 GroupNorm"):
        sitta.Source(net, 0.5)


def test_errors_are_also_what_python_would_raise():
    assert issubclass(sitta.InvalidImage, (ValueError, sitta.SittaError))
    assert issubclass(sitta.InvalidSetting, ValueError)
    assert issubclass(sitta.UnsupportedModel, TypeError)


def test_the_image_is_not_changed_and_not_shared():
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(1)

        def forward(self, x):
            return self.norm(x.mul_(2).add_(1))

    image = torch.rand(1, 8, 8)
    before = image.clone()
    expected = None
    for name, kind in sitta.methods().items():
        settings = {"steps": 3} if "steps" in kind.__dataclass_fields__ else {}
        p = sitta.method(name, InPlace().eval(), **settings)(image)
        assert torch.equal(image, before), name
        assert torch.equal(p.image, before), name
        if name == "source":
            expected = p
    image.zero_()
    assert torch.equal(expected.image, before)
    assert "constant-image" not in expected.notes
    sharp = sitta.InTEnt(InPlace().eval(), strategy="sharpness")(before)
    plain = sitta.InTEnt(InPlace().eval())(before)
    torch.testing.assert_close(sharp.members, plain.members)
