"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

PRE = "Preprocessing (of the model, unless said otherwise)"


def _preprocessing(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel=PRE)


Size = Annotated[str | None, _preprocessing("Such as 128x128.")]
Fit = Annotated[str | None, _preprocessing("resize, crop, none.")]
Spacing = Annotated[str | None, _preprocessing("mm a pixel.")]
Channels = Annotated[int | None, _preprocessing("1 or 3.")]
Scale = Annotated[str | None, _preprocessing("min-max, z-score, none.")]
Plane = Annotated[str | None, _preprocessing("Of a volume.")]
Dims = Annotated[int | None, _preprocessing("2 or 3.")]


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
