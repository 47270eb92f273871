"""``sitta inspect``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sitta.cli import app, command
from sitta.cli.options import AsJson, Model, Weights
from sitta.cli.show import print_json, say


@command(app, "sitta inspect chest-mcu")
def inspect(model: Model, weights: Weights = None, as_json: AsJson = False) -> None:
    """What a model is made of, what it takes, and which methods apply to it."""
    from sitta.data.scaling import SETTINGS
    from sitta.inference import load_model

    loaded = load_model(model, weights)
    text, described = _inside(loaded.model)
    card = getattr(loaded.model, "card", {})
    if as_json:
        about = {"model": model, "sha256": loaded.digest, "preprocess": loaded.preprocess.as_dict()}
        about |= {"classes": list(loaded.classes), "card": card}
        print_json({**about, **described})
        return
    say(f"{text}\ntakes")
    for name, value in loaded.preprocess.as_dict().items():
        number = isinstance(value, tuple) and name in SETTINGS
        say(f"  {name:<9} {', '.join(f'{v:g}' for v in value) if number else _plain(value)}")
    say(f"finds\n  {', '.join(loaded.classes)}")
    for name in ("source", "training", "trust", "note"):
        if card.get(name):
            say(f"{name}\n  {_plain(card[name])}")


def _inside(model: Any) -> tuple[str, dict[str, Any]]:
    """What a model is made of, for people and for programs."""
    from sitta.inference.backends.onnx import Graph

    if isinstance(model, Graph):
        return str(model), {"graph": model.describe()}
    import sitta

    inspection = sitta.inspect(model)
    applies = {name: not problem for name, problem in inspection.problems.items()}
    told = {"census": asdict(inspection.census), "methods": applies}
    return str(inspection), {**told, "warnings": list(inspection.warnings)}


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return "\n  ".join(f"{k}: {v}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return " x ".join(map(str, value))
    return "as it is" if value is None else str(value)
