"""Images too large for one pass: members window by window, under statistics of the whole image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from sitta.adaptation.source import GridMethod
from sitta.core.capture import CapturedStatistics
from sitta.core.integration import shared_strategies
from sitta.core.members import member_logits
from sitta.core.twin import Twin
from sitta.errors import InvalidSetting
from sitta.prediction.geometry import ImageGeometry
from sitta.prediction.prediction import Prediction, RawPrediction

Predict = Callable[[Any], Prediction]


def windowed(
    method: GridMethod,
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

    The method is Source, or InTEnt with a strategy that takes no passes of its own. An image that
    fits into one window goes through whole; ``overlap`` is a share of a window's sides.
    """
    if not isinstance(method, GridMethod) or method.needs_own_passes:
        raise InvalidSetting(
            "This method cannot go window by window.",
            allowed=f"source, and intent with the strategies {', '.join(shared_strategies())}",
            got=type(method).name,
        )
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
        # What normalises by itself sees a window as it was trained on one.
        pools = statistics == "volume" and method.statistics == "captured"
        pools = pools and not method.source_statistics
        slid = (_slide(method, twin, x[None], window, overlap, pools) for x in images)
        logits, distances = zip(*slid, strict=True)
        members = method.members(torch.cat(logits, dim=1), torch.cat(distances))
        return method._integrated(twin, images, members)

    def predict(image: Any) -> Prediction:
        raw, batched = method._on_twin(image, adapt)
        return Prediction(raw, batched=batched, geometry=ImageGeometry.of(image))

    return predict


def _slide(
    method: GridMethod,
    twin: Twin,
    image: Tensor,
    window: Sequence[int],
    overlap: float,
    pools: bool,
) -> tuple[Tensor, Tensor]:
    """Logits ``(K, 1, C, *S)`` of an image ``(1, C, *S)``, and its distance ``(1,)``."""
    from monai.inferers import sliding_window_inference

    def run(rows: Tensor, lambdas: Sequence[float], captured: CapturedStatistics) -> Tensor:
        how: Any = {"unbiased": method.how["unbiased"], "captured": captured}
        return twin.run(rows, torch.tensor(lambdas, dtype=torch.float64), pool="first", **how)

    windows: list[CapturedStatistics] = []
    for corner in _corners(image.shape[2:], window, overlap) if pools else ():
        cuts = [slice(a, a + w) for a, w in zip(corner, window, strict=True)]
        windows.append(CapturedStatistics())
        run(image[:, :, *cuts], (0.0,), windows[-1])
    captured = CapturedStatistics.pooled(windows)  # of the whole image
    distances = [twin.distance_of(captured)] if pools else []

    def members(part: Tensor) -> Tensor:
        if pools:
            rows = part.repeat(len(method.grid), *[1] * (part.dim() - 1))
            logits = run(rows, method.grid, captured)
        else:
            logits = member_logits(twin, part, method.grid, **method.how)
            distances.append(twin.distance)
        return logits.flatten(0, 2)[None]  # (1, K * C, *S)

    stitched = sliding_window_inference(image, window, 1, members, overlap=overlap, mode="gaussian")
    logits: Tensor = stitched[0].unflatten(0, (len(method.grid), 1, -1))
    return logits, torch.stack(distances).mean(dim=0)


def _corners(sides: Sequence[int], window: Sequence[int], overlap: float) -> list[tuple[int, ...]]:
    """Where windows begin, so that they cover the image."""
    starts = []
    for n, w in zip(sides, window, strict=True):
        step, last = max(1, int(w * (1 - overlap))), max(0, n - w)
        starts.append(sorted({*range(0, last, step), last}))
    return list(product(*starts))
