"""Images too large for one pass: members window by window, under statistics of the whole image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeAlias

import torch
from torch import Tensor

from sitta.adaptation.adapt import ENDS, Adapt
from sitta.adaptation.base import Method
from sitta.adaptation.source import GridMethod
from sitta.core.capture import CapturedStatistics
from sitta.core.integration import shared_strategies
from sitta.core.members import member_logits
from sitta.core.twin import Twin
from sitta.errors import InvalidSetting
from sitta.prediction.geometry import ImageGeometry
from sitta.prediction.prediction import Prediction, RawPrediction

Predict = Callable[[Any], Prediction]
Windowed: TypeAlias = GridMethod | Adapt  # methods that can go window by window


def windowed(
    method: Method,
    window: Sequence[int],
    *,
    statistics: str = "volume",
    overlap: float = 0.25,
) -> Predict:
    """A method that goes over large images by MONAI's sliding window.

    With ``statistics="volume"``, the windows are first run at lambda 0, each under statistics of
    its own, and what the layers saw is pooled over them: all windows are then mixed with the same
    statistics, those of the whole image. The pooling is exact for the first layer, and close for
    deeper ones, whose inputs were normalised window by window; overlapping parts count twice.
    With ``statistics="window"``, each window is an image of its own: cheaper by one pass, but a
    window that shows something else than the others is normalised in another way.

    The method is Adapt, Source, or InTEnt with a strategy that takes no passes of its own. Adapt
    runs all its members, and with ``volume`` they mix captured statistics. An image that fits into
    one window goes through whole; ``overlap`` is a share of a window's sides.
    """
    chosen = _require_windowed(method)
    if statistics not in ("volume", "window") or not 0 <= overlap < 1:
        raise InvalidSetting(
            "Wrong settings of the windows.", allowed="volume or window; 0 <= overlap < 1"
        )

    def adapt(twin: Twin, images: Tensor) -> RawPrediction:
        if len(window) != images.dim() - 2:
            raise InvalidSetting(
                "A window needs one number a side.", allowed=str(images.dim() - 2), got=str(window)
            )
        if all(n <= w for n, w in zip(images.shape[2:], window, strict=True)):
            return method._integrated(twin, images, method._adapt(twin, images))
        in_layer = isinstance(chosen, GridMethod) and chosen.statistics == "in-layer"
        # What normalises by itself sees a window as it was trained on one.
        pools = statistics == "volume" and not in_layer and not method.source_statistics
        slid = (_slide(chosen, twin, x[None], window, overlap, pools) for x in images)
        parts, distances = zip(*slid, strict=True)
        logits, count = torch.cat(parts, dim=1), len(chosen.grid)
        members = chosen.members(logits[:count], torch.cat(distances))
        asked = _lambdas(chosen)
        if len(asked) > count:
            members = replace(members, ends=logits[[asked.index(lam) for lam in ENDS]])
        return method._integrated(twin, images, members)

    def predict(image: Any) -> Prediction:
        raw, batched = method._on_twin(image, adapt)
        return Prediction(raw, batched=batched, geometry=ImageGeometry.of(image))

    return predict


def _require_windowed(method: Method) -> Windowed:
    """The method, if its members can go window by window."""
    if isinstance(method, Adapt):
        return method
    if isinstance(method, GridMethod) and not method.needs_own_passes:
        return method
    raise InvalidSetting(
        "This method cannot go window by window.",
        allowed=f"adapt, source, and intent with the strategies {', '.join(shared_strategies())}",
        got=type(method).name,
    )


def _lambdas(method: Windowed) -> list[float]:
    """Of the members, and of those at lambda 1 and 0 that expected Dice asks for besides."""
    missing = [lam for lam in ENDS if lam not in method.grid]
    expects_dice = method.known is not None and method.census.mixable
    return [*method.grid, *(missing if expects_dice else ())]


def _slide(
    method: Windowed,
    twin: Twin,
    image: Tensor,
    window: Sequence[int],
    overlap: float,
    pools: bool,
) -> tuple[Tensor, Tensor]:
    """Logits ``(K, 1, C, *S)`` of an image ``(1, C, *S)``, and its distance ``(1,)``."""
    from monai.inferers import sliding_window_inference

    lambdas, how = _lambdas(method), method.how

    def run(rows: Tensor, asked: Sequence[float], **more: Any) -> Tensor:
        at = torch.tensor(asked, dtype=torch.float64)
        return twin.run(rows, at, pool="first", unbiased=how["unbiased"], **more)

    windows: list[CapturedStatistics] = []
    for corner in _corners(image.shape[2:], window, overlap) if pools else ():
        cuts = [slice(a, a + w) for a, w in zip(corner, window, strict=True)]
        windows.append(CapturedStatistics())
        run(image[:, :, *cuts], (0.0,), captured=windows[-1])
    captured = CapturedStatistics.pooled(windows)  # of the whole image
    distances = [twin.distance_of(captured)] if pools else []

    def members(part: Tensor) -> Tensor:
        if pools:
            depths = _depths(method, len(captured), len(lambdas))
            rows = part.repeat(len(lambdas), *[1] * (part.dim() - 1))
            logits = run(rows, lambdas, captured=captured, depths=depths)
        else:
            if isinstance(method, Adapt) and method.is_split:
                twin.run(part, torch.zeros(1), pool="own")  # to count the layers
            depths = _depths(method, twin.served, len(lambdas))
            logits = member_logits(twin, part, lambdas, depths=depths, **how)
            distances.append(twin.distance)
        return logits.flatten(0, 2)[None]  # (1, K * C, *S)

    stitched = sliding_window_inference(image, window, 1, members, overlap=overlap, mode="gaussian")
    logits: Tensor = stitched[0].unflatten(0, (len(lambdas), 1, -1))
    return logits, torch.stack(distances).mean(dim=0)


def _depths(method: Windowed, layers: int, members: int) -> list[int] | None:
    """Layers that stay at the source, of each member and of ends beside them."""
    depths = method.depths(layers)
    return None if depths is None else [*depths, *[0] * (members - len(depths))]


def _corners(sides: Sequence[int], window: Sequence[int], overlap: float) -> list[tuple[int, ...]]:
    """Where windows begin, so that they cover the image."""
    starts = []
    for n, w in zip(sides, window, strict=True):
        step, last = max(1, int(w * (1 - overlap))), max(0, n - w)
        starts.append(sorted({*range(0, last, step), last}))
    return list(product(*starts))
