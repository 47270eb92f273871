"""The command line. Heavy imports stay inside the commands, so that help answers at once."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from sitta._util.threads import wait_passively
from sitta._version import __version__
from sitta.core.accel import allocator
from sitta.errors import MissingExtra, SittaError, is_out_of_memory, package_of

VERBS = [module.name for module in pkgutil.iter_modules(__path__)]  # each registers its commands
Function = TypeVar("Function", bound=Callable[..., Any])


class _PlainFlags:
    """Shows ``--json`` where typer would show ``--json <bool>``."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class _Command(_PlainFlags, TyperCommand):
    pass


class _Group(_PlainFlags, TyperGroup):
    pass


def group(help: str, example: str, **more: Any) -> typer.Typer:
    """A group of commands, whose help ends with an example."""
    return typer.Typer(
        help=help, epilog=f"Example: {example}", cls=_Group, no_args_is_help=True, **more
    )


def command(within: typer.Typer, example: str) -> Callable[[Function], Function]:
    """Register a function as a command, whose help ends with an example.

    A parameter that is a dataclass, such as ``options.Reading``, stands for an option per field.
    """

    def register(function: Function) -> Function:
        within.command(cls=_Command, epilog=f"Example: {example}")(_flat(function))
        return function

    return register


def _flat(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the fields of its dataclasses as parameters, as typer wants them."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    if not groups:
        return function
    parameters: list[Parameter] = []
    for name, parameter in signature(function).parameters.items():
        if name in groups:
            types = get_type_hints(groups[name], include_extras=True)
            parameters += [
                parameter.replace(name=f.name, default=f.default, annotation=types[f.name])
                for f in fields(groups[name])
            ]
        else:
            only = Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(kind=only, annotation=hints[name]))

    @wraps(function)
    def run(**given: Any) -> Any:
        for name, kind in groups.items():
            given[name] = kind(**{f.name: given.pop(f.name) for f in fields(kind)})
        return function(**given)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


app = group(
    "Adapt a trained segmentation model to the one image in front of it. For research; not a "
    "medical device.",
    "sitta predict chest-mcu scans/ --out predictions",
    name="sitta",
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
    """Run the command line: a user's mistake ends in one sentence.

    Exit codes: 0 fine, 1 some inputs failed, 2 wrong use, a full disk or too little memory, 3 a
    package is missing, 130 Ctrl-C.
    """
    wait_passively()
    allocator.keep_between_passes()
    try:
        for verb in VERBS:
            importlib.import_module(f"sitta.cli.{verb}")
        app(prog_name="sitta")
    except (SittaError, OSError) as error:
        _end(error)
    except ModuleNotFoundError as error:
        _end(MissingExtra(" ".join(["sitta", *sys.argv[1:2]]), package=package_of(error)))
    except KeyboardInterrupt:  # before a command has begun
        sys.exit(130)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        fix = "close other programs, or raise the limit (ulimit -v, the container's memory)"
        _end(SittaError("There is not enough memory to run this command.", fix=fix))


def _end(error: Exception) -> None:
    from sitta.cli.show import say

    said = str(error)
    if isinstance(error, OSError) and error.strerror:  # without the system's number for it
        said = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    say(f"sitta: {said}", err=True)
    sys.exit(3 if isinstance(error, MissingExtra) else 2)
