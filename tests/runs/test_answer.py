"""The NumPy record of a prediction says what the prediction says."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sitta
from sitta.notes import Limits, codes
from sitta.runs import Answer
from tests.nets import case

KINDS = [(2, 1, "auto"), (2, 4, "auto"), (2, 3, "sigmoid"), (3, 1, "auto"), (3, 3, "auto")]


def answer(p):
    return Answer(**p.arrays())


def assert_same(a, p):
    """Bit for bit, and with an N axis everywhere."""
    np.testing.assert_allclose(a.agreement, p.agreement.numpy(), rtol=1e-6)  # torch sums per batch
    exact = ("mask", "member_masks", "areas", "area", "probability", "members", "weights")
    for name in (*exact, "entropies", "uncertainty", "disagreement", "distance"):
        theirs = getattr(p, name).numpy()
        assert np.array_equal(getattr(a, name), theirs, equal_nan=True), name
    for name in ("change", "source_mask"):
        ours, theirs = getattr(a, name), getattr(p, name)
        assert (ours is None) == (theirs is None), name
        assert ours is None or np.array_equal(ours, theirs.numpy()), name
    assert a.source_member == p.source_member
    assert a.notes == p.notes


@pytest.mark.parametrize(("dims", "outputs", "activation"), KINDS)
def test_it_equals_the_prediction_that_it_is_made_from(dims, outputs, activation):
    net, images = case(dims, outputs)
    p = sitta.InTEnt(net, activation=activation)(images)
    a = answer(p)
    assert len(a) == len(p) == 3
    assert_same(a, p)
    for n, one in enumerate(a):
        assert_same(one, p[n : n + 1])
    assert_same(answer(p[1]), p[1:2])
    with pytest.raises(IndexError):
        a[3]


@pytest.mark.parametrize("name", ["tent", "source", "sita"])
def test_of_any_method(name):
    net, images = case()
    p = sitta.method(name, net)(images)
    assert_same(answer(p), p)


def test_nothing_found_everything_found_and_a_constant_image():
    net, images = case()
    images[1] = 0.3
    for bias in (-50.0, 50.0):
        with torch.no_grad():
            net.head.bias.fill_(bias)
        p = sitta.InTEnt(net)(images)
        assert_same(answer(p), p)
        assert "constant-image" in p.notes[1]
        assert ("no-foreground" in p.notes[0]) == (bias < 0)
        assert ("all-foreground" in p.notes[0]) == (bias > 0)


def test_members_that_overflowed_and_other_types():
    class Cube(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm2d(1)

        def forward(self, x):
            return self.norm(x) ** 3

    p = sitta.InTEnt(Cube().eval())(
        torch.rand(2, 1, 8, 8) * torch.tensor([1, 1e15]).view(2, 1, 1, 1)
    )
    a = answer(p)
    assert_same(a, p)
    assert [one.source_member for one in a] == [0, None]
    net, images = case()
    half = answer(sitta.InTEnt(net.bfloat16())(images))
    assert half.probability.dtype == np.float32


def without_members(a):
    return Answer(
        **{name: getattr(a, name) for name in vars(a) if name in a.__dataclass_fields__}
        | {"members": None}
    )


def test_without_members_what_depends_on_them_is_not_known():
    net, images = case()
    a = answer(sitta.InTEnt(net)(images))
    b = replace(a, members=None)
    assert np.array_equal(a.mask, b.mask)
    assert np.isnan(b.areas).all()
    assert b.areas.shape == a.areas.shape
    assert b.change is None
    assert b.source_mask is None
    assert b.member_masks is None
    assert b[0].members is None
    lost = "foreground-in-some-members"
    assert [set(n) - {lost} for n in a.notes] == [set(n) - {lost} for n in b.notes]


@pytest.mark.parametrize(("agreement", "code"), [(1.0, "no-foreground"), (0.4, "empty-mask")])
def test_an_empty_mask_is_told_by_agreement_if_areas_are_not_known(agreement, code):
    none, both = np.zeros(1), np.ones((2, 1), dtype=bool)
    figures = np.array([[0.1], [0.9]])
    found = codes(both * np.nan, none, figures, both, none + agreement, none, none > 0, Limits(0.3))
    assert found == [[code]]
