"""What a person says of a result: which mask, which decision, and a mask drawn by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from sitta.errors import SittaError
from sitta.prediction.decisions import Decision, now
from sitta.serve.choice import Choice, require
from sitta.serve.errors import ApiError
from sitta.serve.render import Rendering
from sitta.serve.store import Entry


def decide(entry: Entry, said: dict[str, Any]) -> list[Decision]:
    """Keep what is said of a result, or of one slice; returns all that is said of it.

    Every row names the file of the mask by its hash, so all change when a slice's mask does.
    """
    try:
        one = Decision(file=entry.answer["path"], time=now(), **said)
    except SittaError as error:
        raise ApiError.of(422, "bad-decision", error) from error
    rendering = Rendering(entry)
    if one.slice is not None:
        rendering.require_slice(one.slice)
    require(entry.answer, Choice.of(one), entry.is_corrected)
    with entry.lock:
        review = {**entry.review, one.slice: one}
        if _says_nothing(one):
            del review[one.slice]
        chosen = rendering.chosen(review)
        for other in entry.folder.glob("chosen-*"):  # a session keeps one, not one a decision
            if other != chosen:
                other.unlink(missing_ok=True)
        digest = hashlib.sha256(chosen.read_bytes()).hexdigest()
        entry.review = {n: replace(d, mask_sha256=digest) for n, d in review.items()}
    return rows(entry)


def rows(entry: Entry) -> list[Decision]:
    """What is said of a result: of the whole file first, then slice by slice."""
    return sorted(entry.review.values(), key=lambda d: -1 if d.slice is None else d.slice)


def all_rows(entries: Iterable[Entry]) -> Iterator[Decision]:
    """What is said of several."""
    for entry in entries:
        yield from rows(entry)


def plain(decisions: Iterable[Decision]) -> list[dict[str, Any]]:
    """In plain types."""
    return [asdict(decision) for decision in decisions]


def correct(entry: Entry, number: int, content: bytes) -> None:
    """Keep a mask that was drawn in one slice, row by row, one byte a pixel."""
    rendering = Rendering(entry)
    rendering.require_slice(number)
    sides = tuple(entry.answer["shape"][-2:])
    values = np.frombuffer(content, np.uint8)
    if len(values) != sides[0] * sides[1]:
        raise ApiError(
            422,
            "bad-mask",
            f"The mask has {len(values):,} bytes.",
            allowed=f"{sides[0]} x {sides[1]} bytes, row by row, a class a pixel",
        )
    most = len(entry.answer["classes"])
    if values.max() > most:
        raise ApiError(422, "bad-mask", "The mask has a class that there is not.", f"0 to {most}")
    with entry.lock:
        rendering.correct(number, values.reshape(sides), entry.review)


def _says_nothing(one: Decision) -> bool:
    return one == replace(
        Decision(file=one.file, slice=one.slice), time=one.time, reviewer=one.reviewer
    )
