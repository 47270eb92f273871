"""``sitta zoo``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sitta.cli import app, command
from sitta.cli.options import AsJson
from sitta.cli.show import console, print_json, print_table, say

if TYPE_CHECKING:
    from sitta.models.zoo import Entry


@command(app, "sitta zoo chest-mcu")
def zoo(
    name: Annotated[str | None, typer.Argument(help="Show the card of this model.")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every file with its checksum.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the trained models: what they segment, their training domain and their Dice."""
    from sitta._util.names import unknown_name
    from sitta.models.zoo import entries

    chosen = [entry for entry in entries() if name in (None, entry.name)]
    if not chosen:
        raise unknown_name("model", name, [entry.name for entry in entries()])
    if verify:
        _verify(chosen, as_json)
    elif name is not None:
        _show(chosen[0], as_json)
    elif as_json:
        print_json([_plain(entry) for entry in chosen])
    else:
        _list(chosen)


def _list(entries: list[Entry]) -> None:
    rows = [
        (
            entry.name,
            "cannot be read: --verify tells why" if entry.problem else entry.source,
            "" if entry.images is None else f"{entry.images:,}",
            "" if entry.dice is None else f"{entry.dice:.3f}",
            f"{entry.size / 1e6:.1f} MB",
        )
        for entry in entries
    ]
    columns = ["model", "trained on", "images", "validation Dice", "size"]
    print_table(columns, rows, right=columns[2:], wrap=("trained on",))
    say("Card of one: sitta zoo NAME. Are the files whole: sitta zoo --verify")


def _show(entry: Entry, as_json: bool) -> None:
    """A card: as JSON, laid out on a terminal, or as the text that it is."""
    from sitta.models.zoo import card

    about = {} if entry.problem else card(entry.path)
    text = entry.page.read_text("utf-8") if entry.page.is_file() else ""
    if as_json:
        print_json({**_plain(entry), "card": about, "text": text})
        return
    if not text:  # the model has no page: what its file says
        lines = [f"- {key}: {json.dumps(value)}" for key, value in about.items()]
        text = "\n".join([f"# {entry.name}", "", entry.problem or "\n".join(lines)])
    if console().is_terminal:
        from rich.markdown import Markdown

        from sitta._util.text import printable

        console().print(Markdown(printable(text, keep="\n\t")))
    else:
        say(text.rstrip("\n"))


def _verify(entries: list[Entry], as_json: bool) -> None:
    """One line per model, and exit code 1 if one of them is not what it should be."""
    from sitta.errors import SittaError
    from sitta.models.zoo import verify

    problems = dict.fromkeys((entry.name for entry in entries), "")
    for entry in entries:
        try:
            verify(entry)
        except (SittaError, OSError) as error:
            problems[entry.name] = str(error)
    if as_json:
        print_json([{"name": n, "whole": not why, "problem": why} for n, why in problems.items()])
    else:
        for name, why in problems.items():
            say(f"{name}: {why or 'whole'}")
    if any(problems.values()):
        raise typer.Exit(1)


def _plain(entry: Entry) -> dict[str, Any]:
    return {**asdict(entry), "path": str(entry.path)}
