"""The picture of the README shows what the present code does."""

import importlib.util

import pytest

from sitta.inference.demo import SITES, dice
from tests import ROOT


@pytest.fixture(scope="module")
def hero():
    spec = importlib.util.spec_from_file_location("hero", ROOT / "scripts" / "hero.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_shows_better_masks_with_their_expected_dice(hero):
    shown = hero.scenes()
    assert [site for site, _, _ in shown] == list(SITES)
    for _, truth, p in shown:
        before, after = (float(dice(m[None], truth[None])) for m in (p.source_mask, p.mask))
        low, high = p.expected_interval.tolist()
        assert after > before + 0.05
        assert 0 < low < float(p.expected_dice) < high < 1
    figure = hero.picture(shown)
    assert len(figure.axes) == 3 * len(shown)
    assert f"Dice {after:.2f}" in figure.axes[-2].get_title()
    assert hero.OUT.read_bytes().startswith(b"\x89PNG")
