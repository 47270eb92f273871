"""Whether an image looks like the training images: polarity, orientation, colour. Needs no torch.

An image is brought to 16 x 16 pixels whose local contrast is evened out, and compared with the mean
of the in-domain images as it is, inverted and rotated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitta._util.packing import packed, unpacked
from sitta._util.untrusted import shown
from sitta.errors import InvalidSetting

Array = NDArray[Any]
SIDE = 16
LOCAL = 2.0  # standard deviation, in pixels, of the neighbourhood that evens out contrast
MARGIN = 0.05  # by which another view must be more alike than the image itself
LUMA = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R BT.601)
COLOURED = 0.1  # saturation between that of grey images, 0, and of photographs, above 0.2
# The view that makes an image look as in-domain, and the note that says so.
VIEWS: dict[str, Callable[[Array], Array]] = {
    "looks-inverted": lambda x: -x,
    "looks-rotated-left": lambda x: np.rot90(x, -1, (-2, -1)),
    "looks-upside-down": lambda x: np.rot90(x, 2, (-2, -1)),
    "looks-rotated-right": lambda x: np.rot90(x, 1, (-2, -1)),
}


@dataclass(frozen=True, eq=False)
class InputModel:
    """What inputs of a model look like in-domain."""

    quantiles: tuple[float, ...]  # of intensities: the 1st, 25th, 50th, 75th and 99th percentile
    saturation: tuple[float, float]  # of colours: the 5th and 95th percentile over images
    image: Array | None = None  # (16, 16), the mean of normalised images; None if not safe to keep
    lowest: float = -1.0  # likeness of the least alike percent of images
    margin: float = MARGIN  # of another view over the image itself, before it counts

    def codes(self, images: Array, saturation: float | None = None) -> list[tuple[str, ...]]:
        """Codes of notes on inputs ``(N, C, *S)``, at most one each.

        ``saturation`` is that of the file, if colours became grey on the way to the model.
        """
        colours = self._by_colour(images, saturation)
        alike = None if self.image is None else self._by_view(images)
        return [
            (colours[n],) if colours[n] else (alike[n],) if alike and alike[n] else ()
            for n in range(len(images))
        ]

    def _by_colour(self, images: Array, saturation: float | None) -> list[str]:
        own = saturations(images) if saturation is None else np.full(len(images), saturation)
        too_much = (self.saturation[1] < COLOURED) & (own > 2 * COLOURED)
        too_little = (self.saturation[0] > COLOURED) & (own < COLOURED / 2)
        return list(np.select([too_much, too_little], ["colour-image", "grey-image"], ""))

    def _by_view(self, images: Array) -> list[str]:
        views = alikeness(normalised(images), self.image)  # (views, N), the image itself first
        best = views[1:].argmax(axis=0)
        names = list(VIEWS)
        return [
            names[best[n]]
            if views[1 + best[n], n] > own + self.margin
            else "unlike-training"
            if views[:, n].max() < self.lowest / 4
            else ""
            for n, own in enumerate(views[0])
        ]

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**values, "image": None if self.image is None else packed(self.image)}

    @classmethod
    def from_dict(cls, values: Any) -> InputModel:
        """From plain values, which may come from anyone."""
        keys = {f.name for f in fields(cls)}
        if not isinstance(values, Mapping) or not values.keys() <= keys:
            raise InvalidSetting("The input check is damaged.", got=shown(values))
        image = values.get("image")
        image = None if image is None else unpacked(image, "The mean image")
        numbers = [float(q) for q in (*values["quantiles"], *values["saturation"])]
        fits = image is None or image.shape == (SIDE, SIDE)
        if not fits or len(numbers) != 7 or not np.isfinite(numbers).all():
            raise InvalidSetting("The input check is damaged.", got=shown(values))
        limits = {k: float(values[k]) for k in ("lowest", "margin") if k in values}
        return cls(tuple(numbers[:5]), (numbers[5], numbers[6]), image, **limits)


def normalised(images: Array) -> Array:
    """Inputs ``(N, C, *S)`` as 16 x 16 pixels ``(N, 16, 16)`` of even local contrast."""
    grey = luma(images)
    while grey.ndim > 3:  # a volume, seen along its slices
        grey = grey.mean(axis=1)
    small = _cells(_cells(grey, 1), 2)
    detail = small - _blurred(small)
    local = np.sqrt(_blurred(detail * detail))
    return np.asarray(
        detail / (local + 0.02 * np.abs(small).mean(axis=(1, 2), keepdims=True) + 1e-6)
    )


def alikeness(images: Array, mean: Array | None) -> Array:
    """Correlations ``(1 + views, N)`` of normalised images, as they are and in every view."""
    target = _unit(np.asarray(mean)[None])[0]
    each = [images, *(view(images) for view in VIEWS.values())]
    return np.stack([_unit(view) @ target for view in each])


def luma(images: Array) -> Array:
    """``(N, C, *S)`` as grey values ``(N, *S)``."""
    values = np.asarray(images, np.float32)
    if values.shape[1] == 3:
        return np.asarray(np.moveaxis(values, 1, -1) @ np.array(LUMA, np.float32))
    return np.asarray(values.mean(axis=1))


def saturations(images: Array) -> Array:
    """How colourful inputs ``(N, C, *S)`` are: 0 grey, mean range over channels by their range."""
    if images.shape[1] != 3:
        return np.zeros(len(images))
    flat = np.asarray(images, np.float32).reshape(len(images), 3, -1)
    spread = (flat.max(axis=1) - flat.min(axis=1)).mean(axis=1)
    return np.asarray(spread / np.maximum(np.ptp(flat, axis=(1, 2)), 1e-6))


def _cells(values: Array, axis: int) -> Array:
    """Averaged to 16 cells along an axis."""
    length = values.shape[axis]
    starts = np.arange(SIDE) * length // SIDE
    ends = np.maximum(-(-(np.arange(SIDE) + 1) * length // SIDE), starts + 1)
    before = np.zeros_like(values.take([0], axis))
    total = np.concatenate([before, values.cumsum(axis, dtype=np.float64)], axis)
    widths = (ends - starts).reshape([-1 if a == axis else 1 for a in range(values.ndim)])
    return np.asarray((total.take(ends, axis) - total.take(starts, axis)) / widths)


def _blurred(images: Array) -> Array:
    """Gaussian means over the neighbourhood, reflected at the edges."""
    place = np.arange(SIDE)
    reach = np.arange(-2 * SIDE, 3 * SIDE)
    folded = reach % (2 * SIDE)
    folded = np.where(folded < SIDE, folded, 2 * SIDE - 1 - folded)
    near = np.exp(-np.square(reach - place[:, None]) / (2 * LOCAL**2))
    weights = np.stack([near[:, folded == cell].sum(axis=1) for cell in range(SIDE)], axis=1)
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(weights @ images @ weights.T)


def _unit(images: Array) -> Array:
    flat = images.reshape(len(images), -1)
    flat = flat - flat.mean(axis=1, keepdims=True)
    return np.asarray(flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-9))
