"""Several methods from one pass: what only integrates members shares the members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sitta.adaptation.base import Method
from sitta.adaptation.intent import InTEnt
from sitta.adaptation.source import Source
from sitta.errors import InvalidSetting
from sitta.integration import STRATEGIES
from sitta.members import fitting_logits
from sitta.prediction import Outcome, Prediction
from sitta.twin import Twin


def shares(method: Method) -> bool:
    """Whether a method asks nothing of the network but its members under captured statistics."""
    if isinstance(method, InTEnt):
        plain = STRATEGIES[method.strategy].figure != "sharpness"
        return plain and method.statistics == "captured"
    return isinstance(method, Source) and method.statistics == "captured"


def together(
    methods: Sequence[Method], image: Any, *, members_at_once: int | None = None
) -> list[Prediction]:
    """The predictions of several methods, from one pass over all their members.

    Each is what the method alone would give, up to rounding.

    Args:
        methods: ``Source`` and ``InTEnt`` of one model, with captured statistics, one variance,
            and any strategy but ``sharpness``.
        image: ``(C, *S)``, or ``(N, C, *S)``.
        members_at_once: Members in one pass; as many as fit into memory if None.

    Returns:
        One prediction for each method.

    Example:
        >>> import sitta
        >>> model = sitta.models.UNet(channels=4, multipliers=(1, 2))
        >>> asked = [Source(model), InTEnt(model, strategy="vote"), InTEnt(model, step=0.5)]
        >>> [len(p.lambdas) for p in together(asked, torch.rand(1, 16, 16))]
        [1, 6, 3]
    """
    first = _require_shared(methods)
    lambdas = sorted({lam for method in methods for lam in _grid(method)}, reverse=True)

    def adapt(twin: Twin, images: Tensor) -> list[Outcome]:
        logits, distance = fitting_logits(
            twin,
            images,
            lambdas,
            unbiased=first.variance == "unbiased",
            at_once=members_at_once,
        )
        return [_pick(method, twin, images, lambdas, logits, distance) for method in methods]

    outcomes, batched = first._on_twin(image, adapt)
    return [Prediction(outcome, batched=batched) for outcome in outcomes]


def _grid(method: Any) -> tuple[float, ...]:
    return (method.lam,) if isinstance(method, Source) else tuple(method.grid)


def _pick(
    method: Any,
    twin: Twin,
    images: Tensor,
    lambdas: Sequence[float],
    logits: Tensor,
    distance: Tensor | None,
) -> Outcome:
    """What one of the methods makes of the members that are its own."""
    grid = _grid(method)
    own = logits[[lambdas.index(lam) for lam in grid]]
    unseen = all(lam == 1 for lam in grid)  # alone, it would not have looked at the statistics
    distance = images.new_full((len(images),), torch.nan) if unseen else distance
    outcome: Outcome = method._integrated(twin, images, own, distance=distance)
    return outcome


def _require_shared(methods: Sequence[Method]) -> Any:
    if not methods or not all(shares(method) for method in methods):
        raise InvalidSetting(
            "These methods do not share their members.",
            allowed="Source and InTEnt with captured statistics, and no sharpness",
            got=", ".join(map(str, methods)) or "none",
        )
    kinds = {(id(m.model), m.output, m.variance) for m in methods if isinstance(m, Source | InTEnt)}
    if len(kinds) > 1:
        raise InvalidSetting("Methods that share members have one model, output and variance.")
    return methods[0]
