"""Settings of every method are bounded, and what is allowed can be run."""

import numpy as np
import pytest
import torch
from torch import nn

import sitta
from sitta._util.settings import constraints, parse
from sitta.data.images import Geometry, Image
from sitta.data.preprocess import Preprocess
from sitta.training import Recipe

KINDS = [*sitta.methods().values(), Preprocess, Recipe]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def deep():
    value: list = []
    for _ in range(900):
        value = [value]
    return value


HOSTILE = {
    "4,000 digits": 10**4000,
    "5,000 digits": -(10**5000),
    "as text": "9" * 5000,
    "huge": 1e308,
    "a large whole number": 2**63 - 1,
    "infinite": float("inf"),
    "no number": float("nan"),
    "lists in lists": deep(),
    "a long list": [0.5] * 100_000,
    "a table": {"a": 1},
    "true": True,
    "bytes": b"1",
}


@each_kind
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_values_are_refused_in_few_words(kind, hostile):
    for name in constraints(kind):
        if name == "rate" and hostile == 2**63 - 1:
            continue  # allowed: an update that overflows is undone
        with pytest.raises(sitta.InvalidSetting, match=name) as caught:
            parse(kind.__name__, {name: hostile}, kind)
        assert len(str(caught.value)) < 500


@each_kind
def test_every_number_has_both_bounds(kind):
    numbers = {k: c for k, (_, c) in constraints(kind).items() if not c.choices}
    assert [k for k, c in numbers.items() if c.low is None and c.above is None] == []
    assert [k for k, c in numbers.items() if c.high is None and c.below is None] == []


def test_a_step_so_small_that_members_cannot_be_listed_is_refused():
    with pytest.raises(sitta.InvalidSetting, match=r">= 0.001 and <= 1"):
        sitta.InTEnt(nn.BatchNorm2d(1), step=1e-9)


CHEAP = ("topk", "radius", "window", "members_at_once", "seed")  # however large, no more passes


def extremes(kind):
    """The smallest and the largest of each number that does not only cost more passes."""
    for name, (_, c) in constraints(kind).items():
        if not (c.choices or c.whole or c.many or name == "step"):
            yield {name: 5e-324 if c.low is None else c.low}
            yield {name: 1 - 2**-53 if c.high is None else c.high}
        if name in CHEAP:
            yield {name: c.high}


@pytest.mark.parametrize("kind", sitta.methods().values(), ids=sitta.methods().keys())
def test_the_extremes_that_are_allowed_give_a_prediction_or_a_clear_error(kind):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Conv2d(4, 1, 1)).eval()
    few = {"views": 2} if "views" in constraints(kind) else {}
    for settings in extremes(kind):
        how = {"strategy": "sharpness"} if kind is sitta.InTEnt and "rho" in settings else {}
        try:
            prediction = kind(net, **few, **how, **settings)(torch.rand(1, 16, 16))
        except sitta.SittaError:
            continue
        assert torch.isfinite(prediction.probability).all(), settings


@pytest.mark.parametrize(
    "changes",
    [
        {"size": (1 << 16, 1 << 16)},
        {"size": (1 << 17, 1)},
        {"size": (4096, 4096, 4096), "dims": 3},
        {"spacing": (1e-300, 1e-300)},
        {"channels": 10**9},
    ],
)
def test_inputs_that_no_memory_holds_are_refused(changes):
    with pytest.raises(sitta.InvalidSetting, match="Allowed"):
        Preprocess(**changes)


def test_a_spacing_that_would_make_an_image_too_large_is_refused_for_that_image():
    film = Image(np.zeros((1, 40, 30)), Geometry((40, 30)), "PNG", "film.png")
    fine = Preprocess(size=None, fit="none", spacing=(1e-5, 1e-5))
    with pytest.raises(sitta.InvalidImage, match=r"too large.*4000000 x 3000000.*larger spacing"):
        fine.apply(film, spacing=(1.0, 1.0))
