"""``sitta export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sitta.cli import app, command
from sitta.cli import options as o
from sitta.cli.show import print_json, say


@command(app, "sitta export chest-mcu chest-mcu.onnx")
def export(
    model: o.Model,
    out: Annotated[Path, typer.Argument(help="The .onnx file to write.")],
    *,
    strategy: o.Strategy = None,
    step: o.Step = None,
    lambdas: Annotated[o.Text, o.option(o.METHOD, "Lambdas in place of the grid: 1,0.5,0.")] = None,
    settings: o.Settings = None,
    reading: o.Reading,
    weights: o.Weights = None,
    multiple: Annotated[
        o.Whole,
        typer.Option(min=1, help="Sides must be multiples of this; by default Sitta finds it."),
    ] = None,
    classes: Annotated[
        o.Text, o.option(o.PRE, "Class names, separated by commas, background first.")
    ] = None,
    preprocessing: o.Preprocessing,
    target: Annotated[
        str, typer.Option(help="cpu: rewrite wide convolutions, faster on CPUs; any: leave them.")
    ] = "cpu",
    winograd: Annotated[bool | None, typer.Option("--winograd/--no-winograd", hidden=True)] = None,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
) -> None:
    """Write a model with all members of InTEnt as one ONNX file, checked against torch."""
    from sitta._util.deprecation import EXPORT_OPTION
    from sitta.errors import InvalidSetting
    from sitta.export import export_onnx, require
    from sitta.inference import load_model
    from sitta.inference.contact import first_contact, noise
    from sitta.inference.loading import is_graph

    require(out, overwrite)
    if winograd is not None:
        say(f"sitta: {EXPORT_OPTION}", err=True)
        target = "cpu" if winograd else "any"
    words = [*(settings or []), *([f"lambdas={lambdas}"] if lambdas else [])]
    chosen = o.method_settings("intent", words, strategy=strategy, step=step)
    if is_graph(model):
        raise InvalidSetting(f"{model} is a graph already.", fix="give what it was exported from")
    loaded = load_model(model, weights, preprocessing.changes, reading=reading.changes)
    if model.lower().endswith(".toml"):  # a graph keeps what it says, right or wrong
        for warning in first_contact(loaded, noise(loaded)):
            say(f"warning: {warning}", err=True)
    done = export_onnx(
        loaded.model,  # type: ignore[arg-type]  # no graph, as seen above
        out,
        card={"classes": ["background", *loaded.classes]},  # usual names: they need not fit
        preprocess=loaded.preprocess,
        classes=None if classes is None else [name.strip() for name in classes.split(",")],
        channels=loaded.preprocess.channels if preprocessing.channels else None,
        multiple=multiple,
        target=target,
        overwrite=overwrite,
        **chosen,
    )
    if as_json:
        print_json(done.as_dict(), indent=None)
        return
    say(done)
    if loaded.profile.window is not None:
        say(
            "warning: a graph takes each input whole. The sliding window of the profile is not in "
            "it, so masks of inputs larger than the window differ.",
            err=True,
        )
