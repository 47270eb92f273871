"""Entropies against NumPy, closed forms, and properties."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import sitta
from sitta.core.entropy import (
    balanced_entropy,
    mean_entropy,
    pixel_entropy,
    probabilities,
    probability_entropy,
    resolve,
)
from sitta.core.masks import labels
from tests import slow

finite = st.floats(-30, 30, width=32)


def maps(channels):
    return hnp.arrays(np.float32, (2, channels, 4, 3), elements=finite).map(torch.from_numpy)


@given(st.sampled_from([1, 2, 3, 7]).flatmap(maps))
def test_entropies_equal_numpy(z):
    activation = resolve("auto", z.shape[1])
    for n in range(2):
        expected = slow.pixel_entropy(slow.probability(z[n].numpy()))
        np.testing.assert_allclose(pixel_entropy(z, activation)[n], expected, atol=1e-5)
        assert float(mean_entropy(z, activation)[n]) == pytest.approx(expected.mean(), abs=1e-5)
        balanced = slow.balanced_entropy(z[n].numpy())
        assert float(balanced_entropy(z, activation)[n]) == pytest.approx(balanced, abs=1e-5)
    p = probabilities(z, activation)
    torch.testing.assert_close(
        probability_entropy(p, activation), pixel_entropy(z, activation), rtol=0, atol=1e-4
    )


@given(maps(1))
def test_binary_equals_two_classes(z):
    two = torch.cat([torch.zeros_like(z), z], dim=1)
    torch.testing.assert_close(
        pixel_entropy(z, "sigmoid"), pixel_entropy(two, "softmax"), rtol=0, atol=2e-6
    )
    # A tie of the two classes is foreground in the binary set (p >= 1/2), so it is left out.
    if (z != 0).all():
        torch.testing.assert_close(
            balanced_entropy(z, "sigmoid"), balanced_entropy(two, "softmax"), rtol=0, atol=2e-6
        )


@given(maps(3), st.permutations(range(3)))
def test_permuting_classes_changes_nothing(z, order):
    z = z + torch.tensor([0.0, 1e-3, 2e-3]).view(1, 3, 1, 1)  # few ties are left
    first, second = z.topk(2, dim=1).values.unbind(dim=1)
    assume((first != second).all())  # a tie goes to the class that comes first
    for measure in (mean_entropy, balanced_entropy):
        one, other = measure(z, "softmax"), measure(z[:, order], "softmax")
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


@given(maps(3))
def test_several_labels_are_several_binary_maps(z):
    for measure in (mean_entropy, balanced_entropy):
        alone = torch.stack([measure(z[:, c : c + 1], "sigmoid") for c in range(3)]).mean(0)
        torch.testing.assert_close(measure(z, "sigmoid"), alone, rtol=0, atol=1e-5)
    mask = labels(probabilities(z, "sigmoid"), "sigmoid")
    assert mask.shape == (2, 3, 4, 3)


def test_balance_counts_classes_not_pixels():
    z = torch.full((1, 1, 10, 10), -50.0)
    z[0, 0, 0, 0] = 0.0  # the only foreground pixel, and it knows nothing
    assert mean_entropy(z, "sigmoid") == pytest.approx(0.01)
    assert balanced_entropy(z, "sigmoid") == pytest.approx(0.5)


def test_gradient_is_the_closed_form():
    z = torch.linspace(-20, 20, 41, dtype=torch.float64).view(1, 1, -1).requires_grad_()
    (found,) = torch.autograd.grad(pixel_entropy(z, "sigmoid").sum(), z)
    p = z.detach().sigmoid()
    torch.testing.assert_close(found, -z.detach() * p * (1 - p) / np.log(2))


def test_softmax_over_one_channel_is_refused():
    with pytest.raises(sitta.InvalidSetting, match="always 1"):
        resolve("softmax", 1)
