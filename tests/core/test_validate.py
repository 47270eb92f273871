"""Every kind of wrong input gets an error of its own that says what to do."""

import numpy as np
import pytest
import torch
from torch import nn

import sitta
from tests.nets import Net, case


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
    array = images[0].numpy()
    frozen = array.copy()
    frozen.flags.writeable = False
    forms = [array, frozen, array.astype(">f4"), array[:, ::-1].copy()[:, ::-1], array.tolist()]
    forms += [images[0].double(), images[0].clone().requires_grad_()]
    for same in forms:
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
        ({"step": 0}, r"step is out of range.*>= 0.001 and <= 1.*Got: 0"),
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
    for kind in (sitta.InvalidImage, sitta.InvalidSetting, sitta.UnsupportedModel):
        assert issubclass(kind, sitta.SittaError)
    assert issubclass(sitta.InvalidImage, ValueError)
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


def test_several_images_as_a_list_of_tensors():
    net, images = case()
    a, b = sitta.InTEnt(net)(list(images)), sitta.InTEnt(net)(images)
    assert torch.equal(a.probability, b.probability)


def test_numbers_may_be_those_of_numpy():
    net, _ = case()
    adapt = sitta.InTEnt(net, step=np.float32(0.5), topk=np.int64(3))
    assert len(adapt.grid) == 3


def test_only_a_wrong_entrance_is_called_wrong_channels():
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.enter = (
                nn.Conv2d(4, 1, 1),
                nn.Conv2d(1, 4, 3),
            )  # listed last, used first
            self.norm = nn.BatchNorm2d(4)

        def forward(self, x):
            return self.head(self.norm(self.enter(x))) + x  # fails: 7x7 and 9x9

    with pytest.raises(RuntimeError, match="must match") as caught:
        sitta.InTEnt(Late())(torch.rand(1, 9, 9))
    assert not isinstance(caught.value, sitta.SittaError)
    with pytest.raises(sitta.InvalidImage, match=r"Allowed: 1.*Got: 2"):
        sitta.InTEnt(Late())(torch.rand(2, 9, 9))


def test_an_adapter_travels():
    import copy
    import pickle

    net, images = case()
    adapt = sitta.InTEnt(net, step=0.5)
    expected = adapt(images).probability
    for other in (pickle.loads(pickle.dumps(adapt)), copy.deepcopy(adapt)):  # noqa: S301
        assert other.grid == adapt.grid
        assert other.model is not net
        assert torch.equal(other(images).probability, expected)


@pytest.mark.parametrize("name", sitta.methods())
def test_inference_mode_anywhere(name):
    settings = {"views": 2} if name == "memo" else {}
    with torch.inference_mode():
        made, image = Net().eval(), torch.rand(1, 12, 12)  # all its tensors are inference tensors
        built = sitta.method(name, made, **settings)
    inside = None
    with torch.inference_mode():
        inside = built(image)
    outside = built(image)
    torch.testing.assert_close(inside.probability, outside.probability)
    assert outside.probability.isfinite().all()
