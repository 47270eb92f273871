"""An image that is read another way before a model sees it: inverted, or turned.

The file, what is shown of it, and the geometry of the masks stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sitta.inference.request import TURNS
from sitta.serve.errors import ApiError


@dataclass(frozen=True)
class Remedy:
    """How an image is read."""

    invert: bool = False  # black and white change places
    rotate: int = 0  # degrees clockwise, of TURNS

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Remedy:
        """From the fields of a form; 422 for what they cannot say."""
        invert, rotate = fields.get("invert") or "false", fields.get("rotate") or "0"
        if invert not in ("true", "false"):
            message = "invert is true or false."
            raise ApiError(422, "bad-setting", message, allowed="true, false")
        if rotate not in map(str, TURNS):
            allowed = ", ".join(map(str, TURNS))
            message = "The image can be turned by quarters of a circle."
            raise ApiError(422, "bad-setting", message, allowed=allowed)
        return cls(invert == "true", int(rotate))
