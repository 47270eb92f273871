"""Limits of trust: scores from which a prediction is flagged, by held-out source images alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sitta.adaptation import InTEnt
from sitta.data.samples import Samples

# Times as bad as all but the worst twentieth of the source's own images: the smallest factor with
# which at most one in a hundred of those is flagged (docs/training.md, benchmarks/limits.py).
SLACK = 3.0
RULE = (
    "agreement: 1 - 3 * (1 - q), q the 5th percentile over held-out source images, kept within "
    "0.5 and 0.99; distance: 3 times the 95th percentile"
)


def limits(model: nn.Module, held_out: Samples, batch: int = 4) -> dict[str, Any]:
    """Limits of agreement and distance for the card of a model, with their rule in words."""
    adapt = InTEnt(model)
    predictions = [adapt(images) for images in held_out.images.split(batch)]
    agreement = torch.cat([p.agreement for p in predictions]).double()
    distance = torch.cat([p.distance for p in predictions]).double()
    lowest = 1 - SLACK * (1 - float(agreement.quantile(0.05)))
    return {
        "agreement": round(min(max(lowest, 0.5), 0.99), 4),
        "distance": round(SLACK * float(distance.quantile(0.95)), 6),
        "images": len(held_out),
        "rule": RULE,
    }
