"""The HTTP server: what it is told, what it logs of its own faults, and how it ends."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any, Protocol

import uvicorn
from starlette.types import ASGIApp

from sitta.serve.connections import Connection

DRAIN_SECONDS = 8.0  # for requests under way when it is told to end: Docker kills after 10
PARTING_SECONDS = 1  # to send the last answers
BACKLOG = 128  # connections accepted at once; without descriptors, asyncio tries each in vain
LOG_SECONDS = 1.0  # between two lines about the same fault


class Draining(Protocol):
    """What does the work, and is told to end."""

    def drain(self) -> None:
        """Take nothing more."""

    def close(self) -> None:
        """End at once."""


class Server(uvicorn.Server):
    """Serves until it is told to end; then finishes what is under way, and refuses the rest."""

    def __init__(
        self, app: ASGIApp, pool: Draining, log: Callable[[str], None], **more: Any
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                access_log=False,  # it would hold tokens and ids
                server_header=False,
                date_header=False,
                backlog=BACKLOG,
                timeout_graceful_shutdown=PARTING_SECONDS,
                **{"log_level": "warning", **more},
            )
        )
        self._pool, self._log = pool, log
        self._logged: dict[str, float] = {}

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        asyncio.get_running_loop().set_exception_handler(self._fault)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish jobs while new ones get 503; then whoever still waits gets 503, too."""
        self._pool.drain()
        end = time.monotonic() + DRAIN_SECONDS
        while self.server_state.tasks and not self.force_exit and time.monotonic() < end:
            await asyncio.sleep(0.05)
        self._pool.close()
        await super().shutdown(sockets)

    def _fault(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """One line for a fault of the loop, such as no descriptor for a connection."""
        error, now = context.get("exception"), time.monotonic()
        line = f"{context['message']}: {type(error).__name__}"
        if now - self._logged.get(line, -LOG_SECONDS) >= LOG_SECONDS:
            self._logged[line] = now
            self._log(line)
