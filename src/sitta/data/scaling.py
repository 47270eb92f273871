"""From a file's intensities to a model's: by each input's own values, or by fixed numbers.

A scale either looks at each input (``min-max``, ``z-score``, ``percentile``), or applies numbers
that were fixed in training to the values of the file (``divide``, ``standardise``, ``window``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from sitta.data.image import Array, Image, OtherRange
from sitta.errors import InvalidSetting

FLAT = 1e-6  # of the file's range: less contrast than that is the rounding of interpolation
EIGHT_BITS = 255.0
PER_CHANNEL = ("mean", "std")  # settings with one number for each channel
RANGES = ("percentiles", "bounds")  # settings that are a lower and an upper number


@dataclass(frozen=True)
class Scale:
    """One way to scale. To add one, add it to ``SCALES`` and to ``before`` or ``after``."""

    description: str  # for people
    settings: Mapping[str, Any] = field(default_factory=dict)  # with defaults; None: to be given
    fixed: bool = False  # whether it is applied to the values as they are in the file


SCALES: dict[str, Scale] = {
    "min-max": Scale("minimum to 0, maximum to 1"),
    "z-score": Scale("mean to 0, standard deviation to 1"),
    "percentile": Scale("two percentiles to 0 and 1, clipped", {"percentiles": (0.5, 99.5)}),
    "divide": Scale("divided by a number", {"divisor": EIGHT_BITS}, fixed=True),
    "standardise": Scale(
        "divided by a number, less a mean, by a standard deviation, for each channel",
        {"divisor": EIGHT_BITS, "mean": None, "std": None},
        fixed=True,
    ),
    "window": Scale("two fixed values to 0 and 1, clipped", {"bounds": None}, fixed=True),
    "none": Scale("as in the file", fixed=True),
}
SETTINGS = tuple(dict.fromkeys(name for each in SCALES.values() for name in each.settings))


class Settings(Protocol):
    """What a scale reads of ``Preprocess``."""

    @property
    def scale(self) -> str:
        """A name in ``SCALES``."""

    @property
    def channels(self) -> int:
        """Of an input."""

    @property
    def percentiles(self) -> Sequence[float] | None:
        """For ``percentile``."""

    @property
    def divisor(self) -> float | None:
        """For ``divide`` and ``standardise``."""

    @property
    def mean(self) -> Sequence[float] | None:
        """For ``standardise``."""

    @property
    def std(self) -> Sequence[float] | None:
        """For ``standardise``."""

    @property
    def bounds(self) -> Sequence[float] | None:
        """For ``window``."""


def completed(how: Settings) -> dict[str, Any]:
    """The settings of a scale, with its defaults; refuses what is missing, stray or impossible."""
    wanted = SCALES[how.scale].settings
    for name in SETTINGS:
        if name not in wanted and getattr(how, name) is not None:
            users = [f'scale="{s}"' for s, each in SCALES.items() if name in each.settings]
            raise InvalidSetting(
                f'scale="{how.scale}" takes no {name}.',
                allowed=f"{name} with {' or '.join(users)}",
                got=str(getattr(how, name)),
                fix=f"leave {name} out, or choose another scale",
            )
    settings = {n: d if getattr(how, n) is None else getattr(how, n) for n, d in wanted.items()}
    for name, value in settings.items():
        _check(how, name, value)
    return settings


EXAMPLES = {"mean": "0.485,0.456,0.406", "std": "0.229,0.224,0.225", "bounds": "-160,240"}


def _check(how: Settings, name: str, value: Any) -> None:
    several = f"{how.channels} number{'s' if how.channels > 1 else ''}, one per channel"
    allowed = several if name in PER_CHANNEL else "two numbers, the lower one first"
    if value is None:
        raise InvalidSetting(
            f'scale="{how.scale}" needs {name}.',
            allowed=allowed,
            got="none",
            fix=f"give it, such as {name}={EXAMPLES[name]}",
        )
    if name in PER_CHANNEL and len(value) != how.channels:
        raise InvalidSetting(
            f"{name} needs one number per channel.", allowed=several, got=f"{value}"
        )
    if name in RANGES and not (len(value) == 2 and value[0] < value[1]):
        raise InvalidSetting(f"{name} is no range.", allowed=allowed, got=str(value))


def merged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of ``Preprocess`` with changes; another scale leaves the old one's settings out."""
    if changes.get("scale", settings.get("scale")) != settings.get("scale"):
        settings = {name: value for name, value in settings.items() if name not in SETTINGS}
    return {**settings, **changes}


