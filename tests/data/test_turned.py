"""Slices turned for the model, and brought back, against ``np.rot90``."""

import numpy as np
import pytest

from sitta.data.orientation import Orientation

STORED = [
    Orientation((1, 5, 7), (0, 1, 2), ()),
    Orientation((4, 5, 7), (2, 1, 0), ()),
    Orientation((4, 5, 7), (1, 0, 2), (0, 2)),
    Orientation((4, 5, 7), (2, 0, 1), (1,)),
]


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_turned_clockwise_as_rot90_does_and_back(stored, degrees):
    values = np.random.default_rng(0).random((2, *stored.shape))
    turned = stored.turned(degrees)
    seen = turned.apply(values)
    np.testing.assert_array_equal(seen, np.rot90(stored.apply(values), -degrees // 90, (2, 3)))
    assert seen.shape[1:] == turned.sides
    np.testing.assert_array_equal(turned.undo(seen), values)


@pytest.mark.parametrize("stored", STORED)
def test_four_quarters_are_a_whole_turn(stored):
    assert stored.turned(90).turned(270) == stored
    assert stored.turned(180).turned(180) == stored
    assert stored.turned(90).turned(90) == stored.turned(180)
