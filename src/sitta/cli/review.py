"""``sitta review``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from sitta.cli import app, command
from sitta.cli import options as o


@command(app, "sitta review predictions")
def review(
    out: Annotated[Path, typer.Argument(help="Folder of a finished sitta predict.")],
    host: o.Host = o.LOOPBACK,
    port: o.Port = 8643,
    token: o.Token = None,
    insecure: o.Insecure = False,
    allow_host: o.AllowHost = None,
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
