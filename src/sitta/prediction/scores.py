"""Trust scores: what is measured of a prediction without the truth. Each is declared once here.

CSV columns, JSON, the OpenAPI schema, report, page, exported graph, benchmark rows and the table
in ``docs/how-to/predict.md`` follow from ``SCORES``. Nothing here needs torch when it is imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from sitta.prediction.notes import Array, urgency

if TYPE_CHECKING:
    from torch import Tensor

    from sitta.core.entropy import Activation
    from sitta.prediction.record import PredictionRecord

Compute: TypeAlias = "Callable[[Tensor, Tensor, Tensor, Activation], Tensor]"


@dataclass(frozen=True)
class Score:
    """A trust score."""

    name: str  # in CSV, JSON and the benchmark
    title: str  # for people
    hint: str  # what it refers to, in a few words beside the title
    sentence: str  # what it means
    better: Literal["higher", "lower", "neither"]  # which values speak for a good mask
    # Of each image, (N,); None if it is not known. By default, what ``tensor`` computed.
    value: Callable[[PredictionRecord], Array | None] | None = None
    unit: str = ""  # a share with % is shown in per cent
    digits: int = 3  # shown after the point
    unknown: str = "not known"  # shown where it is not known
    # From probability, members, usable and activation, if the method computes it, in torch or in an
    # exported graph: (N,), or a map (N, *S) whose mean over pixels is the score.
    tensor: Compute | None = None
    compares: bool = False  # members, and so says nothing about a single one
    before: str = ""  # the score that is the same of the unadapted model
    ends: tuple[str, ...] = ()  # the scores that are the ends of its interval

    def of(self, record: PredictionRecord) -> Array:
        """Its value for each image of a record, ``(N,)``; NaN where it is not known."""
        if self.value is None:
            maps = record.computed[self.name].reshape(len(record), -1)
            return np.asarray(maps.mean(axis=1, dtype=np.float64))
        values = self.value(record)
        return np.full(len(record), np.nan) if values is None else values

    def text(self, value: float | None) -> str:
        """A value for people."""
        if value is None or not math.isfinite(value):
            return self.unknown
        shown = 100 * value if self.unit == "%" else value
        return f"{shown:.{self.digits}f} {self.unit}".rstrip()

    def describe(self) -> dict[str, Any]:
        """What a page needs to show it, in plain types."""
        names = ("name", "title", "hint", "sentence", "better", "unit", "digits", "unknown")
        told = {name: getattr(self, name) for name in (*names, "before", "compares")}
        return {**told, "ends": list(self.ends)}


def _agreement(_: Tensor, members: Tensor, usable: Tensor, activation: Activation) -> Tensor:
    from sitta.core.agreement import agreement, foreground

    return agreement(foreground(members, activation), usable)


def _uncertainty(whole: Tensor, _: Tensor, __: Tensor, activation: Activation) -> Tensor:
    from sitta.core.entropy import probability_entropy

    return probability_entropy(whole, activation)


def _disagreement(_: Tensor, members: Tensor, usable: Tensor, activation: Activation) -> Tensor:
    from sitta.core.agreement import disagreement

    return disagreement(members, activation, usable)


def _expected(part: int) -> Callable[[PredictionRecord], Array | None]:
    return lambda r: None if r.expected_dice is None else r.expected_dice[part]


def _doubt(record: PredictionRecord) -> Array:
    checks = np.array([urgency(noted) for noted in record.notes])
    if record.expected_dice is not None:
        return np.asarray(checks + 1 - np.nan_to_num(record.expected_dice[0], nan=0.0))
    agreement, uncertainty = (SCORES[name].of(record) for name in ("agreement", "uncertainty"))
    return np.asarray(checks + np.maximum(1 - agreement, uncertainty))


SCORES: dict[str, Score] = {
    score.name: score
    for score in (
        Score(
            "expected_dice",
            "Expected Dice",
            "of this mask",
            "The Dice that masks with such scores had in-domain, under synthetic shifts.",
            "higher",
            _expected(0),
            digits=2,
            unknown="not calibrated",
            ends=("expected_dice_low", "expected_dice_high"),
        ),
        Score(
            "expected_dice_low",
            "Expected Dice, lower end",
            "80 % interval",
            "Nine of ten masks with such scores had a higher Dice.",
            "higher",
            _expected(1),
            digits=2,
            unknown="not calibrated",
        ),
        Score(
            "expected_dice_high",
            "Expected Dice, upper end",
            "80 % interval",
            "Nine of ten masks with such scores had a lower Dice.",
            "higher",
            _expected(2),
            digits=2,
            unknown="not calibrated",
        ),
        Score(
            "agreement",
            "Agreement",
            "between members",
            "How alike the masks of the members are: mean Dice of all pairs. 1 means identical.",
            "higher",
            tensor=_agreement,
            compares=True,
        ),
        Score(
            "uncertainty",
            "Uncertainty",
            "per pixel",
            "Entropy of the adapted result, mean over pixels. 0 is certain, 1 is a coin toss.",
            "lower",
            unit="bit",
            tensor=_uncertainty,
        ),
        Score(
            "disagreement",
            "Disagreement",
            "per pixel",
            "The part of the uncertainty that comes from members that differ, mean over pixels.",
            "lower",
            unit="bit",
            tensor=_disagreement,
            compares=True,
        ),
        Score(
            "change",
            "Change",
            "by adapting",
            "What adapting changed: 1 - Dice of source mask and adapted mask. 0 means nothing.",
            "lower",
            lambda r: r.change,
            unknown="no source",
        ),
        Score(
            "distance",
            "Distance",
            "from training images",
            "How unusual the image is: how far its statistics are from those of the training"
            " images. 0 means alike.",
            "lower",
            lambda r: r.distance,
            unit="nats",
            unknown="not measured",
        ),
        Score(
            "area_source",
            "Foreground before adapting",
            "share of pixels",
            "Share of the pixels that the unadapted model takes for foreground.",
            "neither",
            lambda r: None if r.anchor is None else r.areas[r.anchor],
            unit="%",
            digits=1,
            unknown="no source",
        ),
        Score(
            "area",
            "Foreground",
            "share of pixels",
            "Share of the pixels that the adapted mask covers.",
            "neither",
            lambda r: r.area,
            unit="%",
            digits=1,
            before="area_source",
        ),
    )
}
DOUBT = Score(
    "doubt",
    "Doubt",
    "sorts the list",
    "Sorts images: the higher, the sooner a person should check. 1 or more means flagged.",
    "lower",
    _doubt,
    digits=2,
)


def every() -> tuple[Score, ...]:
    """The trust scores, and the doubt by which images are sorted."""
    return (*SCORES.values(), DOUBT)


def shown() -> tuple[Score, ...]:
    """The scores to list for people: one that belongs to another stands beside that one."""
    beside = {name for score in SCORES.values() for name in (score.before, *score.ends)}
    return tuple(score for score in every() if score.name not in beside)


def computed() -> dict[str, Compute]:
    """The scores that a method computes itself, in torch or in an exported graph, and how."""
    return {score.name: score.tensor for score in SCORES.values() if score.tensor}


def score_text(score: Score, row: Mapping[str, Any], both: str = "{before} → {after}") -> str:
    """A score of a row for people, with that of the unadapted model if there is one."""
    before, after = row.get(score.before), score.text(row.get(score.name))
    if score.ends and row.get(score.name) is not None:
        low, high = (score.text(row.get(name)) for name in score.ends)
        after = f"{after} ({low} to {high})"
    return after if before is None else both.format(before=score.text(before), after=after)
