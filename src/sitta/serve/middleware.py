"""Around every request: the guard, headers, counts, a line of log, and an end to every error."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sitta.serve.errors import ApiError, fault
from sitta.serve.guard import HEADERS, Guard
from sitta.serve.metrics import Metrics
from sitta.serve.worker import place

DRAIN_SECONDS = 10.0  # to read what is left of a refused request
TIMED_OUT = 408
STALL_SECONDS = 20.0  # without a byte of a request


class Middleware:
    """The outermost layer; no name of a file, no query and no id gets into the log.

    ``drain`` bytes of a refused request are read and thrown away, so that its client, which may
    still be sending, gets to see the answer.
    """

    def __init__(
        self, app: ASGIApp, guard: Guard, metrics: Metrics, log: Callable[[str], None], drain: int
    ) -> None:
        self._app, self._guard, self._metrics = app, guard, metrics
        self._log, self._drain = log, drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, _Exchange(receive, send, self._drain))

    async def _answer(self, scope: Scope, exchange: _Exchange) -> None:
        start = time.perf_counter()
        try:
            app = self._guard_response(scope) or self._app
            await app(scope, exchange.receive, exchange.send)
        except Exception as error:
            self._log(f"fault: {type(error).__name__} at {place(error)}")
            if not exchange.status:
                await fault(error).response()(scope, exchange.receive, exchange.send)
        finally:
            route = getattr(scope.get("route"), "path", "other")  # its pattern, without any id
            status, seconds = exchange.status or 499, time.perf_counter() - start
            self._metrics.request(scope["method"], route, status)
            self._log(f"{scope['method'][:8]} {route} {status} {seconds:.3f} s")

    def _guard_response(self, scope: Scope) -> Response | None:
        """What the guard answers in place of the application."""
        headers = Headers(scope=scope)
        try:
            login = "token" in parse_qs(scope["query_string"].decode("latin-1"))
            client = (scope.get("client") or ("",))[0]
            self._guard.check(scope["method"], scope["path"], headers, client, login)
        except ApiError as error:
            shown = error.status == 401 and _is_visit(scope, headers)
            return RedirectResponse("/login", 303) if shown else error.response()
        return None


class _Exchange:
    """The messages of one request and its answer."""

    def __init__(self, receive: Receive, send: Send, drain: int) -> None:
        self._receive, self._send, self._drain = receive, send, drain
        self._more, self.status = True, 0

    async def receive(self) -> Message:
        if not self._more:
            return await self._receive()  # the end of the connection, however late
        try:
            async with asyncio.timeout(STALL_SECONDS):
                message = await self._receive()
        except TimeoutError:
            what = f"The request stood still for {STALL_SECONDS:g} s."
            raise ApiError(TIMED_OUT, "slow-upload", what) from None
        if message["type"] != "http.request" or not message.get("more_body"):
            self._more = False
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if self.status != TIMED_OUT:  # who sends nothing has nothing to drain
                await self._drained()
        await self._send(message)

    async def _drained(self) -> None:
        """Read what the client is still sending, within bounds."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while self._more and self._drain > 0:
                    self._drain -= len((await self.receive()).get("body", b""))
        except TimeoutError:
            return


def _is_visit(scope: Scope, headers: Headers) -> bool:
    """Whether a person opens the page, who is better served by a form than by JSON."""
    page = scope["path"] == "/" and scope["method"] in ("GET", "HEAD")
    return page and "text/html" in headers.get("accept", "").lower()
