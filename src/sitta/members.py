"""The grid of lambdas, and the logits of all members on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Literal

import torch
from torch import Tensor

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
