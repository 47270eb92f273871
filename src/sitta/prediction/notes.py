"""Notes: what a person should know about a prediction, each declared once. Needs no torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sitta.core.tolerances import FLAT
from sitta.errors import InvalidImage

if TYPE_CHECKING:
    from sitta.prediction.calibration import Calibration
    from sitta.prediction.record import PredictionRecord

Array = NDArray[Any]
Severity = Literal["information", "check", "stop"]
URGENCY: dict[Severity, int] = {"information": 0, "check": 1, "stop": 2}
DICE = 0.8  # Dice below which a mask is of little use, unless in-domain masks are lower
DISAGREE = 0.7  # agreement of the members below which a person should check, without a card


@dataclass(frozen=True)
class Limits:
    """Limits of the trust scores beyond which a note is raised."""

    agreement: float = DISAGREE  # members that agree less disagree
    distance: float = math.inf  # statistics further from the source's are far
    dice: float = DICE  # a mask that may well be lower asks for a check
    usual: float = math.inf  # expected Dice from which on it does not: few are lower in-domain

    @classmethod
    def of(cls, card: Any, calibration: Calibration | None = None) -> Limits:
        """Limits in the card of a model, chosen on its own validation images."""
        kept = card.get("trust", {}) if isinstance(card, dict) else {}
        own = None if calibration is None else calibration.limit
        distance = kept.get("distance", math.inf)
        usual = math.inf if own is None else own
        return cls(kept.get("agreement", DISAGREE), distance, usual=usual)

    def describe(self) -> dict[str, float | None]:
        """In plain types; None where there is no limit."""
        return {name: v if math.isfinite(v) else None for name, v in asdict(self).items()}


@dataclass(frozen=True)
class Note:
    """A note that a prediction may carry."""

    code: str  # its name in CSV, JSON and ``Prediction.notes``
    sentence: str
    advice: str
    # To which images of a record it applies, (N,). None for a note that a method raises itself.
    applies: Callable[[PredictionRecord], Any] | None = None
    # Stop: the mask is of no use as it is. Check: a person should look. Information explains.
    severity: Severity = "check"
    remedy: str = ""  # what a program can do about it; see ``REMEDIES``


Information = partial(Note, severity="information")
Stop = partial(Note, severity="stop")
# Changes of the image that a note may offer, with the settings of a request that make them.
REMEDIES: dict[str, dict[str, Any]] = {
    "invert": {"invert": True},
    "rotate-90": {"rotate": 90},
    "rotate-180": {"rotate": 180},
    "rotate-270": {"rotate": 270},
}


def _low(record: PredictionRecord) -> Array:
    """Images whose Dice may well be low, of all classes or of one of several.

    Three in ten masks lie below the middle between the expected Dice and the low end of its
    interval. With half of them instead, flags missed nine in ten bad masks on source images under
    synthetic shifts, where bad masks are rare.
    """
    if record.expected is None or record.expected_dice is None or record.calibration is None:
        return np.zeros(len(record), bool)
    limits = record.limits
    own = [math.nan if c.limit is None else c.limit for c in record.calibration.classes]
    of_one = _may_be_low(record.expected.swapaxes(0, 1), limits.dice, np.array(own)[:, None])
    return _may_be_low(record.expected_dice, limits.dice, limits.usual) | of_one.any(axis=0)


def _may_be_low(told: Array, least: float, usual: Any) -> Array:
    """Of the expected Dice and the ends of its interval, ``(3, ...)``; NaN is not low."""
    middle, low, _ = told
    return np.asarray(((middle + low) / 2 < least) & (middle < usual))


def _finding(record: PredictionRecord) -> Array:
    """Usable members that find foreground, ``(K, N)``; all False if their maps were not kept."""
    return np.asarray((record.areas > 0) & record.usable)


def _any_finds(record: PredictionRecord) -> Array:
    """Images in which a member finds foreground, ``(N,)``."""
    # Without their maps: an empty mask of members that all agree means that all are empty.
    unknown = np.isnan(record.areas).any(axis=0)
    return np.where(unknown, record.computed["agreement"] < 1, _finding(record).any(axis=0))


def _disagree(record: PredictionRecord) -> Any:
    return record.computed["agreement"] < record.limits.agreement


LOOK = "Check the mask against the image before you use it."
NOTES: dict[str, Note] = {
    declared.code: declared
    for declared in (
        Stop(
            "looks-inverted",
            "The grey values look inverted.",
            "Invert the image and run it again.",
            remedy="invert",
        ),
        Stop(
            "looks-rotated-left",
            "The image looks rotated to the left by 90 degrees.",
            "Rotate it to the right and run it again.",
            remedy="rotate-90",
        ),
        Stop(
            "looks-upside-down",
            "The image looks upside down.",
            "Rotate it by 180 degrees and run it again.",
            remedy="rotate-180",
        ),
        Stop(
            "looks-rotated-right",
            "The image looks rotated to the right by 90 degrees.",
            "Rotate it to the left and run it again.",
            remedy="rotate-270",
        ),
        Stop(
            "colour-image",
            "This is a colour image; the model was trained on grey ones.",
            "Check that the image and the model belong together.",
        ),
        Stop(
            "grey-image",
            "This is a grey image; the model was trained on colour images.",
            "Check that the image and the model belong together.",
        ),
        Stop(
            "unlike-training",
            "The image looks like none of the training images.",
            "Check that the image and the model belong together.",
        ),
        Note(
            "low-expected-dice",
            "The mask may have a low Dice.",
            LOOK,
            _low,
        ),
        Stop(
            "no-foreground",
            "No member finds any foreground: the mask is empty.",
            "Check that the image shows the structure and that the model fits this kind of image.",
            lambda r: ~_any_finds(r) & (r.area == 0),
        ),
        Stop(
            "empty-mask",
            "The mask is empty although some members find foreground.",
            "Look at the masks of the members; another strategy may keep the foreground.",
            lambda r: _any_finds(r) & (r.area == 0),
        ),
        Information(
            "foreground-in-some-members",
            "Some members find foreground and others find none.",
            LOOK,
            lambda r: _finding(r).any(axis=0) & ((r.areas == 0) & r.usable).any(axis=0),
        ),
        Note(
            "all-foreground",
            "The mask covers the whole image.",
            "Check the intensities and the size of the image: the model takes all of it for"
            " foreground.",
            lambda r: r.area == 1,
        ),
        Note(
            "members-disagree",
            "The masks of the members differ widely.",
            LOOK,
            lambda r: _disagree(r) & (r.expected_dice is None),
        ),
        Information(
            "members-differ",
            "The masks of the members differ widely, and the expected Dice takes it into account.",
            "Nothing needs doing unless another note asks for it.",
            lambda r: _disagree(r) & (r.expected_dice is not None),
        ),
        Information(
            "far-from-source",
            "Its statistics are far outside those of the training images.",
            "Check that the model fits this kind of image, and that it is scaled as in training.",
            lambda r: r.distance > r.limits.distance,
        ),
        Information(
            "equal-entropies",
            "All members are equally certain, so all count alike.",
            "Nothing: the mask is that of their mean.",
            lambda r: (_range(r.entropies, r.usable) <= FLAT) & (r.usable.sum(axis=0) > 1),
        ),
        Note(
            "constant-image",
            "The image has the same value everywhere.",
            "Check the file: it holds no picture.",
            lambda r: np.ptp(r.images.reshape(len(r), -1), axis=1) == 0,
        ),
        Note(
            "member-overflow",
            "A member gave values that are not finite; it does not count.",
            "Scale the image as in training, most often to [0, 1].",
            lambda r: (~r.usable & r.ran).any(axis=0),
        ),
        Information(
            "two-members-agree",
            "The model as trained and the image's own statistics give nearly the same mask, so the"
            " other members were not run.",
            "Nothing.",
        ),
        Information(
            "left-as-trained",
            "Adapting did not help this model in-domain, so the mask is that of the model as"
            " trained.",
            "Nothing; another method can be chosen.",
        ),
        Information(
            "tiny-feature-map",
            "A layer saw a single value per channel and kept its source statistics.",
            "Use a larger input if you want this layer to adapt too.",
        ),
        Information(
            "no-statistics",
            "The model has no BatchNorm statistics, so lambda has no effect.",
            "Choose lambda for models with BatchNorm only.",
        ),
        Information(
            "no-reliable-pixel",
            "No pixel was certain enough to learn from; nothing was updated.",
            "Read the mask as that of the model before updates.",
        ),
        Information(
            "zero-gradient",
            "The loss has no slope at this image; nothing was updated.",
            "Read the mask as that of the model before updates.",
        ),
        Note(
            "unstable-update",
            "An update gave values that are not finite; it was undone.",
            "Lower the learning rate.",
        ),
    )
}


def codes(record: PredictionRecord) -> list[tuple[str, ...]]:
    """Codes of the notes on each image of a record: those of ``NOTES``, then the method's own."""
    tests = {code: note.applies(record) for code, note in NOTES.items() if note.applies}
    return [
        (*looks, *(code for code, hits in tests.items() if hits[n]), *raised)
        for n, (looks, raised) in enumerate(zip(record.input_codes, record.codes, strict=True))
    ]


def note(code: str) -> Note:
    """The note of a code; one of another version is not declared and says its code."""
    return NOTES.get(code) or Note(code, code, "")


def _range(entropies: Array, usable: Array) -> Array:
    high = np.where(usable, entropies, -np.inf).max(axis=0)
    return np.asarray(high - np.where(usable, entropies, np.inf).min(axis=0))


def urgency(noted: Iterable[str]) -> int:
    """The highest severity of these codes: 0 information, 1 check, 2 stop."""
    return max((URGENCY[note(code).severity] for code in noted), default=0)


def flagged(noted: Iterable[str]) -> bool:
    """Whether any of these codes asks a person to check the image, as one not declared does."""
    return urgency(noted) > 0


def require_usable(usable: Array, images: Array) -> None:
    """Refuse images ``(N, C, *S)`` of which no member is finite; ``usable`` is ``(K, N)``."""
    lost = np.flatnonzero(~usable.any(axis=0))
    if len(lost):
        values = images[lost[0]]
        raise InvalidImage(
            "The model's output is not finite under any lambda: the image's values overflow in it.",
            got=f"image {lost[0]} with values from {values.min():.3g} to {values.max():.3g}",
            fix="scale the image as in training, most often to [0, 1]",
        )
