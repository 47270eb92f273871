"""Notes: what a person should be told about a prediction, decided here for torch and ONNX alike.

Nothing here needs torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitta.errors import InvalidImage

Array = NDArray[Any]
DISAGREE = 0.7  # mean pairwise Dice of the members below which a person should look
FLAT = 1e-6  # bits: below this range the figures of the members differ by rounding only

NOTES = {
    "no-foreground": "No member finds any foreground: the mask is empty.",
    "empty-mask": "The mask is empty although some members find foreground.",
    "foreground-in-some-members": "Some members find foreground and others find none.",
    "all-foreground": "The mask covers the whole image.",
    "members-disagree": "The masks of the members differ widely.",
    "far-from-source": "Its statistics are far outside those of the training images.",
    "equal-entropies": "All members are equally certain, so all count alike.",
    "constant-image": "The image has the same value everywhere.",
    "member-overflow": "A member gave values that are not finite; it does not count.",
    "tiny-feature-map": "A layer saw a single value per channel and kept its source statistics.",
    "no-statistics": "The model has no BatchNorm statistics, so lambda has no effect.",
    "no-reliable-pixel": "No pixel was certain enough to learn from; nothing was updated.",
    "zero-gradient": "The loss has no slope at this image; nothing was updated.",
    "unstable-update": "An update gave values that are not finite; it was undone.",
}


@dataclass(frozen=True)
class Limits:
    """From where on a person should look.

    Attributes:
        agreement: Members that agree less than this disagree.
        distance: Statistics further from the source's than this are far.
    """

    agreement: float = DISAGREE
    distance: float = math.inf

    @classmethod
    def of(cls, card: Any) -> Limits:
        """Those in the card of a model, chosen on its own validation images.

        Example:
            >>> Limits.of({"trust": {"agreement": 0.9}})
            Limits(agreement=0.9, distance=inf)
        """
        kept = card.get("trust", {}) if isinstance(card, dict) else {}
        return cls(kept.get("agreement", DISAGREE), kept.get("distance", math.inf))


def codes(
    areas: Array,
    area: Array,
    figures: Array,
    usable: Array,
    agreement: Array,
    distance: Array,
    constant: Array,
    limits: Limits,
) -> list[list[str]]:
    """Codes of ``NOTES`` for every image.

    Args:
        areas: Share of foreground pixels of each member, ``(K, N)``; NaN if it is not known.
        area: Share of foreground pixels of the final mask, ``(N,)``.
        figures: What the strategy weighed, ``(K, N)``.
        usable: Which members count, ``(K, N)``.
        agreement: Of the members, ``(N,)``.
        distance: From the source's statistics, ``(N,)``; NaN if not measured.
        constant: Whether an image has the same value everywhere, ``(N,)``.
        limits: Of agreement and distance.

    Example:
        >>> zero, both = np.zeros(1), np.ones((2, 1), dtype=bool)
        >>> codes(both * 0.0, zero, both * 0.5, both, zero + 1, zero, zero > 0, Limits())
        [['no-foreground', 'equal-entropies']]
    """
    found = (areas > 0) & usable
    known = ~np.isnan(areas).any(axis=0)
    # Members that agree on everything are as empty as the mask that they make.
    some = np.where(known, found.any(axis=0), agreement < 1)
    checks = {
        "no-foreground": ~some & (area == 0),
        "empty-mask": some & (area == 0),
        "foreground-in-some-members": known & some & (found != usable).any(axis=0),
        "all-foreground": area == 1,
        "members-disagree": agreement < limits.agreement,
        "far-from-source": distance > limits.distance,
        "equal-entropies": (np.ptp(figures, axis=0) <= FLAT) & (usable.sum(axis=0) > 1),
        "constant-image": constant,
        "member-overflow": ~usable.all(axis=0),
    }
    return [[code for code, hit in checks.items() if hit[n]] for n in range(len(area))]


def require_usable(usable: Array, images: Array) -> None:
    """Refuse images ``(N, C, *S)`` of which no member is finite.

    Args:
        usable: Which members are, ``(K, N)``.
        images: What they were given.
    """
    lost = np.flatnonzero(~usable.any(axis=0))
    if len(lost):
        values = images[lost[0]]
        raise InvalidImage(
            "The model's output is not finite under any lambda: the image's values overflow in it.",
            got=f"image {lost[0]} with values from {values.min():.3g} to {values.max():.3g}",
            fix="scale the image as in training, most often to [0, 1]",
        )
