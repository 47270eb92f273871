"""``sitta inspect``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from sitta.cli import app


@app.command()
def inspect(
    model: Annotated[
        str, typer.Argument(help="A model's name, a checkpoint, .onnx, or package.module:factory.")
    ],
    weights: Annotated[Path | None, typer.Option(help="For a factory.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """What a model is made of, what it takes, and which methods apply to it."""
    from sitta.runs import load_model

    loaded = load_model(model, weights)
    text, told = _inside(loaded.model)
    card = getattr(loaded.model, "card", {})
    if as_json:
        about = {"model": model, "sha256": loaded.digest, "preprocess": loaded.preprocess.as_dict()}
        about |= {"classes": list(loaded.classes), "card": card}
        typer.echo(json.dumps({**about, **told}, indent=2))
        return
    typer.echo(text)
    typer.echo("takes")
    for name, value in loaded.preprocess.as_dict().items():
        typer.echo(f"  {name:<9} {_plain(value)}")
    typer.echo(f"finds\n  {', '.join(loaded.classes)}")
    for name in ("source", "training", "trust", "note"):
        if card.get(name):
            typer.echo(f"{name}\n  {_plain(card[name])}")


def _inside(model: Any) -> tuple[str, dict[str, Any]]:
    """What a model is made of, for people and for programs."""
    from sitta.runs.graph import Graph

    if isinstance(model, Graph):
        return str(model), {"graph": model.describe()}
    import sitta

    found = sitta.inspect(model)
    applies = {name: not problem for name, problem in found.problems.items()}
    return str(found), {"census": asdict(found.census), "methods": applies}


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return "\n  ".join(f"{k}: {v}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return " x ".join(map(str, value))
    return "as it is" if value is None else str(value)
