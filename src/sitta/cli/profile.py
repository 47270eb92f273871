"""``sitta profile``: one file that says everything about a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sitta.cli import app, command, group
from sitta.cli import options as o
from sitta.cli.show import print_json, say

profiles = group(
    "Describe a model of your own once, for every command.",
    "sitta profile new net.py:build --weights net.safetensors",
)
app.add_typer(profiles, name="profile")
File = Annotated[str, typer.Argument(help="A profile, such as model.toml.")]


@command(profiles, "sitta profile new net.py:build --weights net.safetensors -o net.toml")
def new(
    factory: Annotated[str, typer.Argument(help="file.py:function or package.module:function.")],
    *,
    weights: o.Weights = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path(
        "model.toml"
    ),
    argument: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Argument of the factory, such as width=32; repeatable."
        ),
    ] = None,
    output: o.Output = None,
    activation: o.Activation = None,
    classes: Annotated[
        o.Text, o.option(o.READ, "Names with commas, without the background.")
    ] = None,
    preprocessing: o.Preprocessing,
    overwrite: o.Overwrite = False,
) -> None:
    """Write a commented draft; Sitta runs the network on noise to fill it in."""
    from sitta._util.files import atomic_write, require_free
    from sitta.errors import InvalidSetting
    from sitta.inference.draft import draft, look, require_readable
    from sitta.inference.loading import find_profile, load_profile

    require_free(out, overwrite, [factory.rpartition(":")[0], *([weights] if weights else [])])
    if ":" not in factory:
        raise InvalidSetting(
            "This is no factory.",
            allowed="file.py:function or package.module:function",
            got=factory,
        )
    chosen = o.key_or_index(output)
    arguments = o.factory_arguments(argument or [])
    profile = replace(find_profile(factory, weights), arguments=arguments)
    loaded = load_profile(factory, profile)
    seen = look(loaded.model, preprocessing.channels, chosen)  # type: ignore[arg-type]  # a factory has no graph
    said: dict[str, Any] = {
        **preprocessing.changes,
        "output": chosen,
        "activation": activation,
        "arguments": arguments,
    }
    said["classes"] = None if classes is None else o.comma_separated(classes)
    home = out.absolute().parent
    text = draft(seen, _beside(factory, home), weights=_relative(weights, home), said=said)
    require_readable(text, home, seen)  # what was given may not go together
    with atomic_write(out) as written:
        written.write_text(text, encoding="utf-8")
    say(f"{out}: look at the lines marked CHECK, then: sitta profile check {out} IMAGE")


def _relative(path: Path | None, home: Path) -> Path | None:
    """A path as seen from the folder of the profile."""
    import os

    return None if path is None else Path(os.path.relpath(path.absolute(), home))


def _beside(factory: str, home: Path) -> str:
    where, _, call = factory.rpartition(":")
    if not where.endswith(".py"):
        return factory
    return f"{_relative(Path(where), home)}:{call}"


@command(profiles, "sitta profile check model.toml scan.png")
def check(
    file: File,
    image: Annotated[
        Path | None, typer.Argument(help="An image that it was trained on, or one like it.")
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Load the model, predict one image, and report what is wrong or what was found."""
    from sitta.inference import checkup

    findings = checkup.check(file, image)
    if as_json:
        print_json({"profile": file, **findings.as_dict()})
        return
    for name, fact in findings.facts.items():
        say(f"{name:<10}{fact}")
    for warning in findings.warnings:
        say(f"warning   {warning}")
    many = len(findings.warnings)
    say(f"{file} fits its model" + (f"; {many} warnings" if many > 1 else "; 1 warning" * many))


@command(profiles, "sitta profile show chest-mcu")
def show(model: o.Model, as_json: o.AsJson = False) -> None:
    """Print the complete profile of any model."""
    from sitta._util.plain import plain
    from sitta.inference.loading import load_model
    from sitta.models.profile.writing import text

    profile = load_model(model).profile
    tables = profile.as_dict()
    if profile.calibration is not None:
        about = plain(dict(profile.calibration))
        tables["calibration"] = about if as_json else f"with {', '.join(map(str, about))}"
    if as_json:
        print_json(tables)
    else:
        say(text(tables).rstrip())
