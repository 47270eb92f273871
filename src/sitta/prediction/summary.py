"""A prediction in words."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from sitta.prediction.notes import note
from sitta.prediction.scores import DOUBT, SCORES, score_text, shown

if TYPE_CHECKING:
    from sitta.prediction.prediction import Prediction


def summary(prediction: Prediction) -> str:
    """A short readable text, a paragraph for each image."""
    if len(prediction) == 1:
        return _of_one(prediction[0])
    return "\n\n".join(f"image {i}\n{_of_one(p)}" for i, p in enumerate(prediction))


def _of_one(p: Prediction) -> str:
    size = " x ".join(map(str, p.image.shape[1:]))
    ran = np.flatnonzero(p.record.ran[:, 0])
    lines = [f"{p.method}, {len(ran)} member{'s'[: len(ran) > 1]}, {size} pixels"]
    lines.append(_cell("lambda", " ".join(f"{p.record.names[k]:>6}" for k in ran)))
    members = {"entropy": p.entropies, "weight": p.weights, "area": p.areas}
    for name, values in members.items():
        lines.append(_cell(name, " ".join(f"{float(values[k]):>6.3f}" for k in ran)))
    (row,) = p.record.rows()
    lines.append(_cell("expected Dice", _expected(row)))
    scores = [
        _cell(score.title.lower(), score_text(score, row, "{before} unadapted, {after} here"))
        for score in shown()
        if score is not DOUBT
        and not score.name.startswith("expected_dice")
        and row[score.name] is not None
        and (len(ran) > 1 or not score.compares)  # one member has no other
    ]
    pairs = zip_longest(scores[::2], scores[1::2], fillvalue="")
    lines += [f"{left:<32}{right}".rstrip() for left, right in pairs]
    notes = [note(code) for code in row["notes"]]
    lines += [_cell(n.severity, f"{n.sentence} {n.advice} [{n.code}]") for n in notes]
    return "\n".join(lines)


def _expected(row: dict[str, Any]) -> str:
    """Expected Dice with its interval; of several classes, that of each as well."""
    whole = _interval(row)
    classes = row["classes"] if len(row["classes"]) > 1 else []
    return "; ".join([whole, *(f"{c['name']} {_interval(c)}" for c in classes)])


def _interval(values: dict[str, Any]) -> str:
    middle, low, high = (
        SCORES[name].text(values[name])
        for name in ("expected_dice", "expected_dice_low", "expected_dice_high")
    )
    return middle if values["expected_dice"] is None else f"{middle} ({low} to {high})"


def _cell(name: str, text: str) -> str:
    return f"  {name:<14}{text}"
