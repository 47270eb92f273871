"""``sitta inspect``."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sitta.cli import app, command
from sitta.cli.calibrate import show, told
from sitta.cli.options import AsJson, Model, Overwrite, Weights
from sitta.cli.show import print_json, say

if TYPE_CHECKING:
    from sitta.inference import Loaded
    from sitta.prediction.calibration import Calibration


@command(app, "sitta inspect chest-mcu")
def inspect(
    model: Model,
    weights: Weights = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the calibration: mean image, shapes and shifts.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Show the layers of a model, the input it takes, and the methods that apply."""
    from sitta.data.scaling import SETTINGS
    from sitta.inference import load_model
    from sitta.prediction.calibration import calibration_of

    loaded = load_model(model, weights)
    text, described, idle = _inside(loaded)
    shown_apart = ("calibration", "profile")
    card = {k: v for k, v in getattr(loaded.model, "card", {}).items() if k not in shown_apart}
    calibration = calibration_of(loaded.model)
    if plot is not None:
        _draw(calibration, model, plot, overwrite)
    if as_json:
        takes = loaded.preprocess.as_dict()
        about: dict[str, Any] = {"model": model, "sha256": loaded.digest, "preprocess": takes}
        about |= {"classes": list(loaded.classes), "card": card}
        about |= {"profile": replace(loaded.profile, calibration=None).as_dict(), **described}
        about["calibration"] = None if calibration is None else told(calibration)
        print_json({**about, "warnings": [*described.get("warnings", []), *idle]})
        return
    say(f"{text}\ntakes")
    for name, value in loaded.preprocess.as_dict().items():
        number = isinstance(value, tuple) and name in SETTINGS
        say(f"  {name:<9} {', '.join(f'{v:g}' for v in value) if number else _plain(value)}")
    say(f"finds\n  {', '.join(loaded.classes)}")
    if reading := loaded.profile.reading:
        say(f"reads\n  {_plain(reading)}")
    about = {**card, **{name: getattr(loaded.profile, name) for name in ("licence", "citation")}}
    for name in ("source", "training", "trust", "licence", "citation", "note"):
        if about.get(name):
            say(f"{name}\n  {_plain(about[name])}")
    say("calibration" if calibration is not None else "calibration\n  not calibrated")
    if calibration is not None:
        show(calibration)
    for warning in idle:
        say(f"warning\n  {warning}")


def _draw(calibration: Calibration | None, model: str, path: Path, overwrite: bool) -> None:
    """A picture of a calibration."""
    from sitta._util.files import atomic_write, require_free
    from sitta.calibration.plot import plot
    from sitta.errors import InvalidSetting

    if calibration is None:
        raise InvalidSetting(
            f"{model} is not calibrated.", fix=f"sitta calibrate {model} --images FOLDER"
        )
    require_free(path, overwrite, [model])
    with atomic_write(path) as draft:
        plot(calibration).savefig(draft, dpi=110, format=path.suffix.lstrip(".") or "png")


def _inside(loaded: Loaded) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """What a model is made of, for people and for programs, and what may be wrong with it."""
    from sitta.inference.backends.onnx import Graph

    if isinstance(loaded.model, Graph):
        return str(loaded.model), {"graph": loaded.model.describe()}, ()
    import sitta
    from sitta.inference.probe import idle_warning

    inspection = sitta.inspect(loaded.model)
    applies = {name: not problem for name, problem in inspection.problems.items()}
    idle = idle_warning(loaded.model, loaded.preprocess)
    told = {"census": asdict(inspection.census), "methods": applies}
    said = {"warnings": list(inspection.warnings), "hints": list(inspection.hints)}
    return str(inspection), {**told, **said}, idle


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return "\n  ".join(f"{k}: {v}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return " x ".join(map(str, value))
    return "as it is" if value is None else str(value)
