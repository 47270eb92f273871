"""Misspelt names are answered with the name that was meant."""

import pytest

import sitta
from sitta._util.names import did_you_mean
from sitta.models import UNet, load
from sitta.training import Recipe


def small():
    return UNet(channels=4, multipliers=(1, 2))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (lambda: load("chest-mcuu"), "chest-mcu"),
        (lambda: sitta.method("intnt", small()), "intent"),
        (lambda: sitta.method("InTent", small()), "intent"),
        (lambda: sitta.method("intent", small(), strategy="averagee"), "average"),
        (lambda: sitta.method("intent", small(), stpe=0.5), "step"),
        (lambda: Recipe.named("papper"), "paper"),
        (lambda: UNet.preset("compct"), "compact"),
    ],
)
def test_an_unknown_name_comes_with_the_nearest(given, meant):
    with pytest.raises(sitta.SittaError, match=f"Did you mean '{meant}'\\?"):
        given()


def test_nothing_is_suggested_for_what_is_like_nothing():
    assert did_you_mean("abacus", ["source", "intent"]) == ""
    assert did_you_mean(3, ["source"]) == ""
