"""``sitta review``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from sitta.cli import app, command
from sitta.cli.options import option

ACCESS = "Who may use it"


@command(app, "sitta review predictions")
def review(
    out: Annotated[Path, typer.Argument(help="Folder of a finished sitta predict.")],
    host: Annotated[
        str, option(ACCESS, "Address; others than loopback need --token.")
    ] = "127.0.0.1",
    port: Annotated[int, option(ACCESS, "0: any.", min=0, max=65535)] = 8643,
    token: Annotated[
        str | None, option(ACCESS, "Clients must send it.", envvar="SITTA_TOKEN")
    ] = None,
    insecure: Annotated[
        bool, option(ACCESS, "Serve the network without a token.", "--insecure")
    ] = False,
    allow_host: Annotated[
        list[str] | None, option(ACCESS, "A proxy's name in front of loopback.")
    ] = None,
) -> None:
    """Decide on the masks of a finished run; writes decisions.csv into its folder."""
    from sitta.errors import MissingExtra

    try:
        for package in ("fastapi", "prometheus_client", "uvicorn"):
            import_module(package)
    except ImportError as error:
        raise MissingExtra("The review", "serve") from error
    from sitta.serve.guard import Guard
    from sitta.serve.run import run_review

    guard = Guard(host, token or None, insecure, frozenset(n.lower() for n in allow_host or []))
    run_review(out, guard, port, typer.echo)
