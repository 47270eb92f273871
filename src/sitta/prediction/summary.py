"""A prediction in words."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from sitta.prediction.notes import note
from sitta.prediction.scores import DOUBT, score_text, shown

if TYPE_CHECKING:
    from sitta.prediction.prediction import Prediction


def summary(prediction: Prediction) -> str:
    """A short readable text, a paragraph for each image."""
    if len(prediction) == 1:
        return _of_one(prediction[0])
    return "\n\n".join(f"image {i}\n{_of_one(p)}" for i, p in enumerate(prediction))


def _of_one(p: Prediction) -> str:
    size = " x ".join(map(str, p.image.shape[1:]))
    lines = [f"{p.method}, {len(p.lambdas)} member{'s'[: len(p.lambdas) > 1]}, {size} pixels"]
    members = {"lambda": p.lambdas, "entropy": p.entropies, "weight": p.weights, "area": p.areas}
    for name, values in members.items():
        digits = 2 if name == "lambda" else 3
        lines.append(_cell(name, " ".join(f"{float(v):>6.{digits}f}" for v in values)))
    (row,) = p.record.rows()
    scores = [
        _cell(score.title.lower(), score_text(score, row, "{before} at source, {after}"))
        for score in shown()
        if score is not DOUBT
        and row[score.name] is not None
        and (len(p.lambdas) > 1 or not score.compares)  # one member has no other
    ]
    pairs = zip_longest(scores[::2], scores[1::2], fillvalue="")
    lines += [f"{left:<32}{right}".rstrip() for left, right in pairs]
    notes = [note(code) for code in row["notes"]]
    lines += [_cell(n.severity, f"{n.sentence} {n.advice} [{n.code}]") for n in notes]
    return "\n".join(lines)


def _cell(name: str, text: str) -> str:
    return f"  {name:<14}{text}"
