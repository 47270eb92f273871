"""First contact: what would make every file wrong is told once, with what to change."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import sitta
from sitta.data import Preprocess, phantom
from sitta.inference import Loaded
from sitta.inference.contact import first_contact
from sitta.models.profile import ClassInfo, Profile
from tests.shell import sitta_command


class Says(nn.Module):
    """A convolution, and what a test makes of it."""

    def __init__(self, then, outputs=1):
        super().__init__()
        torch.manual_seed(0)
        self.net, self.then = nn.Conv2d(1, outputs, 3, padding=1), then

    def forward(self, x):
        return self.then(30 * self.net(x))


@dataclass
class Result:
    """As some libraries return it: no dict and no tuple."""

    logits: torch.Tensor
    loss: None = None


def deep(x):
    return F.interpolate(x[..., ::8, ::8], scale_factor=8) + 0 * x  # sides in multiples of 8


def met(then, outputs=1, side=32, channels=1, scale=1.0, sides=None, **profile):
    told = Profile(factory="nets:net", preprocess=Preprocess(channels=channels), **profile)
    net = Says(then, outputs).eval()
    loaded = Loaded("x", net, told.preprocess, told.names or ("foreground",), "", profile=told)
    values = np.random.default_rng(0).random((1, channels, *(sides or (side, side))))
    return first_contact(loaded, scale * values.astype(np.float32), told.window)


def classes(count):
    return tuple(ClassInfo(f"c{n}") for n in range(count))


WRONG = {
    "probabilities": ((torch.sigmoid,), {}, r'probabilities, not logits.*"probabilities" under'),
    "softmax": ((lambda x: x.softmax(1), 3), {}, "which sum to 1"),
    "labels": ((torch.sigmoid, 3), {}, 'activation = "probabilities-sigmoid"'),
    "sigmoid twice": ((torch.sigmoid,), {"activation": "sigmoid"}, "probabilities, not logits"),
    "no probabilities": (
        (lambda x: x,),
        {"activation": "probabilities"},
        'not between 0 and 1.*activation = "logits"',
    ),
    "no sum": ((torch.sigmoid, 3), {"activation": "probabilities"}, "do not sum to 1"),
    "channels": ((lambda x: x,), {"channels": 3}, "channels.*Allowed: 1. Got: 3.*--channels 1"),
    "sides of a window": (
        (deep,),
        {"window": (12, 12)},
        r"multiples of 8. Got: 12 x 12.*window = .16, 16. under .inference. .--window 16x16",
    ),
    "sides": ((deep,), {"side": 36}, r"multiples of 8. Got: 36 x 36.*--size 40x40"),
    "not finite": ((lambda x: x / 0,), {}, "not finite"),
    "size": ((lambda x: x[..., ::2, ::2],), {}, "another size.*Allowed: 32 x 32. Got: 16 x 16"),
    "classes": ((lambda x: x, 3), {"classes": classes(3)}, "3 channels.*background.*Allowed: 2"),
    "several": (
        (lambda x: (x[..., ::2, ::2], x),),
        {},
        r"several things.*0: 1 x 16 x 16.*1: 1 x 32 x 32.*output = 1 under .*--output 1",
    ),
    "several by name": ((lambda x: {"out": x},), {}, r'output = "out" under .*--output out'),
    "several of one size": (
        (lambda x: {"a": x, "b": [x, x[..., ::2, ::2]]},),
        {},
        r'output = "a" or "b.0" under',
    ),
    "a dataclass": ((lambda x: Result(x),), {}, r'output = "logits" under .*--output logits'),
    "nothing": ((lambda x: None,), {}, "returns no map.*NoneType"),
    "text": ((lambda x: "mask",), {}, "returns no map.*Got: str.*returns its map as a tensor"),
    "no channels": ((lambda x: x[:, 0],), {}, r"shape \(1, 32, 32\).*unsqueeze\(1\)"),
    "channels last": ((lambda x: x.movedim(1, -1), 3), {}, r"Got: 32 x 3.*movedim\(-1, 1\)"),
    "labels of pixels": ((lambda x: x.argmax(1), 3), {}, "int64.*gives the scores from which"),
    "a mask": ((lambda x: (x > 0).float(),), {}, "a mask.*nothing to weigh.*before the threshold"),
    "softmax in half precision": (
        (lambda x: x.softmax(1).bfloat16(), 3),
        {},
        'sum to 1.*activation = "probabilities" under',
    ),
    "no such output": ((lambda x: {"out": x},), {"output": "uot"}, "output='uot' is not in.*out"),
    "window": ((lambda x: x,), {"window": (8, 8, 8)}, "one number a side.*Allowed: 2"),
    "dimensions": (
        (lambda x: x,),
        {"sides": (8, 8, 8)},
        r"images of 2 dimensions.*dims = 2 under .*--dims 2",
    ),
    "a failure": ((lambda x: x.nonsense(),), {}, "fails on an image of 32 x 32.*nonsense"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_for_every_file_is_refused(kind):
    given, settings, said = WRONG[kind]
    with pytest.raises(sitta.SittaError, match=said):
        met(*given, **settings)


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ((lambda x: x,), {}),
        ((torch.sigmoid,), {"activation": "probabilities"}),
        ((lambda x: x.softmax(1), 3), {"activation": "probabilities", "classes": classes(2)}),
        ((torch.sigmoid, 3), {"activation": "probabilities-sigmoid", "classes": classes(3)}),
        ((deep,), {"side": 40}),
        ((lambda x: (x, x),), {"output": 1}),
        ((lambda x: (x[:, :0], [x]),), {"output": "1.0"}),
        ((lambda x: Result(x),), {"output": "logits"}),
        ((lambda x: x.log_softmax(1), 3), {}),
        ((lambda x: x.softmax(1).bfloat16(), 3), {"activation": "probabilities"}),
    ],
)
def test_what_fits_is_let_through(given, settings):
    assert met(*given, **settings) == []


@pytest.mark.parametrize(
    ("then", "activation", "said"),
    [
        (torch.sigmoid, "logits", "seems to return probabilities"),  # said, so it is believed
        (lambda x: (x > 0).float(), "probabilities", "nothing to weigh"),
        (lambda x: 0 * x, None, "returns 0 for every pixel"),
    ],
)
def test_what_may_be_wrong_with_an_output_is_told(then, activation, said):
    (warning,) = met(then, activation=activation)
    assert said in warning


def test_inputs_far_from_what_networks_take_are_told():
    (warning,) = met(lambda x: x, scale=255.0)
    assert "values from" in warning
    assert "scale" in warning


def test_a_network_of_ones_own_without_a_scale_is_told():
    (warning,) = met(lambda x: x, said=frozenset())
    assert "how images were scaled in training" in warning


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--channels", "3"), "takes another number of channels"),
        (("--dims", "3", "--size", "32x32x32"), "takes images of 2 dimensions"),
        (("--scale", "divide"), "other values than the model divides by"),
        (("--window", "32x32x32"), "one number a side"),
    ],
)
def test_what_no_file_would_get_right_ends_the_run_with_one_message(words, said, tmp_path):
    phantom.write(tmp_path, "alder", 3, (64, 64))  # of 16 bits
    images = tmp_path / "phantom/alder/images"
    done = sitta_command("predict", "phantom-alder", images, "-o", tmp_path / "out", *words)
    assert done.returncode == 2
    assert (done.stdout + done.stderr).count(said) == 1
    assert "no other file was tried" in done.stderr
