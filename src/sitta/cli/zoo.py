"""``sitta zoo``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sitta.cli import app

if TYPE_CHECKING:
    from rich.table import Table

    from sitta.models.zoo import Entry

ELSEWHERE = """\
There is no zoo here: the package itself holds no trained model but this one.
The others are in the folder zoo of a clone of the repository: install Sitta
from there (pip install -e .), or let SITTA_ZOO name that folder."""
AFTER = "Card of one: sitta zoo NAME. Are the files whole: sitta zoo --verify"


@app.command()
def zoo(
    name: Annotated[str | None, typer.Argument(help="Show the card of this model.")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every file with its checksum.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the trained models: what they find, what they know, and how well."""
    from sitta.errors import InvalidSetting
    from sitta.models.zoo import entries

    known = entries()
    found = [entry for entry in known if name in (None, entry.name)]
    if not found:
        names = ", ".join(entry.name for entry in known)
        raise InvalidSetting("There is no such model.", allowed=names, got=repr(name))
    if verify:
        _verify(found, as_json)
    elif name is not None:
        _show(found[0], as_json)
    elif as_json:
        typer.echo(json.dumps([_plain(entry) for entry in found], indent=2))
    else:
        _list(found)


def _list(found: list[Entry]) -> None:
    from rich.console import Console

    from sitta.models.zoo import folders

    Console().print(_overview(found))
    typer.echo(AFTER if folders() else ELSEWHERE)


def _overview(found: list[Entry]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("model", style="bold", no_wrap=True)
    table.add_column("trained on")  # task and domain
    for title in ("images", "validation Dice", "size"):
        table.add_column(title, justify="right", no_wrap=True)
    for e in found:
        source = "cannot be read: --verify tells why" if e.problem else e.source
        images = "" if e.images is None else f"{e.images:,}"
        dice = "" if e.dice is None else f"{e.dice:.3f}"
        table.add_row(e.name, source, images, dice, f"{e.size / 1e6:.1f} MB")
    return table


def _show(entry: Entry, as_json: bool) -> None:
    """A card: as JSON, laid out on a terminal, or as the text that it is."""
    from rich.console import Console
    from rich.markdown import Markdown

    from sitta.models.zoo import card

    about = {} if entry.problem else card(entry.path)
    text = entry.page.read_text("utf-8") if entry.page.is_file() else ""
    if as_json:
        typer.echo(json.dumps({**_plain(entry), "card": about, "text": text}, indent=2))
        return
    text = text or _short(entry, about)
    console = Console()
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        typer.echo(text.rstrip("\n"))


def _short(entry: Entry, about: dict[str, Any]) -> str:
    """A card for a model that has no page: what its file says."""
    said = [f"- {key}: {json.dumps(value)}" for key, value in about.items()]
    return "\n".join([f"# {entry.name}", "", entry.problem or "\n".join(said)])


def _verify(found: list[Entry], as_json: bool) -> None:
    """One line a model, and exit code 1 if one of them is not what it should be."""
    from sitta.errors import SittaError
    from sitta.models.zoo import verify

    problems = {}
    for entry in found:
        try:
            verify(entry)
        except (SittaError, OSError) as error:
            problems[entry.name] = str(error)
    if as_json:
        told = [
            {"name": e.name, "whole": e.name not in problems, "problem": problems.get(e.name, "")}
            for e in found
        ]
        typer.echo(json.dumps(told, indent=2))
    else:
        for e in found:
            whole = "ships with Sitta, and can be read" if e.shipped else "whole"
            typer.echo(f"{e.name}: {problems.get(e.name, whole)}")
    if problems:
        raise typer.Exit(1)


def _plain(entry: Entry) -> dict[str, Any]:
    return {**asdict(entry), "path": str(entry.path)}
