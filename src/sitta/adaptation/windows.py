"""Images too large for one pass: members window by window, under statistics of the whole image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from sitta.adaptation.intent import InTEnt
from sitta.adaptation.source import Source
from sitta.errors import InvalidSetting
from sitta.intake import as_batch
from sitta.integration import STRATEGIES
from sitta.members import member_logits
from sitta.prediction import Prediction
from sitta.tape import Tape
from sitta.twin import Twin

Predict = Callable[[Any], Prediction]


def windowed(
    method: InTEnt | Source,
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

    Args:
        method: InTEnt, with any strategy but ``sharpness``, or Source.
        window: Sides of a window; an image that fits into one goes through whole.
        statistics: ``volume`` or ``window``.
        overlap: Of neighbouring windows, as a share of their sides.

    Example:
        >>> import sitta
        >>> model = sitta.models.UNet(channels=4, multipliers=(1, 2))
        >>> adapt = windowed(sitta.InTEnt(model), (16, 16))
        >>> adapt(torch.rand(1, 40, 24)).mask.shape
        torch.Size([40, 24])
    """
    if not isinstance(method, InTEnt | Source) or _strategy(method) == "sharpness":
        raise InvalidSetting(
            "This method cannot go window by window.",
            allowed="intent, with any strategy but sharpness, and source",
            got=type(method).name,
        )
    if statistics not in ("volume", "window") or not 0 <= overlap < 1:
        raise InvalidSetting(
            "Wrong settings of the windows.", allowed="volume or window; 0 <= overlap < 1"
        )

    def predict(image: Any) -> Prediction:
        images, batched = as_batch(image, method.model, method.census)
        if len(window) != images.dim() - 2:
            raise InvalidSetting(
                "A window needs one number a side.", allowed=str(images.dim() - 2), got=str(window)
            )
        if all(n <= w for n, w in zip(images.shape[2:], window, strict=True)):
            return method(image)
        with method._twins.borrow() as twin, torch.no_grad():
            slide = _Slide(twin, method, tuple(window), statistics, overlap)
            done = [slide(x[None]) for x in images]
            logits = torch.cat([z for z, _ in done], dim=1)  # (K, N, C, *S)
            distance = torch.cat([far for _, far in done])
            outcome = method._integrated(twin, images, logits, distance=distance)
        return Prediction(outcome, batched=batched)

    return predict


def _strategy(method: InTEnt | Source) -> str:
    return STRATEGIES[method.strategy].figure if isinstance(method, InTEnt) else ""


class _Slide:
    """All members of one image, window by window."""

    def __init__(
        self,
        twin: Twin,
        method: InTEnt | Source,
        window: tuple[int, ...],
        statistics: str,
        overlap: float,
    ) -> None:
        self.twin, self.window, self.overlap = twin, window, overlap
        self.whole = statistics == "volume" and method.statistics == "captured"
        self.lambdas = method.grid if isinstance(method, InTEnt) else (method.lam,)
        self.how: Any = {"statistics": method.statistics}
        self.how["unbiased"] = self.unbiased = method.variance == "unbiased"

    def __call__(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Logits ``(K, 1, C, *S)`` of an image ``(1, C, *S)``, and its distance ``(1,)``."""
        from monai.inferers import sliding_window_inference

        tape = self._captured(image) if self.whole else None
        far = [] if tape is None else [self.twin.distance_of(tape)]

        def members(part: Tensor) -> Tensor:
            if tape is None:
                found = member_logits(self.twin, part, self.lambdas, **self.how)
                far.append(self.twin.distance)
            else:
                rows = part.repeat(len(self.lambdas), *[1] * (part.dim() - 1))
                lambdas = torch.tensor(self.lambdas, dtype=torch.float64)
                found = self.twin.run(
                    rows, lambdas, pool="first", unbiased=self.unbiased, tape=tape
                )
            return found.flatten(0, 2)[None]  # (1, K * C, *S)

        stitched = sliding_window_inference(
            image, self.window, 1, members, overlap=self.overlap, mode="gaussian"
        )
        measured = [d for d in far if d is not None] or [image.new_full((1,), torch.nan)]
        logits: Tensor = stitched[0].unflatten(0, (len(self.lambdas), 1, -1))
        return logits, torch.stack(measured).mean(dim=0)

    def _captured(self, image: Tensor) -> Tape:
        """Statistics of the whole image, pooled over its windows."""
        tapes = []
        for corner in _corners(image.shape[2:], self.window, self.overlap):
            cuts = [slice(a, a + w) for a, w in zip(corner, self.window, strict=True)]
            tapes.append(Tape())
            self.twin.run(
                image[:, :, *cuts],
                torch.zeros(1),
                pool="first",
                unbiased=self.unbiased,
                tape=tapes[-1],
            )
        return Tape.pooled(tapes)


def _corners(sides: Sequence[int], window: Sequence[int], overlap: float) -> list[tuple[int, ...]]:
    """Where windows begin, so that they cover the image."""
    starts = []
    for n, w in zip(sides, window, strict=True):
        step = max(1, int(w * (1 - overlap)))
        last = max(0, n - w)
        starts.append(sorted({*range(0, last, step), last}))
    return list(product(*starts))
