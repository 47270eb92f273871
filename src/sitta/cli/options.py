"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def given(**options: Any) -> dict[str, Any]:
    """The options that were given at all."""
    return {name: value for name, value in options.items() if value is not None}


def sides(text: str | None, kind: Callable[[str], Any]) -> tuple[Any, ...] | None:
    """128x128 as (128, 128)."""
    if text is None:
        return None
    from sitta.errors import InvalidSetting

    try:
        return tuple(kind(part) for part in text.lower().split("x"))
    except ValueError:
        raise InvalidSetting(
            "Sides are numbers with an x between.", allowed="128x128, 0.5x0.5", got=text
        ) from None
