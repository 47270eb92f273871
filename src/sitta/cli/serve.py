"""``sitta serve``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from sitta.cli import app, command
from sitta.cli import options as o
from sitta.cli.options import MACHINE, OUTPUT, Threads, option

LIMITS = "Limits"
MB = 2**20


@command(app, "sitta serve chest-mcu")
def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="Names, profiles, checkpoints, .onnx or package:factory; by default the zoo.",
        ),
    ] = None,
    *,
    host: o.Host = o.LOOPBACK,
    port: o.Port = 8642,
    token: o.Token = None,
    insecure: o.Insecure = False,
    allow_host: o.AllowHost = None,
    session: Annotated[
        Path | None, option(OUTPUT, "Folder in which images, masks and decisions are kept.")
    ] = None,
    workers: Annotated[int, option(MACHINE, "Worker processes.", min=1, max=64)] = 1,
    threads: Threads = None,
    max_upload: Annotated[int, option(LIMITS, "Largest upload, in MB.", min=1)] = 256,
    max_pixels: Annotated[
        int, option(LIMITS, "Most pixels of an image, all slices together.", min=1)
    ] = 2**25,
    max_slices: Annotated[int, option(LIMITS, "Most slices of a volume.", min=1)] = 512,
    max_files: Annotated[int, option(LIMITS, "Most files of a DICOM series.", min=1)] = 512,
    time_limit: Annotated[float, option(LIMITS, "Seconds per image.", min=0.1)] = 120.0,
    queue: Annotated[int, option(LIMITS, "Most waiting requests.", min=0)] = 16,
    memory: Annotated[
        int, option(LIMITS, "MB that a worker may add to its models.", min=64)
    ] = 4096,
    keep: Annotated[int, option(LIMITS, "MB of results to keep.", min=1)] = 2048,
    keep_minutes: Annotated[float, option(LIMITS, "Minutes to keep a result.", min=0.01)] = 60.0,
    weights: o.Weights = None,
    reading: o.Reading,
    preprocessing: o.Preprocessing,
) -> None:
    """Serve a page to drop images on and a REST interface, on this machine."""
    from sitta.errors import MissingExtra

    try:
        for package in ("fastapi", "prometheus_client", "python_multipart", "uvicorn"):
            import_module(package)
    except ImportError as error:
        raise MissingExtra("The service", "serve") from error
    from sitta.serve.guard import Guard
    from sitta.serve.quotas import Limits
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
    given = o.replacing(weights, preprocessing, reading)
    run(models or [], guard, port, limits, workers, threads, typer.echo, session, given)