def before(pixels: Array, how: Settings, image: Image) -> Array:
    """Pixels ``(C, *S)`` in float64, which may be overwritten, before they are resampled."""
    if not SCALES[how.scale].fixed:
        return _tamed(pixels)
    if how.divisor is not None:
        _require_depth(image, how.divisor)
        pixels /= how.divisor
    if how.mean is not None and how.std is not None:
        shape = (-1, *[1] * (pixels.ndim - 1))
        pixels -= np.reshape(how.mean, shape)
        pixels /= np.reshape(how.std, shape)
    if how.bounds is not None:
        low, high = how.bounds
        pixels -= low
        pixels /= high - low
    return pixels


def after(inputs: Array, how: Settings) -> Array:
    """Inputs ``(N, C, *s)`` after resampling: each on its own; without contrast it becomes 0."""
    if how.scale == "window":
        return np.clip(inputs, 0, 1)
    if SCALES[how.scale].fixed:
        return inputs
    values, sides = inputs.astype(np.float64), tuple(range(1, inputs.ndim))
    if how.percentiles is not None:
        low, high = np.percentile(values, how.percentiles, axis=sides, keepdims=True)
        scaled = np.clip((values - low) / np.maximum(high - low, FLAT), 0, 1)
        return np.where(high - low > FLAT, scaled, 0.0).astype(np.float32)
    shift, width = (np.min, np.ptp) if how.scale == "min-max" else (np.mean, np.std)
    spread = width(values, axis=sides, keepdims=True)
    scaled = (values - shift(values, axis=sides, keepdims=True)) / np.maximum(spread, FLAT)
    return np.where(spread > FLAT, scaled, 0.0).astype(np.float32)


def like_inputs(unit: Array, how: Settings) -> Array:
    """Values ``(N, C, *s)`` from 0 to 1 in the range of a model's inputs."""
    if how.mean is not None and how.std is not None:
        shape = (1, -1, *[1] * (unit.ndim - 2))
        unit = (unit - np.reshape(how.mean, shape)) / np.reshape(how.std, shape)
    return after(unit, how) if how.scale == "z-score" else np.asarray(unit, dtype=np.float32)


def _tamed(pixels: Array) -> Array:
    """The whole file in [0, 1], so that neither a large offset nor a large scale costs digits.

    In place, in few passes over the pixels: it takes most of the time of a large film.
    """
    low, high = float(pixels.min()), float(pixels.max())
    most = max(abs(low), abs(high), 1e-300)
    pixels /= most  # first: their range may overflow
    pixels -= low / most
    pixels /= max(high / most - low / most, 1e-300)
    return pixels


def _require_depth(image: Image, divisor: float) -> None:
    """Refuse a file whose values are plainly not those that the divisor stands for."""
    kind, most = image.pixels.dtype, float(image.pixels.max())
    if divisor == EIGHT_BITS and most > EIGHT_BITS:
        fix = "divide by the highest value of such files (65535 for 16 bits, 4095 for 12)"
    elif divisor == EIGHT_BITS and kind.kind == "f" and 0 < most <= 1:
        fix = 'if they are from 0 to 1 already, scale="none" or divisor=1'
    elif kind == np.uint8 and divisor > 2 * EIGHT_BITS:
        fix = "divide images of 8 bits by 255"
    else:
        return
    raise OtherRange(
        f"{image.path} has other values than the model divides by {divisor:g}.",
        allowed="values from 0 to about the divisor",
        got=f"{kind.name}, up to {most:g}",
        fix=f"{fix}; if this model takes several kinds of files, convert them to one",
    )
