"""Start the service and keep it up until it is told to end."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from sitta.errors import InvalidSetting, SittaError
from sitta.serve.guard import Guard
from sitta.serve.quotas import Limits
from sitta.serve.worker import WorkerConfig

ENDS = "For research. Not a medical device. Ctrl-C ends it."


def run(
    models: Sequence[str],
    guard: Guard,
    port: int,
    limits: Limits,
    workers: int,
    threads: int | None,
    say: Callable[[str], None],
    session: Path | None = None,
    given: Mapping[str, Any] | None = None,
) -> None:
    """Serve until Ctrl-C or SIGTERM, and ``say`` where the page is.

    Without models, all of the zoo are served; without threads, the workers share all cores; port 0
    is any that is free. With a session, results stay in that folder. What is ``given`` replaces
    entries of the profile of the one model: arguments of ``load_model``.
    """
    from sitta.models.zoo import entries
    from sitta.serve.app import create_app
    from sitta.serve.server import Server
    from sitta.serve.service import Service

    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, lambda *_: sys.exit(0))  # everything is put away on the way out
    chosen = list(models) or [entry.name for entry in entries() if not entry.problem]
    if given and len(chosen) != 1:
        raise InvalidSetting(
            "Options that describe a model go with one model.",
            got=", ".join(chosen),
            fix="write a profile for each: sitta profile new",
        )
    share = threads or max(1, (os.cpu_count() or 1) // workers)
    worker = WorkerConfig(chosen, limits, share, given or {})
    with (
        closing(_bound(guard.host, port)) as listener,
        closing(Service(worker, workers, _log, session)) as service,
    ):
        listener.listen()  # who follows the link at once waits, and is not turned away
        say(_greeting(guard, listener.getsockname()[1], service.description["models"]))
        server = Server(create_app(service, guard), service.pool, _log)
        with suppress(KeyboardInterrupt):  # which uvicorn passes on when it is done
            server.run(sockets=[listener])


def run_review(folder: Path, guard: Guard, port: int, say: Callable[[str], None]) -> None:
    """Serve the report of a finished run until Ctrl-C or SIGTERM; decisions go beside it."""
    from sitta.prediction.decisions import FILE
    from sitta.serve.reviewing import NOTHING, Run, create_review
    from sitta.serve.server import Server

    run = Run(folder)
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, lambda *_: sys.exit(0))
    with closing(_bound(guard.host, port)) as listener:
        listener.listen()
        page = _address(guard, listener.getsockname()[1])
        say(f"Review of {len(run.outputs)} files\n  page  {page}\n  writes  {folder / FILE}")
        say("\n".join([*_access(guard), ENDS]))
        server = Server(create_review(run, guard, _log), NOTHING, _log)
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


def _bound(host: str, port: int) -> socket.socket:
    """A socket of our own: a port that is taken ends in a sentence, before any model is loaded."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, proto)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise SittaError(
            f"The service cannot be bound to {host} port {port} ({error.strerror or error}).",
            fix="another --port, or --port 0 for any that is free",
        ) from error
    return listener


def _greeting(guard: Guard, port: int, models: Sequence[dict[str, str]]) -> str:
    names = ", ".join(model["name"] for model in models)
    lines = [f"Sitta serves {names}", f"  page  {_address(guard, port)}", *_access(guard), ENDS]
    return "\n".join(lines)


def _address(guard: Guard, port: int) -> str:
    host = f"[{guard.host}]" if ":" in guard.host else guard.host
    return f"http://{host}:{port}/"


def _access(guard: Guard) -> list[str]:
    if guard.token is not None:
        return ["  asks for the token: people enter it there, programs send it in a header"]
    if guard.insecure:
        return ["  anyone who can reach this address can use it (--insecure)"]
    return []


def _log(line: str) -> None:
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    print(f"{now} {line}", file=sys.stderr, flush=True)  # noqa: T201  (the log of the service)
