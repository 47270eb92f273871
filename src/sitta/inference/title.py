"""The title of a report: what was found in what, by which model and method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sitta.adaptation import METHODS

FILMS = {"lungs"}  # structures whose images are called films


def method_title(name: str) -> str:
    """What a method is called; a name that the registry does not know stays. Needs no torch."""
    return next((title for title in METHODS if title.lower() == name), name)


def titled(
    classes: Sequence[str], slices: Iterable[int], models: Iterable[str], methods: Iterable[str]
) -> str:
    """A title in plain words; ``slices`` says of each file how many it has.

    Example:
        >>> titled(["lungs"], [1, 1], ["chest-mcu"], ["adapt"])
        'Lungs in 2 films, chest-mcu, Adapt'
    """
    counts = list(slices)
    image = "film" if classes and FILMS.issuperset(classes) else "image"
    single = sum(count == 1 for count in counts)
    kind = image if single == len(counts) else "file" if single else "volume"
    objects = ", ".join(classes[:3])
    things = f"{len(counts)} {kind}{'' if len(counts) == 1 else 's'}"
    by = [*sorted(set(models)), *sorted({method_title(name) for name in methods})]
    return f"{objects[:1].upper()}{objects[1:]} in {things}, {', '.join(by)}"
