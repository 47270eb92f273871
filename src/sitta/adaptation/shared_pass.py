"""Several methods from one pass: those that only integrate members share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor

from sitta.adaptation.base import Method
from sitta.adaptation.source import GridMethod
from sitta.core.integration import shared_strategies
from sitta.core.members import member_logits_chunked
from sitta.core.twin import Twin
from sitta.errors import InvalidSetting
from sitta.prediction.geometry import ImageGeometry
from sitta.prediction.prediction import Prediction, RawPrediction


def shares(method: Method) -> TypeGuard[GridMethod]:
    """Whether a method needs only members under captured statistics."""
    if not isinstance(method, GridMethod) or method.needs_own_passes or method.source_statistics:
        return False
    return method.statistics == "captured"


def run_shared(
    methods: Sequence[Method], image: Any, *, members_at_once: int | None = None
) -> list[Prediction]:
    """The predictions of several methods, from one pass over all their members.

    Each is what the method alone would give, up to rounding. The methods are ``Source`` and
    ``InTEnt`` of one model, with captured statistics, one variance, and any strategy without
    passes of its own; ``members_at_once`` go through in one pass, as many as fit if None.
    """
    shared = _require_shared(methods)
    lambdas = sorted({lam for method in shared for lam in method.grid}, reverse=True)

    def adapt(twin: Twin, images: Tensor) -> list[RawPrediction]:
        how = {"at_once": members_at_once, **shared[0].how}
        logits, distance = member_logits_chunked(twin, images, lambdas, **how)

        def pick(method: GridMethod) -> RawPrediction:
            own = logits[[lambdas.index(lam) for lam in method.grid]]
            unseen = all(lam == 1 for lam in method.grid)  # alone, it would not have measured it
            far = torch.full_like(distance, torch.nan) if unseen else distance
            return method._integrated(twin, images, method.members(own, far))

        return [pick(method) for method in shared]

    predictions, batched = shared[0]._on_twin(image, adapt)
    geometry = ImageGeometry.of(image)
    return [Prediction(raw, batched=batched, geometry=geometry) for raw in predictions]


def _require_shared(methods: Sequence[Method]) -> list[GridMethod]:
    shared = [method for method in methods if shares(method)]
    if not shared or len(shared) < len(methods):
        raise InvalidSetting(
            "These methods do not share their members.",
            allowed="source, and intent with captured statistics and the strategies "
            + ", ".join(shared_strategies()),
            got=", ".join(map(str, methods)) or "none",
        )
    if len({(id(m.model), m.output, m.variance) for m in shared}) > 1:
        raise InvalidSetting("Methods that share members have one model, output and variance.")
    return shared
