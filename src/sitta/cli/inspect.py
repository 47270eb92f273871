"""``sitta inspect``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sitta.cli import app


@app.command()
def inspect(
    model: Annotated[
        str, typer.Argument(help="A model's name, a checkpoint, or package.module:factory.")
    ],
    weights: Annotated[Path | None, typer.Option(help="For a factory.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """What a model is made of, what it takes, and which methods apply to it."""
    import sitta
    from sitta.runs import load_model

    loaded = load_model(model, weights)
    found = sitta.inspect(loaded.model)
    card = getattr(loaded.model, "card", {})
    if as_json:
        told = {"model": model, "sha256": loaded.digest, "census": asdict(found.census)}
        told |= {"preprocess": loaded.preprocess.as_dict(), "classes": list(loaded.classes)}
        told |= {"methods": {k: not v for k, v in found.problems.items()}, "card": card}
        typer.echo(json.dumps(told, indent=2))
        return
    typer.echo(found)
    typer.echo("takes")
    for name, value in loaded.preprocess.as_dict().items():
        typer.echo(f"  {name:<9} {_plain(value)}")
    typer.echo(f"finds\n  {', '.join(loaded.classes)}")
    for name in ("source", "training", "trust", "note"):
        if card.get(name):
            typer.echo(f"{name}\n  {_plain(card[name])}")


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return "\n  ".join(f"{k}: {v}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return " x ".join(map(str, value))
    return "as it is" if value is None else str(value)
