"""The command line. Heavy imports stay inside the commands, so that help answers at once."""

from __future__ import annotations

import importlib
import sys
from typing import Annotated

import typer

from sitta._version import __version__
from sitta.errors import MissingExtra, SittaError

VERBS = (
    "bench",
    "bench_show",
    "data",
    "demo",
    "export",
    "inspect",
    "methods",
    "predict",
    "serve",
    "train",
    "zoo",
)

app = typer.Typer(
    name="sitta",
    help="Adapt a trained segmentation model to the one image in front of it. For research; not a "
    "medical device.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sitta {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of the whole program."""


def main() -> None:
    """Run the command line; a user's mistake ends in one sentence and exit code 2."""
    for verb in VERBS:  # each registers itself
        importlib.import_module(f"sitta.cli.{verb}")
    try:
        app()
    except (SittaError, OSError) as error:
        typer.echo(f"sitta: {_sentence(error)}", err=True)
        sys.exit(3 if isinstance(error, MissingExtra) else 2)


def _sentence(error: Exception) -> str:
    """What went wrong, without the number that the system gives it."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)
