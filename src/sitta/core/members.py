"""The grid of lambdas, and the logits of all members on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import torch
from torch import Tensor

from sitta.core.accel import budget
from sitta.core.capture import CapturedStatistics
from sitta.core.twin import Twin
from sitta.errors import UnsupportedModel

Statistics = Literal["captured", "in-layer"]
Run = Callable[[Tensor, int | None], tuple[Tensor, Tensor]]


def grid(step: float) -> tuple[float, ...]:
    """Lambdas from 1 (source) to 0 (this image) in steps of C, both ends included (Eq. 6).

    Example:
        >>> grid(0.2)
        (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)
        >>> grid(0.3)
        (1.0, 0.9, 0.6, 0.3, 0.0)
    """
    inner = [round(i * step, 9) for i in range(1, int(1 / step) + 1)]
    return (1.0, *(lam for lam in reversed(inner) if lam < 1.0), 0.0)


@dataclass(frozen=True)
class Rows:
    """The rows of a batch that stand for one image.

    With captured statistics, a row of lambda 0 goes first and serves all others. It is a member
    itself, unless none has lambda 0, or the recorded variance is the unbiased one, under which even
    the member of lambda 0 differs from the row that captures (as in the published procedure).
    """

    lambdas: tuple[float, ...]  # one for each row
    captured: bool  # whether the statistics of the first row serve all
    unbiased: bool  # whether to mix with the unbiased variance
    order: tuple[int, ...]  # which row each member is

    @classmethod
    def of(cls, grid: Sequence[float], captured: bool, unbiased: bool) -> Rows:
        """For members of these lambdas, in any order."""
        if not captured or all(lam == 1 for lam in grid):
            return cls(tuple(grid), False, unbiased, tuple(range(len(grid))))
        others = [lam for lam in grid if unbiased or lam != 0]
        free = iter(range(1, 1 + len(others)))
        order = (0 if lam == 0 and not unbiased else next(free) for lam in grid)
        return cls((0.0, *others), True, unbiased, tuple(order))

    def __len__(self) -> int:
        return len(self.lambdas)

    @property
    def is_ordered(self) -> bool:
        """Whether the rows are the members as they come."""
        return self.order == tuple(range(len(self)))


def member_logits_chunked(
    twin: Twin,
    images: Tensor,
    lambdas: Sequence[float],
    *,
    statistics: Statistics = "captured",
    unbiased: bool = False,
    at_once: int | None = None,
    depths: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """As ``member_logits``, with parts that fit into memory if ``at_once`` is None.

    The first image of a shape that is not small goes member by member, to measure the memory of a
    row. Then members, and if need be images, are split so that a pass fits.

    Returns:
        Logits ``(K, N, C, *S)``, and each image's distance from the source's statistics ``(N,)``.
    """
    rows = len(Rows.of(lambdas, statistics == "captured", unbiased))
    how: Any = {"statistics": statistics, "unbiased": unbiased, "depths": depths}

    def run(part: Tensor, size: int | None) -> tuple[Tensor, Tensor]:
        return member_logits(twin, part, lambdas, at_once=size, **how), twin.distance

    if at_once is not None or budget.is_small(rows * len(images), images[0].shape):
        return run(images, at_once)
    try:
        logits, distances = zip(*_chunks(run, twin, images, rows), strict=True)
    except UnsupportedModel:  # a path that depends on values: nothing to replay, so in one pass
        return run(images, None)
    return logits[0] if len(logits) == 1 else torch.cat(logits, dim=1), torch.cat(distances)


def _chunks(run: Run, twin: Twin, images: Tensor, rows: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Results for one part of the images after the other, each in passes that fit."""
    image = images[0]
    if budget.row_bytes(twin.module, image) is None:
        with budget.PeakTracker(twin.module, image):
            yield run(images[:1], 1)
        images = images[1:]
    if len(images):
        row = budget.row_bytes(twin.module, image) or 1
        free = budget.available_bytes(images.device)
        at_once, size = budget.split(rows, len(images), row, free)
        for part in images.split(size):
            yield run(part, at_once)


def member_logits(
    twin: Twin,
    images: Tensor,
    lambdas: Sequence[float],
    *,
    statistics: Statistics = "captured",
    unbiased: bool = False,
    at_once: int | None = None,
    depths: Sequence[int] | None = None,
) -> Tensor:
    """Logits ``(K, N, C, *S)`` of every member for images ``(N, C, *S)``.

    Lambdas come in any order. ``at_once`` members go through in one pass, all of them if None.
    With in-layer statistics, the first ``depths`` layers of each member stay at the source.
    """
    rows = Rows.of(lambdas, statistics == "captured", unbiased)
    size = at_once or len(rows)
    parts = [slice(i, i + size) for i in range(0, len(rows), size)]
    # The first pass captures, the others replay.
    captured = CapturedStatistics() if rows.captured and len(parts) > 1 else None

    def run(part: slice) -> Tensor:
        return twin.run(
            images,
            torch.tensor(rows.lambdas[part], dtype=torch.float64),
            pool="first" if rows.captured else "own",
            unbiased=unbiased,
            captured=captured,
            same_rows=True,
            depths=None if depths is None else depths[part],
        )

    logits = _collect(map(run, parts), len(rows))
    return logits if rows.is_ordered else logits[list(rows.order)]


def _collect(passes: Iterator[Tensor], count: int) -> Tensor:
    """The logits of all passes one after the other, in memory that is taken once."""
    first = next(passes)
    if len(first) == count:
        return first
    logits, done = first.new_empty(count, *first.shape[1:]), 0
    for part in chain([first], passes):
        logits[done : done + len(part)] = part
        done += len(part)
    return logits
