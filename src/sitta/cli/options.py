"""Options that several commands share, each declared once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from sitta.errors import InvalidSetting

PRE = "Preprocessing (by default that of the model or task)"
METHOD, OUTPUT, MACHINE = "Method", "Output", "Machine"
ACCESS = "Who may use it"
Text = str | None
Whole = int | None
Real = float | None


def _models(prefix: str) -> list[str]:
    """Names of the zoo, for the shell's completion."""
    from sitta.models.zoo import entries

    return [entry.name for entry in entries() if entry.name.startswith(prefix)]


def option(panel: str, text: str, *names: str, **more: Any) -> Any:
    """An option with its help, in a panel of the command's help."""
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


Model = Annotated[
    str,
    typer.Argument(
        help="A zoo model, profile (.toml), checkpoint, .onnx, nnunet:FOLDER, or package:factory.",
        autocompletion=_models,
    ),
]
Weights = Annotated[Path | None, option(PRE, "Weights of a factory: .safetensors or .pt.")]
AsJson = Annotated[bool, option(OUTPUT, "Print JSON.", "--json")]
Overwrite = Annotated[bool, option(OUTPUT, "Replace existing results.", "--overwrite")]
THREADS = "Threads of each process; "
Threads = Annotated[Whole, option(MACHINE, THREADS + "by default all cores.", min=1)]
FewThreads = Annotated[
    int, option(MACHINE, THREADS + "more than one may change the last digits.", min=1)
]
Device = Annotated[str, option(MACHINE, "auto, cpu, cuda or mps.")]
Ray = Annotated[Text, option(MACHINE, "Address of a Ray cluster, auto, or local.")]
Strategy = Annotated[Text, option(METHOD, "For intent: how members are weighted.")]
Step = Annotated[Real, option(METHOD, "For intent: step of the lambda grid.")]
Settings = Annotated[
    list[str] | None, option(METHOD, "Any setting of the method.", "--set", metavar="NAME=VALUE")
]
READ = "Output of the network (by default as in the profile)"
Output = Annotated[Text, option(READ, "Key or index, if the network returns several outputs.")]
Activation = Annotated[
    Text, option(READ, "logits, sigmoid, softmax, probabilities or probabilities-sigmoid.")
]
SCALES = (
    "min-max, z-score, percentile, divide, standardise, window, none; with settings in quotes: "
    "'window bounds=-160,240'."
)
Host = Annotated[str, option(ACCESS, "Address to listen on; any but loopback needs --token.")]
Port = Annotated[int, option(ACCESS, "Port; 0 takes a free one.", min=0, max=65535)]
Token = Annotated[Text, option(ACCESS, "Secret that clients must send.", envvar="SITTA_TOKEN")]
Insecure = Annotated[bool, option(ACCESS, "Allow other machines without a token.", "--insecure")]
AllowHost = Annotated[list[str] | None, option(ACCESS, "Host name of a reverse proxy in front.")]
LOOPBACK = "127.0.0.1"


def given(**options: Any) -> dict[str, Any]:
    """The options that were given at all."""
    return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True)
class Preprocessing:
    """What goes before a model's preprocessing."""

    size: Annotated[Text, option(PRE, "Size of the input, such as 128x128.")] = None
    fit: Annotated[Text, option(PRE, "How images get that size: resize, crop or none.")] = None
    spacing: Annotated[Text, option(PRE, "Resample to this pixel size in mm: 0.5x0.5.")] = None
    channels: Annotated[Whole, option(PRE, "1 (grey) or 3 (colour).")] = None
    scale: Annotated[Text, option(PRE, SCALES)] = None
    plane: Annotated[Text, option(PRE, "Slices of a volume: axial, coronal or sagittal.")] = None
    dims: Annotated[Whole, option(PRE, "2 (images and slices) or 3 (volumes).")] = None

    @property
    def changes(self) -> dict[str, Any]:
        """The settings of ``Preprocess`` that were given."""
        sides = {"size": numbers(self.size, int), "spacing": numbers(self.spacing, float)}
        changes = given(**sides, fit=self.fit, channels=self.channels)
        changes |= given(plane=self.plane, dims=self.dims)
        changes |= {} if self.scale is None else scaling(self.scale)
        return {"size": None, **changes} if self.fit == "none" else changes


