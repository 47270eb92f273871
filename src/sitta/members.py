"""The grid of lambdas, and the logits of all members on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Literal

import torch
from torch import Tensor

from sitta import memory
from sitta.errors import UnsupportedModel
from sitta.tape import Tape
from sitta.twin import Twin

Statistics = Literal["captured", "in-layer"]


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


def fitting_logits(
    twin: Twin,
    images: Tensor,
    lambdas: Sequence[float],
    *,
    statistics: Statistics = "captured",
    unbiased: bool = False,
    at_once: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """As ``member_logits``, with parts that fit into memory if ``at_once`` is None.

    The first image of a shape that is not small goes member by member, which tells what a row
    takes. Then members, and if need be images, are split so that a pass fits.

    Returns:
        Logits ``(K, N, C, *S)``, and each image's distance from the source's statistics ``(N,)``,
        or None if no layer measured it.
    """

    def run(some: Tensor, members: int | None) -> tuple[Tensor, Tensor | None]:
        found = member_logits(
            twin, some, lambdas, statistics=statistics, unbiased=unbiased, at_once=members
        )
        return found, twin.distance

    alone = statistics == "captured" and (unbiased or 0 not in lambdas)  # the row that captures
    members = len(lambdas) + alone
    if at_once is not None or memory.is_small(members * len(images), images[0].shape):
        return run(images, at_once)
    try:
        return _together(list(_parts(run, twin, images, members)))
    except UnsupportedModel:  # a path that depends on values: nothing to be played back, so whole
        return run(images, None)


Run = Callable[[Tensor, int | None], tuple[Tensor, Tensor | None]]


def _parts(
    run: Run, twin: Twin, images: Tensor, members: int
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Results for some images after the other, each in passes that fit."""
    image = images[0]
    if memory.known(twin.module, image) is None:
        with memory.Measured(twin.module, image):
            yield run(images[:1], 1)
        images = images[1:]
    if len(images):
        row = memory.known(twin.module, image) or 1
        at_once, size = memory.parts(members, len(images), row, memory.room(images.device))
        for some in images.split(size):
            yield run(some, at_once)


def _together(done: list[tuple[Tensor, Tensor | None]]) -> tuple[Tensor, Tensor | None]:
    """One result of the results for parts of the images."""
    if len(done) == 1:
        return done[0]
    far = [distance for _, distance in done if distance is not None]
    return torch.cat([logits for logits, _ in done], dim=1), torch.cat(far) if far else None


def member_logits(
    twin: Twin,
    images: Tensor,
    lambdas: Sequence[float],
    *,
    statistics: Statistics = "captured",
    unbiased: bool = False,
    at_once: int | None = None,
) -> Tensor:
    """Logits of every member for every image, in as few passes as ``at_once`` allows.

    With captured statistics, a row of lambda 0 goes first and serves all others. It is a member
    itself, unless none has lambda 0, or the recorded variance is the unbiased one, under which even
    the member of lambda 0 differs from the row that captures (as in the published procedure).

    Args:
        twin: A borrowed twin.
        images: ``(N, C, *S)``.
        lambdas: One for each member, in any order.
        statistics: Captured, or mixed in each layer anew.
        unbiased: Mix with the unbiased variance.
        at_once: Members in one pass; all of them if None.

    Returns:
        ``(K, N, C, *S)``.
    """
    if statistics == "in-layer" or all(lam == 1 for lam in lambdas):
        parts = _split(lambdas, at_once or len(lambdas))
        passes = (_pass(twin, images, part, "own", unbiased) for part in parts)
        return _collect(passes, len(lambdas))
    others = [lam for lam in lambdas if unbiased or lam != 0]
    logits = _captured(twin, images, others, unbiased, at_once or len(others) + 1)
    rows = iter(range(1, len(others) + 1))
    order = [0 if lam == 0 and not unbiased else next(rows) for lam in lambdas]
    return logits if order == list(range(len(logits))) else logits[order]


def _captured(
    twin: Twin, images: Tensor, others: list[float], unbiased: bool, at_once: int
) -> Tensor:
    """Logits of the capturing row, then of the others."""
    parts = list(_split([0.0, *others], at_once))
    tape = Tape() if len(parts) > 1 else None  # the first pass fills it, the rest play it back
    passes = (_pass(twin, images, part, "first", unbiased, tape) for part in parts)
    return _collect(passes, 1 + len(others))


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


def _pass(
    twin: Twin,
    images: Tensor,
    lambdas: Sequence[float],
    pool: Literal["first", "own"],
    unbiased: bool,
    tape: Tape | None = None,
) -> Tensor:
    lam = torch.tensor(lambdas, dtype=torch.float64)
    return twin.run(images, lam, pool=pool, unbiased=unbiased, tape=tape, alike=True)


def _split(values: Sequence[float], size: int) -> list[Sequence[float]]:
    return [values[i : i + size] for i in range(0, len(values), size)]
