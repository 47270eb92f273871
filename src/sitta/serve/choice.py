"""Which mask of a result is meant: the adapted one, the unadapted one, a member, a corrected one.

A mask is kept for a whole image, or slice by slice; what a person chose is what is downloaded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sitta.core.masks import one_class
from sitta.data.image import Array
from sitta.prediction.decisions import ADAPTED, CORRECTED, UNADAPTED, Decision, member_name
from sitta.serve.errors import ApiError


@dataclass(frozen=True)
class Choice:
    """One mask of a result."""

    mask: str = ADAPTED
    threshold: float | None = None

    @classmethod
    def of(cls, decision: Decision) -> Choice:
        """What a review chose."""
        return cls(decision.mask, decision.threshold)

    @property
    def key(self) -> str:
        """For the name of a file."""
        name = re.sub(r"[^\w.-]", "-", self.mask)
        return name if self.threshold is None else f"{name}-{self.threshold:.4g}"


ADAPTED_MASK = Choice()


def offered(answer: Mapping[str, Any]) -> list[str]:
    """The masks of a result that can be chosen, besides a corrected one."""
    members = _members(answer)
    unadapted = [] if answer.get("source_member") is None else [UNADAPTED]
    return [ADAPTED, *unadapted, *(members if len(members) > 1 else [])]


def takes_threshold(answer: Mapping[str, Any]) -> bool:
    """Whether a pixel is foreground above a probability, and not by the largest of several."""
    return bool(answer["activation"] == "sigmoid" or len(answer["classes"]) == 1)


def require(answer: Mapping[str, Any], choice: Choice, corrected: bool) -> None:
    """404 for a mask that this result has not, 422 for a threshold that means nothing here."""
    masks = [*offered(answer), *([CORRECTED] if corrected else [])]
    if choice.mask not in masks:
        message = "This result has no such mask."
        raise ApiError(404, "no-such-mask", message, allowed=", ".join(masks))
    if choice.threshold is None:
        return
    if choice.mask != ADAPTED or not takes_threshold(answer):
        message = "A threshold needs the probability of the adapted mask."
        raise ApiError(422, "bad-threshold", message, allowed=f"mask={ADAPTED}")
    if not (math.isfinite(choice.threshold) and 0 < choice.threshold < 1):
        raise ApiError(422, "bad-threshold", "There is no such threshold.", allowed="0 to 1")


def member_number(answer: Mapping[str, Any], name: str) -> int:
    """Which member a name means."""
    if name == UNADAPTED:
        return int(answer["source_member"])
    return _members(answer).index(name)


def _members(answer: Mapping[str, Any]) -> list[str]:
    """The masks of the members; results of older sessions have no names for them."""
    names = answer.get("member_names") or [f"{lam:.2f}" for lam in answer.get("lambdas", ())]
    return [member_name(name) for name in names]


def above(probability: Array, threshold: float) -> Array:
    """The mask ``(*S)`` of probabilities ``(C, *S)`` of classes that may overlap."""
    if len(probability) > 1:
        return one_class(probability > threshold)
    return np.asarray(probability[0] > threshold, dtype=np.uint8)
