"""Connections: bounded in number, and closed when their client keeps the service waiting.

Uvicorn has neither a limit for half-sent headers nor one for a single client.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
import psutil
from uvicorn.protocols.http.h11_impl import H11Protocol

from sitta.serve.errors import ApiError, unavailable
from sitta.serve.guard import HEADERS

HEADER_SECONDS = 10.0  # from the first byte of a request to the end of its header
READ_SECONDS = 60.0  # for a client to take 64 kB of an answer
MOST_CONNECTIONS = 512  # connections in all; one client has at most half of them


def most_connections() -> int:
    """In all: each may need a descriptor for its upload too, and a third is for everything else."""
    process = psutil.Process()
    if not hasattr(process, "rlimit"):
        return MOST_CONNECTIONS
    descriptors = process.rlimit(psutil.RLIMIT_NOFILE)[0]
    return MOST_CONNECTIONS if descriptors < 0 else max(4, min(MOST_CONNECTIONS, descriptors // 3))


class Connection(H11Protocol):
    """One connection; a new one takes the place of the oldest that has no request under way."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._waiting_header: asyncio.TimerHandle | None = None
        self._waiting_reader: asyncio.TimerHandle | None = None
        self._since = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for it, or refuse it."""
        super().connection_made(transport)
        self._watch_header()
        most = most_connections()
        everyone = [c for c in self.connections if isinstance(c, Connection)]
        same = [c for c in everyone if c._host == self._host]
        for group, limit in ((same, most // 2), (everyone, most)):
            if len(group) > limit and not self._takes_place_of([c for c in group if c is not self]):
                self._refuse(unavailable("busy", "All connections are taken."))
                return

    def data_received(self, data: bytes) -> None:
        """Watch for the end of a header, also for that of a later request."""
        super().data_received(data)
        self._watch_header()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._stop(self._waiting_header, self._waiting_reader)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read its answer: not for ever."""
        super().pause_writing()
        self._waiting_reader = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads on."""
        self._stop(self._waiting_reader)
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is refused in the form of every error."""
        self._refuse(ApiError(400, "bad-request", "The request cannot be understood as HTTP."))

    @property
    def _host(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _takes_place_of(self, others: list[Connection]) -> bool:
        idle = [
            c for c in others if c._is_between_requests and not c.transport.get_write_buffer_size()
        ]
        if not idle:
            return False
        oldest = min(idle, key=lambda c: c._since)
        self.connections.discard(oldest)
        oldest.transport.abort()
        return True

    def _watch_header(self) -> None:
        if not self._is_between_requests:
            self._stop(self._waiting_header)
            self._waiting_header = None
        elif self._waiting_header is None:
            self._waiting_header = self.loop.call_later(HEADER_SECONDS, self._header_is_late)

    def _header_is_late(self) -> None:
        if self._is_between_requests and not self.transport.is_closing():
            self._refuse(ApiError(408, "slow-header", "The request was not sent in time."))

    def _refuse(self, error: ApiError) -> None:
        """Answer without the application, and close."""
        answer = error.response()
        more = {**HEADERS, "Connection": "close"}
        head = [*answer.raw_headers, *((k.encode(), v.encode()) for k, v in more.items())]
        try:
            for event in (
                h11.Response(status_code=answer.status_code, headers=head),
                h11.Data(data=bytes(answer.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # an answer has begun already
            self.transport.abort()
        self.transport.close()

    @staticmethod
    def _stop(*timers: asyncio.TimerHandle | None) -> None:
        for timer in timers:
            if timer is not None:
                timer.cancel()
