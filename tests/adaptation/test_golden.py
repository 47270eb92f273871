"""Against recorded outputs of the published procedure (tests/golden)."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import sitta
from sitta.core.members import member_logits
from tests import ROOT

GOLDEN = ROOT / "tests" / "golden"


@pytest.fixture(scope="module")
def net():
    return sitta.models.UNet.from_reference(load_file(GOLDEN / "weights.safetensors"))


@pytest.fixture(scope="module")
def golden():
    return {k: torch.from_numpy(v) for k, v in np.load(GOLDEN / "golden.npz").items()}


@pytest.mark.parametrize("at_once", [None, 1, 4])
def test_logits_of_every_member(net, golden, at_once):
    adapt = sitta.InTEnt(net, variance="unbiased")
    assert list(adapt.grid) == pytest.approx(golden["lambdas"].tolist())
    with torch.no_grad(), adapt._twins.borrow() as twin:
        found = member_logits(
            twin, golden["image"][None], adapt.grid, unbiased=True, at_once=at_once
        )
    torch.testing.assert_close(found[:, 0], golden["logits"], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("strategy", "figure", "tolerance"),
    [
        ("entropy", "entropy_bits", 1e-5),
        ("ent-norm", "entropy_bits", 1e-5),
        ("ent-baln", "balanced_entropy_bits", 1e-5),
        ("sharpness", "sharpness_bits", 1e-4),
    ],
)
def test_figures_weights_and_maps(net, golden, strategy, figure, tolerance):
    p = sitta.InTEnt(net, strategy=strategy, variance="unbiased")(golden["image"])
    for found, name, atol in (
        (p.entropies, figure, tolerance),
        (p.weights, f"weights_{strategy}", 1e-4),
        (p.probability, f"probability_{strategy}", 1e-4),
    ):
        torch.testing.assert_close(found, golden[name], rtol=0, atol=atol)


def test_biased_variance_is_another_number(net, golden):
    p = sitta.InTEnt(net, strategy="ent-norm")(golden["image"])
    assert not torch.allclose(p.entropies, golden["entropy_bits"], atol=1e-5)
