"""An image that is read another way before a model sees it: inverted, or turned.

The file, what is shown of it, and the geometry of the masks stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sitta.data.image import Array
from sitta.inference.pipeline import Adapt
from sitta.prediction.record import Lazy, PredictionRecord
from sitta.serve.errors import ApiError

TURNS = (0, 90, 180, 270)


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

    def around(self, adapt: Adapt) -> Adapt:
        """The same method on images that are read this way; its maps lie as the file does."""
        return partial(self._adapted, adapt) if self != Remedy() else adapt

    def _adapted(self, adapt: Adapt, values: Array) -> PredictionRecord:
        sides = tuple(range(1, values.ndim))
        if self.invert:
            low, high = values.min(sides, keepdims=True), values.max(sides, keepdims=True)
            values = low + high - values
        return self._back(adapt(np.ascontiguousarray(turned(values, self.rotate))))

    def _back(self, record: PredictionRecord) -> PredictionRecord:
        back = partial(turned, degrees=-self.rotate)
        whole: Any = record
        members = None if record.members is None else back(record.members)
        found: dict[str, Any] = {
            "images": back(record.images),
            "probability": back(record.probability),
        }
        computed: Lazy[Array] = Lazy(lambda name: _map_back(whole.computed[name], back))
        return replace(record, **found, members=members, computed=computed)


def turned(values: Array, degrees: int) -> Array:
    """Maps ``(..., H, W)`` turned clockwise."""
    return np.rot90(values, -degrees // 90, axes=(-2, -1))


def _map_back(values: Array, back: Any) -> Array:
    return np.asarray(back(values) if values.ndim > 1 else values)  # a score has no sides
