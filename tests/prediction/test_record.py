"""The NumPy record of a prediction says what the prediction says."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

import sitta
from sitta.prediction.notes import Limits
from sitta.prediction.scores import SCORES, score_text
from tests.nets import case

KINDS = [(2, 1, "auto"), (2, 4, "auto"), (2, 3, "sigmoid"), (3, 1, "auto"), (3, 3, "auto")]


def answer(p):
    return p.record


def assert_same(a, p):
    """Bit for bit, and with an N axis everywhere."""
    agreement = a.computed["agreement"]
    np.testing.assert_allclose(agreement, p.agreement.numpy(), rtol=1e-6)  # torch sums per batch
    exact = ("mask", "member_masks", "areas", "area", "probability", "members", "weights")
    for name in ("uncertainty", "disagreement"):
        assert np.array_equal(a.computed[name], getattr(p, name).numpy()), name
    for name in (*exact, "entropies", "distance"):
        theirs = getattr(p, name).numpy()
        assert np.array_equal(getattr(a, name), theirs, equal_nan=True), name
    for name in ("change", "source_mask"):
        ours, theirs = getattr(a, name), getattr(p, name)
        assert (ours is None) == (theirs is None), name
        assert ours is None or np.array_equal(ours, theirs.numpy()), name
    assert a.anchor == p.source_member
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


@pytest.mark.parametrize(("dims", "outputs", "activation"), KINDS)
def test_change_is_the_mean_over_classes_by_a_slow_loop(dims, outputs, activation):
    net, images = case(dims, outputs)
    p = sitta.InTEnt(net, activation=activation)(images)
    for n, (before, after) in enumerate(zip(p.source_mask, p.mask, strict=True)):
        if activation == "sigmoid":
            pairs = list(zip(before > 0, after > 0, strict=True))
        else:
            pairs = [(before == c, after == c) for c in range(1, max(outputs, 2))]
        sums = [(int((a & b).sum()), int(a.sum() + b.sum())) for a, b in pairs]
        dice = [2 * both / total for both, total in sums if total]
        expected = 1 - sum(dice) / len(dice) if dice else 0
        assert float(p.change[n]) == pytest.approx(expected, abs=1e-6)


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
    assert [one.anchor for one in a] == [0, None]
    net, images = case()
    half = answer(sitta.InTEnt(net.bfloat16())(images))
    assert half.probability.dtype == np.float32


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
    net, images = case()
    record = sitta.InTEnt(net)(images[:1]).record
    empty = replace(
        record,
        members=None,
        probability=np.zeros_like(record.probability),
        limits=Limits(0.3),
        computed={"agreement": np.array([agreement])},
    )
    assert empty.notes == ((code,),)


def test_scores_and_rows_are_those_of_each_image_alone():
    net, images = case()
    record = sitta.InTEnt(net)(images).record
    assert list(record.scores) == [*SCORES, "doubt"]
    for n, row in enumerate(record.rows()):
        assert row["notes"] == list(record.notes[n])
        for name, values in record.scores.items():
            value = float(values[n])
            assert row[name] == (None if np.isnan(value) else pytest.approx(value)), name
        uncertainty = record.computed["uncertainty"][n].mean()
        check = {"all-foreground", "members-disagree", "constant-image", "member-overflow"}
        stop = {"no-foreground", "empty-mask"}
        urgent = 2 if stop & set(row["notes"]) else bool(check & set(row["notes"]))
        worst = max(1 - row["agreement"], uncertainty)
        assert row["doubt"] == pytest.approx(urgent + worst)
    changed = replace(record, updated=True, trained=None)
    assert changed.anchor is changed.rows()[0]["change"] is changed.rows()[0]["area_source"] is None


def test_nothing_is_computed_that_is_not_asked_for():
    net, images = case()
    prediction = sitta.InTEnt(net)(images)
    assert prediction.area.shape == prediction.change.shape == (3,)
    assert prediction.notes
    assert list(prediction.record.computed) == ["agreement"]


def test_a_prediction_can_be_pickled_with_its_record():
    net, images = case()
    prediction = sitta.InTEnt(net)(images)
    before = prediction.record.rows()
    again = pickle.loads(pickle.dumps(prediction))  # noqa: S301  (our own)
    assert again.record.rows() == before
    assert pickle.loads(pickle.dumps(prediction.record[1])).rows() == before[1:2]  # noqa: S301


def test_scores_in_words():
    assert SCORES["area"].text(0.125) == "12.5 %"
    assert SCORES["agreement"].text(0.5) == "0.500"
    assert SCORES["uncertainty"].text(0.0625) == "0.062 bit"
    assert SCORES["distance"].text(None) == SCORES["distance"].text(float("nan")) == "not measured"
    assert score_text(SCORES["area"], {"area": 0.12, "area_source": 0.1}) == "10.0 % → 12.0 %"
    assert score_text(SCORES["area"], {"area": 0.12, "area_source": None}) == "12.0 %"
