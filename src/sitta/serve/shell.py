"""Around every request: the guard, headers, counts, a line of log, and an end to every error."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sitta.serve.guard import HEADERS, Guard
from sitta.serve.metrics import Metrics
from sitta.serve.refusal import Refusal
from sitta.serve.worker import place

DRAIN_SECONDS = 10.0
FAULT = Refusal(500, "failed", "The service failed at this request, by a fault of its own.")


class Shell:
    """The outermost layer.

    Args:
        app: All that is inside.
        guard: Who may ask.
        metrics: Counts.
        log: Takes a line. No name of a file, no query and no id gets there.
        drain: Bytes of a refused request that are read and thrown away, so that its client,
            which may still be sending, gets to see the answer.
    """

    def __init__(
        self, app: ASGIApp, guard: Guard, metrics: Metrics, log: Callable[[str], None], drain: int
    ) -> None:
        self._app, self._guard, self._metrics = app, guard, metrics
        self._log, self._drain = log, drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        await _Exchange(self, scope, receive, send).run()

    async def inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What is asked for, or a refusal."""
        headers = Headers(scope=scope)
        try:
            login = "token" in parse_qs(scope["query_string"].decode("latin-1"))
            self._guard.check(scope["method"], scope["path"], headers, login)
        except Refusal as error:
            shown = error.status == 401 and _is_visit(scope, headers)
            response: Response = RedirectResponse("/login", 303) if shown else answered(error)
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def told(self, scope: Scope, status: int, seconds: float) -> None:
        """Count and log a request, by the pattern of its path."""
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.request(scope["method"], route, status)
        self._log(f"{scope['method'][:8]} {route} {status} {seconds:.3f} s")

    def failed(self, error: Exception) -> None:
        """Log a fault of our own, by its place in the code."""
        self._log(f"fault: {type(error).__name__} at {place(error)}")

    @property
    def most_drained(self) -> int:
        """Bytes."""
        return self._drain


class _Exchange:
    """One request and its answer."""

    def __init__(self, shell: Shell, scope: Scope, receive: Receive, send: Send) -> None:
        self.shell, self.scope = shell, scope
        self._receive, self._send = receive, send
        self._more, self._status = True, 0

    async def run(self) -> None:
        start = time.perf_counter()
        try:
            await self.shell.inside(self.scope, self.receive, self.send)
        except Exception as error:
            self.shell.failed(error)
            if not self._status:
                await answered(FAULT)(self.scope, self.receive, self.send)
        finally:
            self.shell.told(self.scope, self._status or 499, time.perf_counter() - start)

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            self._more = False
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if self._more:
                await self._drained()
        await self._send(message)

    async def _drained(self) -> None:
        """Read what the client is still sending, within bounds."""
        left = self.shell.most_drained
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while self._more and left > 0:
                    left -= len((await self.receive()).get("body", b""))
        except TimeoutError:
            return


def _is_visit(scope: Scope, headers: Headers) -> bool:
    """Whether a person opens the page, who is better served by a form than by JSON."""
    page = scope["path"] == "/" and scope["method"] in ("GET", "HEAD")
    return page and "text/html" in headers.get("accept", "").lower()


def answered(error: Refusal) -> JSONResponse:
    """A refusal as a response."""
    return JSONResponse(error.body(), error.status, error.headers)
