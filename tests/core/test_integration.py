"""Strategies: properties of the weights, closed forms, and what each is in words."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import sitta
from sitta.core.agreement import agreement, disagreement, foreground
from sitta.core.integration import STRATEGIES, integrate, is_flat, weigh
from tests.nets import case

NAMES = [
    *("average", "vote", "entropy", "ent-min", "ent-topk"),
    *("ent-norm", "ent-baln", "ent-power", "sharpness"),
]
figures = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 9), st.integers(1, 3)), elements=st.floats(0, 1)
).map(torch.from_numpy)


def test_all_nine_strategies_are_there():
    assert list(STRATEGIES) == NAMES


def test_power_is_the_entropy_to_the_minus_twenty():
    entropy = torch.rand(6, 4, dtype=torch.float64) * 0.6 + 0.05
    entropy[2, 1] = torch.inf  # not usable
    expected = entropy.numpy() ** -20
    expected /= expected.sum(axis=0)
    np.testing.assert_allclose(weigh("ent-power", entropy).numpy(), expected, rtol=1e-9)
    assert expected[2, 1] == 0


def test_power_puts_an_empty_member_last():
    net, images = case()
    p = sitta.InTEnt(net, strategy="ent-power")(images)
    usual = sitta.InTEnt(net)(images)
    finds = p.member_masks.flatten(2).any(dim=2)
    entropy = torch.where(finds, usual.entropies, 1.0)
    torch.testing.assert_close(p.entropies, entropy)
    torch.testing.assert_close(p.weights, weigh("ent-power", entropy))


@given(figures, st.sampled_from(NAMES))
def test_weights_sum_to_one_and_fall_with_the_figure(f, name):
    w = weigh(name, f)
    assert (w >= 0).all()
    torch.testing.assert_close(w.sum(0), torch.ones(f.shape[1], dtype=f.dtype))
    order = f.argsort(0)
    sorted_weights = w.gather(0, order)
    apart = f.gather(0, order).diff(dim=0) > 1e-12
    assert (sorted_weights.diff(dim=0)[apart] <= 1e-12).all()


@given(figures, st.sampled_from(NAMES), st.randoms())
def test_order_of_members_does_not_matter(f, name, chance):
    assume((f.sort(0).values.diff(dim=0) > 1e-9).all())  # no ties to break
    order = list(range(len(f)))
    chance.shuffle(order)
    torch.testing.assert_close(weigh(name, f[order]), weigh(name, f)[order])


@given(figures, st.floats(0.1, 10), st.floats(-3, 3))
def test_normalised_weights_do_not_see_scale_or_shift(f, scale, shift):
    assume((~is_flat(f) & ~is_flat(f * scale + shift)).all())  # as they are weighed: 1e-6 rounds
    torch.testing.assert_close(weigh("ent-norm", f * scale + shift), weigh("ent-norm", f))


@given(figures)
def test_best_weighs_e_times_the_worst(f):
    assume(len(f) > 1 and not is_flat(f).any())
    w = weigh("ent-baln", f)
    torch.testing.assert_close(w.amax(0) / w.amin(0), torch.full_like(w[0], math.e))


def test_closed_forms():
    f = torch.tensor([[0.5], [0.1], [0.3], [0.2]], dtype=torch.float64)
    assert weigh("average", f).flatten().tolist() == [0.25] * 4
    assert weigh("ent-min", f).flatten().tolist() == [0, 1, 0, 0]
    assert weigh("ent-topk", f).flatten().tolist() == [0, 0.5, 0, 0.5]
    assert weigh("ent-topk", f, topk=3).flatten().tolist() == pytest.approx(
        [0, 1 / 3, 1 / 3, 1 / 3]
    )
    assert weigh("ent-topk", f, topk=9).flatten().tolist() == [0.25] * 4
    e = np.exp(-np.array([1, 0, 0.5, 0.25]))
    np.testing.assert_allclose(weigh("ent-norm", f).flatten(), e / e.sum())
    e = np.exp(-f.numpy())
    np.testing.assert_allclose(weigh("entropy", f), e / e.sum())


@given(figures, st.sampled_from(NAMES))
def test_a_member_that_must_not_count_does_not(f, name):
    without = torch.cat([f, torch.full_like(f[:1], torch.inf)])
    w = weigh(name, without)
    assert (w[-1] == 0).all()
    torch.testing.assert_close(w[:-1], weigh(name, f))


def test_vote_is_the_majority_and_average_the_mean():
    p = torch.tensor([0.6, 0.6, 0.0]).view(3, 1, 1, 1)
    w = weigh("vote", torch.rand(3, 1))
    assert integrate(p, w, "vote", "sigmoid").item() == pytest.approx(2 / 3)
    assert integrate(p, w, "average", "sigmoid").item() == pytest.approx(0.4)
    classes = torch.tensor([[0.4, 0.5, 0.1], [0.4, 0.5, 0.1], [0.9, 0.0, 0.1]]).view(3, 1, 3, 1)
    votes = integrate(classes, w, "vote", "softmax").flatten()
    torch.testing.assert_close(votes, torch.tensor([1 / 3, 2 / 3, 0.0]))


def test_agreement_equals_a_loop():
    chance = torch.Generator().manual_seed(1)
    members = torch.rand(4, 2, 3, 5, 5, generator=chance)
    usable = torch.tensor([[True, True], [True, False], [True, True], [True, True]])
    for activation in ("sigmoid", "softmax"):
        maps = foreground(members, activation)
        found = agreement(maps, usable)
        for n in range(2):
            scores = []
            for i in range(4):
                for j in range(i):
                    if usable[i, n] and usable[j, n]:
                        for f in range(maps.shape[2]):
                            a, b = maps[i, n, f], maps[j, n, f]
                            scores.append(float(2 * (a * b).sum() / (a.sum() + b.sum())))
            assert float(found[n]) == pytest.approx(np.mean(scores), abs=1e-6)


def test_agreement_of_absent_classes():
    maps = torch.zeros(3, 1, 2, 4)
    everyone = torch.ones(3, 1, dtype=torch.bool)
    assert agreement(maps, everyone) == 1  # all find nothing
    maps[:, 0, 0, :2] = 1
    assert agreement(maps, everyone) == 1  # a class that nobody predicts does not count
    maps[0, 0, 1, 0] = 1
    assert float(agreement(maps, everyone)) == pytest.approx((3 + 0 + 0 + 1) / 6)


def test_disagreement_is_mutual_information():
    same = torch.full((4, 1, 1, 2), 0.3)
    everyone = torch.ones(4, 1, dtype=torch.bool)
    assert disagreement(same, "sigmoid", everyone).abs().max() < 1e-6
    opposed = torch.tensor([0.0, 0.0, 1.0, 1.0]).view(4, 1, 1, 1)
    assert disagreement(opposed, "sigmoid", everyone).item() == pytest.approx(1)
    half = torch.tensor([[True], [True], [False], [False]])
    assert disagreement(opposed, "sigmoid", half).item() == 0


@given(hnp.arrays(np.float32, (3, 1, 2, 4), elements=st.floats(0, 1, width=32)))
def test_disagreement_is_between_zero_and_the_entropy_of_the_mean(p):
    members = torch.from_numpy(p)
    found = disagreement(members, "sigmoid", torch.ones(3, 1, dtype=torch.bool))
    assert (found >= 0).all()
    assert (found <= 1 + 1e-6).all()
