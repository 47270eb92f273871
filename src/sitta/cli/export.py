"""``sitta export``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sitta.cli import app
from sitta.cli.options import PRE, Channels, Dims, Fit, Plane, Scale, Size, Spacing, given


@app.command()
def export(
    model: Annotated[
        str, typer.Argument(help="A model's name, a checkpoint, or package.module:factory.")
    ],
    out: Annotated[Path, typer.Argument(help="The file to write, .onnx.")],
    strategy: Annotated[str | None, typer.Option(help="How members weigh.")] = None,
    step: Annotated[float | None, typer.Option(help="Grid step.")] = None,
    lambdas: Annotated[
        str | None, typer.Option(help="Instead of the grid, such as 1,0.5,0.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting of intent."),
    ] = None,
    output: Annotated[
        str | None, typer.Option(help="Key or index of the logits in what a network returns.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="For a factory.")] = None,
    multiple: Annotated[
        int | None, typer.Option(min=1, help="Of what sides must be multiples; else found out.")
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="Names with commas, background first.", rich_help_panel=PRE)
    ] = None,
    size: Size = None,
    fit: Fit = None,
    spacing: Spacing = None,
    channels: Channels = None,
    scale: Scale = None,
    plane: Plane = None,
    dims: Dims = None,
    winograd: Annotated[
        bool, typer.Option(help="Write wide convolutions with fewer products, for CPUs.")
    ] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="What was written, as JSON.")] = False,
) -> None:
    """Write a model with all members of InTEnt as one ONNX file, checked against torch."""
    from sitta.cli.options import sides
    from sitta.cli.predict import method_settings
    from sitta.export import export_onnx, require
    from sitta.runs import load_model
    from sitta.runs.graph import is_graph

    words = [*(settings or []), *([f"lambdas={lambdas}"] if lambdas else [])]
    require(out, overwrite)
    chosen = method_settings("intent", words) | given(strategy=strategy, step=step)
    if is_graph(model):
        from sitta.errors import InvalidSetting

        raise InvalidSetting(f"{model} is a graph already.", fix="give what it was exported from")
    changes = given(size=sides(size, int), fit=fit, spacing=sides(spacing, float))
    changes |= given(channels=channels, scale=scale, plane=plane, dims=dims)
    loaded = load_model(model, weights, changes)
    done = export_onnx(
        loaded.model,  # type: ignore[arg-type]  # no graph, as seen above
        out,
        preprocess=loaded.preprocess,
        **_classes(classes, loaded.classes),
        channels=loaded.preprocess.channels if channels else None,
        multiple=multiple,
        output=int(output) if output is not None and output.isdecimal() else output,
        winograd=winograd,
        overwrite=overwrite,
        **chosen,
    )
    typer.echo(json.dumps(done.as_dict()) if as_json else str(done))


def _classes(text: str | None, known: tuple[str, ...]) -> dict[str, Any]:
    """Names that were given must fit the model; those that are only usual need not."""
    if text is None:
        return {"card": {"classes": ["background", *known]}}
    return {"classes": [name.strip() for name in text.split(",")]}
