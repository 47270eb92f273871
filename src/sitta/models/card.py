"""The card of a model: what its file says about itself. It may come from anyone; needs no torch."""

from __future__ import annotations

import math
from typing import Any

from sitta._util.untrusted import read_json, shown
from sitta.errors import InvalidSetting, UnsupportedModel

KINDS: dict[str, tuple[type, str]] = {  # of the entries that are used; a card may hold others
    "architecture": (str, "text"),
    "config": (dict, "a table"),
    "source": (str, "text"),
    "task": (str, "text"),
    "note": (str, "text"),
    "preprocess": (dict, "a table"),
    "classes": (list, "a list of names"),
    "trust": (dict, "a table of numbers"),
    "profile": (dict, "a table, as sitta.models.profile reads it"),
}
LIMITS = ("agreement", "distance")  # of trust
CLASSES = 1024  # more than any mask tells apart


def read_card(text: str, path: object) -> dict[str, Any]:
    """A card from its JSON; an UnsupportedModel says what is wrong with it."""
    try:
        about = read_json(text, f"The card in {path}")
    except InvalidSetting as error:
        raise UnsupportedModel(error.what, allowed=error.allowed, got=error.got) from error
    if not isinstance(about, dict):
        raise UnsupportedModel(f"The card in {path} is not a table of names and values.")
    return check_card(about, path)


def check_card(about: dict[str, Any], path: object) -> dict[str, Any]:
    """The same card, if every entry that is used has its type."""
    for name, (kind, allowed) in KINDS.items():
        value = about.get(name)
        if name in about and not (isinstance(value, kind) and _holds(name, value)):
            raise UnsupportedModel(
                f"The card in {path} has an entry {name!r} that cannot be used.",
                allowed=allowed,
                got=shown(value),
                fix="write the file again with Sitta, or correct its card",
            )
    return about


def _holds(name: str, value: Any) -> bool:
    """Whether what a list or table holds can be used."""
    if name == "classes":
        return 1 <= len(value) <= CLASSES and all(isinstance(word, str) for word in value)
    if name == "trust":
        return all(_is_number(value[limit]) for limit in LIMITS if limit in value)
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
