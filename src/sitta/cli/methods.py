"""``sitta methods``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sitta.cli import app, command
from sitta.cli.options import AsJson
from sitta.cli.show import print_json, print_table, say


@command(app, "sitta methods intent")
def methods(
    name: Annotated[str | None, typer.Argument(help="Show the settings of this method.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods: what they do, what they need of the model, what they cost."""
    import sitta
    from sitta._util.names import unknown_name

    described = {key: kind.describe() for key, kind in sitta.methods().items()}
    if name is not None and name not in described:
        raise unknown_name("method", name, described)
    chosen = list(described.values()) if name is None else [described[name]]
    if as_json:
        print_json(chosen)
    elif name is None:
        _overview(chosen)
    else:
        _settings(chosen[0])


def _overview(described: list[dict[str, Any]]) -> None:
    from sitta.adaptation.base import NEEDS

    rows = [
        (
            m["name"],
            m["description"],
            NEEDS[m["needs"]],
            f"{m['cost']['forward']} + {m['cost']['backward']}",
            m["citation"],
        )
        for m in described
    ]
    columns = ["method", "what it does", "needs", "passes", "after"]
    caption = "passes: forward + backward passes through the network for one image, by default"
    print_table(columns, rows, right=("passes",), wrap=("what it does", "after"), caption=caption)
    say("Settings of one: sitta methods NAME. Everything: sitta methods --json")


def _settings(m: dict[str, Any]) -> None:
    rows = [
        (s["name"], s["type"], "" if s["default"] is None else s["default"], s["range"], s["help"])
        for s in m["settings"]
    ]
    columns = ["setting", "type", "default", "range", "meaning"]
    print_table(columns, rows, wrap=columns[1:], title=f"{m['name']}: {m['description']}")
