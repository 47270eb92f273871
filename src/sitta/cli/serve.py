"""``sitta serve``."""

from __future__ import annotations

from typing import Annotated

import typer

from sitta.cli import app

SAFETY, LIMITS = "Who may use it", "Limits"
MB = 2**20


@app.command()
def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="Names, checkpoints, .onnx, package.module:factory. All of the zoo if none.",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(help="Address; others than loopback need --token.", rich_help_panel=SAFETY),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="0: any.", rich_help_panel=SAFETY)
    ] = 8642,
    token: Annotated[
        str | None,
        typer.Option(envvar="SITTA_TOKEN", help="That clients must show.", rich_help_panel=SAFETY),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Serve the network without.", rich_help_panel=SAFETY),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A proxy's name in front of loopback.", rich_help_panel=SAFETY),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes.")] = 1,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of each; all cores together if not given.")
    ] = None,
    max_upload: Annotated[int, typer.Option(min=1, help="MB.", rich_help_panel=LIMITS)] = 256,
    max_pixels: Annotated[
        int, typer.Option(min=1, help="Of all slices together.", rich_help_panel=LIMITS)
    ] = 2**25,
    max_slices: Annotated[int, typer.Option(min=1, rich_help_panel=LIMITS)] = 512,
    max_files: Annotated[
        int, typer.Option(min=1, help="Of a DICOM series.", rich_help_panel=LIMITS)
    ] = 512,
    time_limit: Annotated[
        float, typer.Option(min=0.1, help="Seconds for an image.", rich_help_panel=LIMITS)
    ] = 120.0,
    queue: Annotated[
        int, typer.Option(min=0, help="Requests that wait.", rich_help_panel=LIMITS)
    ] = 16,
    memory: Annotated[
        int, typer.Option(min=64, help="MB a worker may add.", rich_help_panel=LIMITS)
    ] = 4096,
    keep: Annotated[int, typer.Option(min=1, help="MB of results.", rich_help_panel=LIMITS)] = 2048,
    keep_minutes: Annotated[
        float, typer.Option(min=0.01, help="Age of a result.", rich_help_panel=LIMITS)
    ] = 60.0,
) -> None:
    """A page to drop images on, and a REST service, on this machine."""
    from sitta.errors import MissingExtra

    try:
        import fastapi  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtra("The service", "serve") from error
    from sitta.serve.guard import Guard
    from sitta.serve.limits import Limits
    from sitta.serve.run import run

    limits = Limits(
        upload_bytes=max_upload * MB,
        pixels=max_pixels,
        slices=max_slices,
        files=max_files,
        seconds=time_limit,
        queue=queue,
        keep_bytes=keep * MB,
        keep_seconds=60 * keep_minutes,
        memory_bytes=memory * MB,
    )
    guard = Guard(host, token or None, insecure, frozenset(n.lower() for n in allow_host or []))
    run(models or [], guard, port, limits, workers, threads, typer.echo)
