"""Titles of reports."""

import pytest

from sitta.adaptation import methods
from sitta.inference.title import method_title, titled


@pytest.mark.parametrize(
    ("classes", "slices", "wanted"),
    [
        (["lungs"], [1] * 30, "Lungs in 30 films"),
        (["vessels"], [1], "Vessels in 1 image"),
        (["spinal cord"], [15, 17], "Spinal cord in 2 volumes"),
        (["rim", "core"], [1, 9], "Rim, core in 2 files"),
        ([], [1], " in 1 image"),
    ],
)
def test_what_was_found_in_what(classes, slices, wanted):
    assert titled(classes, slices, ["m"], ["adapt"]) == f"{wanted}, m, Adapt"


def test_several_models_and_methods_are_all_named():
    title = titled(["lungs"], [1, 1], ["b", "a", "b"], ["tent", "intent"])
    assert title == "Lungs in 2 films, a, b, InTEnt, Tent"


def test_titles_are_those_of_the_registry():
    assert {name: method_title(name) for name in methods()} == {
        name: method.title for name, method in methods().items()
    }
    assert method_title("my.graph") == "my.graph"
