"""Start the service and keep it up until it is told to end."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NoReturn

from sitta.errors import SittaError
from sitta.serve.guard import Guard
from sitta.serve.limits import Limits
from sitta.serve.worker import Orders

PARTING_SECONDS = 3  # for answers that are under way when the service ends


def run(
    models: Sequence[str],
    guard: Guard,
    port: int,
    limits: Limits,
    workers: int,
    threads: int | None,
    say: Callable[[str], None],
) -> None:
    """Serve until Ctrl-C or SIGTERM.

    Args:
        models: As on the command line; all that go by a name if there are none.
        guard: Where to, and who may ask.
        port: 0 for any that is free.
        limits: Of clients.
        workers: Processes.
        threads: Of each; shares of all cores if None.
        say: Tells the user where the page is.

    Raises:
        SittaError: The port is taken, or a model cannot be loaded.
    """
    import uvicorn

    from sitta.serve.app import create_app
    from sitta.serve.service import Service

    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, _leave)
    listener = _bound(guard.host, port)
    chosen = list(models) or _all_models()
    each = threads or max(1, (os.cpu_count() or 1) // workers)
    try:
        service = Service(Orders(chosen, limits, each), workers, _log)
    except BaseException:
        listener.close()
        raise
    try:
        listener.listen()  # who follows the link at once waits, and is not turned away
        say(_greeting(guard, listener.getsockname()[1], service.known["models"]))
        config = uvicorn.Config(
            create_app(service, guard),
            access_log=False,  # it would hold tokens and ids
            log_level="warning",
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=PARTING_SECONDS,
            ws="none",
        )
        with suppress(KeyboardInterrupt):  # which uvicorn passes on when it is done
            uvicorn.Server(config).run(sockets=[listener])
    finally:
        service.close()


def _leave(*_: object) -> NoReturn:
    """Told to end: everything is put away on the way out."""
    sys.exit(0)


def _all_models() -> list[str]:
    from sitta.models.zoo import entries

    return [entry.name for entry in entries() if not entry.problem]


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
    host = f"[{guard.host}]" if ":" in guard.host else guard.host
    names = ", ".join(model["name"] for model in models)
    lines = [f"Sitta serves {names}", f"  page  http://{host}:{port}/"]
    if guard.token is not None:
        lines.append("  asks for the token: people enter it there, programs send it in a header")
    elif guard.insecure:
        lines.append("  anyone who can reach this address can use it (--insecure)")
    return "\n".join([*lines, "For research. Not a medical device. Ctrl-C ends it."])


def _log(line: str) -> None:
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    print(f"{now} {line}", file=sys.stderr, flush=True)  # noqa: T201  (the log of the service)
