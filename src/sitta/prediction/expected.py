"""Expected Dice: from label-free scores of a prediction to a Dice with an 80 % interval.

A small monotone model, fitted by ``sitta calibrate`` on in-domain images under synthetic shifts.
Each score gives a Dice by a curve that never falls as the score improves; their weighted mean, the
quality, gives the median and the ends of the interval by curves that never fall either. Applying it
needs NumPy alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitta._util.untrusted import shown
from sitta.errors import InvalidSetting

Array = NDArray[Any]
SHARE = 0.8  # of masks whose Dice the interval shall hold
KNOTS = 24  # of a curve
DIGITS = 5  # after the point, of its places and values; places that are then equal are one
LOWER_IS_BETTER = ("entropy",)
EVIDENCE = ("apart", "sharp", "shape", *LOWER_IS_BETTER)


@dataclass(frozen=True)
class Curve:
    """A piecewise-linear function that never falls."""

    x: tuple[float, ...]  # rising
    y: tuple[float, ...]  # never falling

    def __call__(self, values: Array) -> Array:
        """Its values; constant beyond its ends."""
        return np.interp(values, self.x, self.y)

    @classmethod
    def fit(cls, x: Array, y: Array) -> Curve:
        """The curve nearest to points in the mean square."""
        order = np.argsort(x, kind="stable")
        x, y = np.asarray(x, float)[order], np.asarray(y, float)[order]
        return cls.thinned(x, isotonic(y))

    @classmethod
    def thinned(cls, x: Array, y: Array) -> Curve:
        """Through points in rising order, at a few knots; equal places share their mean."""
        places, first = np.unique(np.round(x, DIGITS), return_inverse=True)
        values = np.bincount(first, y) / np.bincount(first)
        kept = np.unique(np.linspace(0, len(places) - 1, KNOTS).round().astype(int))
        rounded = (tuple(np.round(v[kept], DIGITS).tolist()) for v in (places, values))
        return cls(*rounded)

    @classmethod
    def from_dict(cls, values: Any) -> Curve:
        """From plain values, which may come from anyone."""
        x, y = (np.asarray(values[name], float) for name in ("x", "y"))
        rising = x.ndim == 1 and 0 < len(x) <= KNOTS and (np.diff(x) > 0).all()
        if not rising or y.shape != x.shape or not np.isfinite([x, y]).all():
            raise InvalidSetting("A curve of the expected Dice is damaged.", got=shown(values))
        return cls(tuple(x.tolist()), tuple(y.tolist()))


def isotonic(y: Array) -> Array:
    """The never falling values nearest to ``y`` in the mean square (pool adjacent violators)."""
    blocks: list[tuple[float, int]] = []  # mean and length
    for value in np.asarray(y, float):
        mean, length = float(value), 1
        while blocks and blocks[-1][0] >= mean:
            before, count = blocks.pop()
            mean = (before * count + mean * length) / (count + length)
            length += count
        blocks.append((mean, length))
    return np.repeat([mean for mean, _ in blocks], [length for _, length in blocks])


@dataclass(frozen=True)
class DiceModel:
    """The expected Dice of one class."""

    curves: Mapping[str, Curve]  # from each score to a Dice
    weights: Mapping[str, float]  # of these Dice in the quality; they sum to 1
    low: Curve  # from the quality to the ends and the middle of the interval
    middle: Curve
    high: Curve

    def quality(self, evidence: Mapping[str, Array]) -> Array:
        """Of masks ``(N,)``, by their scores; one that is not known (NaN) does not count."""
        parts = [(w, self.curves[n](oriented(n, evidence[n]))) for n, w in self.weights.items()]
        weights = [np.where(np.isfinite(dice), w, 0.0) for w, dice in parts]
        total = sum((w * np.nan_to_num(d) for w, (_, d) in zip(weights, parts, strict=True)), 0.0)
        return np.asarray(total / np.maximum(sum(weights), 1e-9))

    def interval(self, evidence: Mapping[str, Array]) -> tuple[Array, Array, Array]:
        """Expected Dice and the ends of its interval: middle, low and high, each ``(N,)``."""
        quality = self.quality(evidence)
        middle = self.middle(quality)
        low, high = np.minimum(self.low(quality), middle), np.maximum(self.high(quality), middle)
        return tuple(np.clip(v, 0.0, 1.0) for v in (middle, low, high))  # type: ignore[return-value]

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> DiceModel:
        """From plain values, which may come from anyone."""
        curves = {
            n: Curve.from_dict(values["curves"][n]) for n in EVIDENCE if n in values["curves"]
        }
        weights = {n: float(w) for n, w in values["weights"].items()}
        matched = bool(weights) and weights.keys() <= curves.keys()
        if not matched or not all(0 <= w <= 1e6 for w in weights.values()):  # NaN is not
            raise InvalidSetting(
                "The weights of the expected Dice are damaged.", got=shown(weights)
            )
        ends = {n: Curve.from_dict(values[n]) for n in ("low", "middle", "high")}
        return cls(curves, weights, **ends)


def oriented(name: str, values: Array) -> Array:
    """A score turned so that higher is better."""
    return -values if name in LOWER_IS_BETTER else values
