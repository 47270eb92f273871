"""``sitta methods``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sitta.cli import app

if TYPE_CHECKING:
    from rich.table import Table

NEEDS = {
    "nothing": "any model",
    "batch-norm": "BatchNorm",
    "any-norm": "any norm layer",
}


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="Show the settings of this method.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All of it as JSON.")] = False,
) -> None:
    """List the methods: what they do, what they need and what they cost."""
    from rich.console import Console

    import sitta

    known = {key: kind.describe() for key, kind in sitta.methods().items()}
    if name is not None and name not in known:
        raise sitta.InvalidSetting(
            "There is no such method.", allowed=", ".join(known), got=repr(name)
        )
    chosen = list(known.values()) if name is None else [known[name]]
    if as_json:
        typer.echo(json.dumps(chosen, indent=2))
    elif name is None:
        Console().print(_overview(chosen))
        typer.echo("Settings of one: sitta methods NAME. Everything: sitta methods --json")
    else:
        Console().print(_settings(chosen[0]))


def _overview(found: list[dict[str, Any]]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        caption="passes: forward + backward passes through the network for one image, by default",
        caption_justify="left",
    )
    table.add_column("method", style="bold", no_wrap=True)
    table.add_column("what it does")
    table.add_column("needs", no_wrap=True)
    table.add_column("passes", justify="right", no_wrap=True)
    table.add_column("after")
    for m in found:
        cost = f"{m['cost']['forward']} + {m['cost']['backward']}"
        table.add_row(m["name"], m["description"], NEEDS[m["needs"]], cost, m["citation"])
    return table


def _settings(m: dict[str, Any]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=f"{m['name']}: {m['description']}")
    table.add_column("setting", style="bold", no_wrap=True)
    for column in ("type", "default", "range", "meaning"):
        table.add_column(column)
    for s in m["settings"]:
        default = "" if s["default"] is None else f"{s['default']}"
        table.add_row(s["name"], s["type"], default, s["range"], s["help"])
    return table
