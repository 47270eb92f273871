"""A prediction in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from sitta.notes import NOTES

if TYPE_CHECKING:
    from sitta.prediction import Prediction


def summary(prediction: Prediction) -> str:
    """A short readable text, a paragraph for each image."""
    if len(prediction) == 1:
        return _of_one(prediction[0])
    return "\n\n".join(f"image {i}\n{_of_one(p)}" for i, p in enumerate(prediction))


def _of_one(p: Prediction) -> str:
    size = " x ".join(map(str, p.image.shape[1:]))
    rows = [f"{p.method}, {len(p.lambdas)} member{'s'[: len(p.lambdas) > 1]}, {size} pixels"]
    rows += [f"  {name:<12}{_numbers(values, form)}" for name, values, form in _columns(p)]
    at = p.source_member
    before = "" if at is None else f"{float(p.areas[at]):.2%} at source, "
    rows.append(f"  foreground  {before}{float(p.area):.2%} in the mask")
    if len(p.lambdas) > 1:
        agreed = float(p.agreement)
        rows.append(f"  agreement   {agreed:.3f} between the members, 1 = identical masks")
    rows.append(f"  uncertainty {float(p.uncertainty.mean()):.3f} bit a pixel")
    rows += [f"  note        {NOTES[str(code)]} [{code}]" for code in p.notes]
    return "\n".join(rows)


def _columns(p: Prediction) -> list[tuple[str, Tensor, str]]:
    return [
        ("lambda", p.lambdas, ".2f"),
        ("entropy", p.entropies, ".3f"),
        ("weight", p.weights, ".3f"),
        ("area", p.areas, ".3f"),
    ]


def _numbers(values: Tensor, form: str) -> str:
    return " ".join(f"{float(v):>6{form}}" for v in values)
