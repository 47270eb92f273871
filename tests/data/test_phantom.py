"""Phantoms: exact, seeded, different at every site, and hard for a model of another site."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sitta
from sitta.data import phantom


@given(st.sampled_from(list(phantom.SITES)), st.integers(0, 10**6), st.integers(0, 99))
def test_every_image_is_sound(site, index, seed):
    image, mask = phantom.draw(site, index, (24, 32), seed)
    assert image.shape == (1, 24, 32)
    assert image.dtype == torch.float32
    assert image.min() == 0
    assert image.max() == 1
    assert mask.shape == (24, 32)
    assert mask.unique().tolist() == [0, 1]


def test_same_scene_at_every_site_but_another_image():
    pairs = [phantom.draw(site, 7, (64, 64)) for site in phantom.SITES]
    assert all(torch.equal(mask, pairs[0][1]) for _, mask in pairs)
    for i, (a, _) in enumerate(pairs):
        assert not any(torch.allclose(a, b, atol=0.01) for b, _ in pairs[:i])


def test_seeded():
    one, two = (phantom.batch("fir", 3, (32, 32), seed=5) for _ in range(2))
    assert torch.equal(one[0], two[0])
    assert torch.equal(phantom.batch("fir", 1, (32, 32), seed=5, start=2)[0][0], one[0][2])
    assert not torch.equal(phantom.draw("fir", 0, (32, 32), seed=6)[1], one[1][0])
    state = torch.random.get_rng_state()
    phantom.draw()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_volumes():
    image, mask = phantom.draw("maple", 0, (16, 24, 24))
    assert image.shape == (1, 16, 24, 24)
    assert 0 < mask.sum() < mask.numel() / 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"site": "oak"}, "no such site"), ({"size": (4, 64)}, "size"), ({"size": (64,)}, "size")],
)
def test_wrong_settings(settings, message):
    with pytest.raises(sitta.InvalidSetting, match=message):
        phantom.draw(**settings)


def test_the_shipped_model_degrades_elsewhere_and_intent_helps():
    adapt = sitta.InTEnt(sitta.load("phantom-alder"))
    scores = {}
    for site in ("alder", "cedar"):
        images, truth = phantom.batch(site, 4, seed=11)  # neither training's nor the demo's
        p = adapt(images)
        both = {"source": p.source_mask, "intent": p.mask}
        scores[site] = {k: monai_dice(m, truth) for k, m in both.items()}
    assert scores["alder"]["source"] > 0.85
    assert scores["cedar"]["source"] < scores["alder"]["source"] - 0.1
    assert scores["cedar"]["intent"] > scores["cedar"]["source"] + 0.05
    assert abs(scores["alder"]["intent"] - scores["alder"]["source"]) < 0.03


def monai_dice(mask, truth):
    from monai.metrics import compute_dice

    return float(compute_dice(mask[:, None], truth[:, None]).mean())


def test_dice_of_the_demo_equals_monai():
    from sitta.inference.demo import dice

    _, truth = phantom.batch("alder", 3, (32, 32))
    mask = truth.roll(3, dims=2)
    assert float(dice(mask, truth).mean()) == pytest.approx(monai_dice(mask, truth))
