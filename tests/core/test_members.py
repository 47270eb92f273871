"""One pass against K passes of a slow, independent reference."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sitta
from sitta.core.members import grid
from tests import slow
from tests.nets import case


@pytest.mark.parametrize("variance", ["biased", "unbiased"])
@pytest.mark.parametrize("outputs", [1, 4])
@pytest.mark.parametrize("dims", [2, 3])
def test_one_pass_equals_k_passes(dims, outputs, variance):
    net, images = case(dims, outputs)
    p = sitta.InTEnt(net, variance=variance)(images)
    for n, image in enumerate(images):
        weights, integrated = slow.intent(net, image, grid(0.2), variance)
        np.testing.assert_allclose(p.weights[:, n], weights, atol=1e-5)
        found = p.probability[n].numpy()
        found = np.concatenate([1 - found, found]) if outputs == 1 else found
        np.testing.assert_allclose(found, integrated, atol=1e-5)
        for k, lam in enumerate(grid(0.2)):
            alone = slow.member_logits(net, image, [lam], variance)[0]
            expected = slow.probability(alone)[-outputs:]
            np.testing.assert_allclose(p.members[k, n], expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dims", [2, 3])
def test_lambda_1_is_model_eval(dims, dtype):
    net, images = case(dims, dtype=dtype)
    with torch.no_grad():
        expected = net.eval()(images).sigmoid()
    for adapt in (sitta.Source(net), sitta.InTEnt(net)):
        torch.testing.assert_close(adapt(images).members[0], expected, rtol=0, atol=1e-6)


def test_lambda_0_is_train_mode_of_batch_norm_for_each_image():
    net, images = case()
    p = sitta.Source(net, 0.0)(images)
    for n, image in enumerate(images):
        other = copy.deepcopy(net).eval()
        for norm in (m for m in other.modules() if isinstance(m, torch.nn.BatchNorm2d)):
            norm.train()
        with torch.no_grad():
            expected = other(image[None])[0].sigmoid()
        torch.testing.assert_close(p.probability[n], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (1.0, [1, 0]),
        (0.5, [1, 0.5, 0]),
        (0.25, [1, 0.75, 0.5, 0.25, 0]),
        (0.3, [1, 0.9, 0.6, 0.3, 0]),
        (0.7, [1, 0.7, 0]),
    ],
)
def test_grid(step, expected):
    assert list(grid(step)) == pytest.approx(expected)


@given(st.floats(0.01, 1.0))
def test_grid_falls_from_1_to_0_in_steps(step):
    lambdas = grid(step)
    gaps = -np.diff(lambdas)
    assert lambdas[0] == 1
    assert lambdas[-1] == 0
    assert (gaps > 0).all()
    assert gaps[1:] == pytest.approx(np.full(len(gaps) - 1, step), abs=1e-6) or len(gaps) == 1
    assert gaps[0] <= step + 1e-6


NET, _ = case(images=1)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10**6),
    st.floats(-100, 100),
    st.floats(1e-6, 1e8),
    st.sampled_from(["ent-baln", "vote", "ent-topk", "entropy", "ent-min"]),
)
def test_any_finite_image_gives_finite_figures(seed, shift, scale, strategy):
    chance = torch.Generator().manual_seed(seed)
    image = torch.randn(1, 12, 12, generator=chance) * scale + shift
    p = sitta.InTEnt(NET, strategy=strategy)(image)
    for figure in (p.probability, p.members, p.entropies, p.weights, p.uncertainty, p.agreement):
        assert figure.isfinite().all()
    assert float(p.weights.sum()) == pytest.approx(1, abs=1e-5)
    with torch.no_grad():
        expected = NET(image[None])[0].sigmoid()
    torch.testing.assert_close(p.members[0], expected, rtol=1e-5, atol=1e-5)
