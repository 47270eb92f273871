"""Figures of a mask, against plain definitions."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

import sitta
from sitta.bench.run.measure import BINS, measure


class Fixed(torch.nn.Module):
    """Says what it is given, whatever it sees."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, images):
        return self.logits.expand(len(images), *self.logits.shape[1:])


def predicted(probability):
    """A prediction of one image with these foreground probabilities."""
    logits = torch.as_tensor(probability, dtype=torch.float64).logit()[None, None]
    return sitta.Source(Fixed(logits.float()))(torch.zeros(1, 1, *logits.shape[2:]))


def boundary(mask):
    return mask & ~ndimage.binary_erosion(mask)


def slow(probability, truth, tolerance):
    """By definition, in NumPy."""
    found = probability > 0.5
    both, total = (found & truth).sum(), found.sum() + truth.sum()
    dice = 2 * both / total if total else 1.0
    union = (found | truth).sum()
    iou = both / union if union else 1.0
    edges = 0.0
    for low in np.arange(BINS) / BINS:
        inside = (probability > low) & (probability <= low + 1 / BINS)
        if inside.any():
            edges += abs(probability[inside].mean() - truth[inside].mean()) * inside.sum()
    figures = {"dice": dice, "iou": iou, "ece": edges / truth.size}
    if not found.any() or not truth.any():
        same = found.any() == truth.any()
        diagonal = math.hypot(*truth.shape)
        return figures | {"hd95": 0.0 if same else diagonal, "surface_dice": float(same)}
    ours, theirs = np.argwhere(boundary(found)), np.argwhere(boundary(truth))
    apart = np.linalg.norm(ours[:, None] - theirs[None], axis=2)
    one, other = apart.min(axis=1), apart.min(axis=0)
    near = ((one <= tolerance).sum() + (other <= tolerance).sum()) / (len(one) + len(other))
    hd95 = max(np.percentile(one, 95), np.percentile(other, 95))
    return figures | {"hd95": hd95, "surface_dice": near}


@given(seed=st.integers(0, 10_000), level=st.floats(0.02, 0.98))
def test_figures_are_what_their_definitions_say(seed, level):
    chance = np.random.default_rng(seed)
    # Blobs away from the border, where definitions of a boundary differ.
    probability, truth = np.full((14, 15), 0.01), np.zeros((14, 15), dtype=bool)
    probability[2:-2, 2:-2] = ndimage.gaussian_filter(chance.random((10, 11)), 1) + level - 0.5
    probability = probability.clip(0.011, 0.989)
    truth[2:-2, 2:-2] = ndimage.gaussian_filter(chance.random((10, 11)), 1) > 1 - level
    p = predicted(probability)
    exact = p.probability[0, 0].double().numpy()
    if (abs(exact - 0.5) < 1e-6).any() or (abs(exact * BINS - (exact * BINS).round()) < 1e-4).any():
        return  # rounding decides on which side they are
    found = measure(p, torch.as_tensor(truth).long()[None], tolerance=1.0)[0]
    for name, value in slow(exact, truth, 1.0).items():
        assert found[name] == pytest.approx(value, rel=1e-5, abs=1e-5), name  # in float32


@pytest.mark.parametrize(
    ("found", "due", "dice", "hd95"),
    [(False, False, 1, 0), (True, False, 0, math.hypot(8, 6)), (False, True, 0, math.hypot(8, 6))],
)
def test_empty_masks_follow_the_rule(found, due, dice, hd95):
    probability, truth = np.full((8, 6), 0.1), torch.zeros(1, 8, 6, dtype=torch.long)
    if found:
        probability[2:4, 2:4] = 0.9
    if due:
        truth[0, 2:4, 2:4] = 1
    figures = measure(predicted(probability), truth)[0]
    assert figures["dice"] == figures["iou"] == figures["surface_dice"] == dice
    assert figures["hd95"] == pytest.approx(hd95)


def test_several_classes_count_alike():
    truth = torch.zeros(1, 8, 8, dtype=torch.long)
    truth[0, :2] = 1
    truth[0, 4:] = 2
    logits = torch.nn.functional.one_hot(truth, 3).movedim(-1, 1).float() * 9
    logits[0, :, 4:6] = torch.tensor([9.0, 0, 0]).view(3, 1, 1)  # half of class 2 is missed
    p = sitta.Source(Fixed(logits))(torch.zeros(1, 1, 8, 8))
    assert measure(p, truth)[0]["dice"] == pytest.approx((1 + 2 * 16 / (16 + 32)) / 2)
