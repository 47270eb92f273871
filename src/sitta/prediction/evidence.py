"""The label-free scores that expected Dice is made from, of each class. Needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sitta.core.masks import labels

if TYPE_CHECKING:
    from sitta.prediction.calibration import ClassCalibration
    from sitta.prediction.record import PredictionRecord

Array = NDArray[Any]
SMALL = 1e-4
SCORES = {
    "with_image": "Dice of the mask with the member at lambda 0",
    "with_source": "Dice of the mask with the member at lambda 1",
    "apart": "Dice of these two members",
    "sharp": "soft Dice of the probability map with its own mask",
    "shape": "plausibility of the map under the shape prior",
    "unsure": "uncertainty by area, as a logarithm",
    "distance": "distance of the statistics from the source's, as a logarithm",
    "size": "area against the usual one, as an absolute logarithm",
}


def evidence(
    record: PredictionRecord, n: int, in_domain: ClassCalibration, area: float
) -> dict[str, Array]:
    """The scores of one foreground class, each ``(N,)``; NaN where one is not known.

    Args:
        record: A prediction.
        n: Which class, from 0.
        in_domain: Its calibration.
        area: The usual share of foreground.
    """
    mask = record.foreground(record.mask)[:, n]  # (N, P)
    maps = record.probability[:, n + (record.activation == "softmax")]  # (N, *S)
    flat = maps.reshape(mask.shape).astype(np.float64)
    sums = mask.sum(axis=1)
    unknown = np.full(len(mask), np.nan)
    scores = dict.fromkeys(SCORES, unknown)
    if record.ends is not None:
        source, image = (
            record.foreground(labels(end, record.activation))[:, n] for end in record.ends
        )
        scores |= {
            "with_image": dice(mask, image),
            "with_source": dice(mask, source),
            "apart": dice(source, image),
        }
    if in_domain.prior is not None:
        scores["shape"] = in_domain.prior.plausibility(np.asarray(maps, np.float32)).astype(float)
    entropy = _bits(flat).sum(axis=1)
    return scores | {
        "sharp": 2 * (flat * mask).sum(axis=1) / np.maximum(flat.sum(axis=1) + sums, SMALL),
        "unsure": np.log((entropy + 1) / (sums + 1)),
        "distance": np.log(np.asarray(record.distance, float) + SMALL),
        "size": np.abs(np.log((sums / mask.shape[1] + SMALL) / (area + SMALL))),
    }


def dice(one: Array, other: Array) -> Array:
    """Dice ``(N,)`` of flat masks ``(N, P)``; 1 if both are empty."""
    total = one.sum(axis=1) + other.sum(axis=1)
    return np.where(total > 0, 2 * (one & other).sum(axis=1) / np.maximum(total, 1), 1.0)


def _bits(probability: Array) -> Array:
    p = np.clip(probability, 1e-7, 1 - 1e-7)
    return np.asarray(-(p * np.log2(p) + (1 - p) * np.log2(1 - p)))