@dataclass(frozen=True)
class Reading:
    """What goes before how the output of a network is read."""

    output: Output = None
    activation: Activation = None
    threshold: Annotated[
        Text,
        option(READ, "Probability above which a pixel counts: 0.4, or 0.4,0.6 for two classes."),
    ] = None

    @property
    def changes(self) -> dict[str, Any]:
        """How the output is read, as far as that was given."""
        try:
            cuts = tuple(map(float, comma_separated(self.threshold or "")))
        except ValueError:
            raise InvalidSetting(
                "A threshold is a number.",
                allowed="0.4, or 0.4,0.6 for two classes",
                got=str(self.threshold),
            ) from None
        told = given(output=key_or_index(self.output), activation=self.activation)
        return {**told, "thresholds": cuts} if cuts else told


def replacing(
    weights: Path | None, preprocessing: Preprocessing, reading: Reading
) -> dict[str, Any]:
    """What goes before a profile, as keywords of ``load_model``; empty if nothing does."""
    told = {"changes": preprocessing.changes, "reading": reading.changes}
    return given(weights=weights) | {name: value for name, value in told.items() if value}


def key_or_index(output: Text) -> str | int | None:
    """An index if it is a number."""
    whole = output is not None and output.lstrip("-").isdecimal()
    return int(output) if output is not None and whole else output


def scaling(text: str) -> dict[str, Any]:
    """``window bounds=-160,240`` as the settings of ``Preprocess``."""
    from sitta._util.settings import parse
    from sitta.data.preprocess import Preprocess

    kind, *words = text.split() or [text]
    return parse("Preprocess", {"scale": kind, **_pairs(words)}, Preprocess)


def factory_arguments(words: list[str]) -> dict[str, Any]:
    """NAME=VALUE for a factory: values as TOML has them (32, true, [1, 2]), else text."""
    import tomllib

    values: dict[str, Any] = {}
    for name, text in _pairs(words).items():
        try:
            values[name] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            values[name] = text
    return values


def numbers(text: str | None, kind: Callable[[str], Any]) -> tuple[Any, ...] | None:
    """128x128 as (128, 128)."""
    if text is None:
        return None
    try:
        return tuple(kind(part) for part in text.lower().split("x"))
    except ValueError:
        raise InvalidSetting(
            "Sides are numbers with an x between.", allowed="128x128, 0.5x0.5", got=text
        ) from None


def comma_separated(text: str) -> tuple[str, ...]:
    """Words with commas between as a tuple."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def method_settings(method: str, words: list[str], **options: Any) -> dict[str, Any]:
    """NAME=VALUE and options of their own, checked, with the types that the method declares."""
    from sitta._util.names import unknown_name
    from sitta._util.settings import parse
    from sitta.adaptation import methods

    if method not in methods():
        raise unknown_name("method", method, methods())
    return parse(method, _pairs(words) | given(**options), methods()[method])


def graph_settings(given: list[str]) -> dict[str, Any]:
    """NAME=VALUE for an ``.onnx`` file, which knows its settings: the registry needs torch."""
    from sitta._util.settings import Constraint

    return {
        name: Constraint("", low=0, many="," in value, optional=True).parse(value)
        for name, value in _pairs(given).items()
    }


def _pairs(given: list[str]) -> dict[str, str]:
    for word in given:
        if "=" not in word:
            raise InvalidSetting("A setting is NAME=VALUE.", got=word)
    pairs = (word.split("=", 1) for word in given)
    return {name.strip(): value for name, value in pairs}
