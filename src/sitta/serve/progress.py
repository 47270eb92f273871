"""A job as its client follows it: the upload, events while it runs, and the answer at the end."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from starlette.requests import ClientDisconnect, Request

from sitta.serve.draft import Event
from sitta.serve.errors import ApiError
from sitta.serve.service import Service
from sitta.serve.upload import Upload, receive

ANSWER, ERROR = "answer", "error"  # the last event is one of these


async def events(
    request: Request, service: Service, *, follow: bool
) -> AsyncGenerator[Event, None]:
    """Receive an upload and do its job; the last event holds the answer.

    Without ``follow`` it is the only one. Raises ``ClientDisconnect`` if the client goes first.
    """
    start, outcome = time.perf_counter(), "failed"
    try:
        service.pool.require_place()  # so that nothing is sent in vain
        with service.store.workspace() as folder:
            upload = await receive(request, folder, service.limits)
            start = time.perf_counter()
            with service.pool.place():  # not before: a slow upload keeps nobody out
                async for event in _attended(request, service, upload, follow):
                    outcome = "done" if event["event"] == ANSWER else "abandoned"
                    yield event
    except ClientDisconnect:
        outcome = "abandoned"
        raise
    except ApiError as error:
        outcome = error.code
        raise
    finally:
        service.metrics.job(outcome, time.perf_counter() - start)


async def _attended(
    request: Request, service: Service, upload: Upload, follow: bool
) -> AsyncIterator[Event]:
    """Work for as long as the client waits for it."""
    told: asyncio.Queue[Event | None] = asyncio.Queue()
    tell = told.put_nowait if follow else None
    job = asyncio.create_task(service.predict(upload, tell))
    gone = asyncio.create_task(_disconnected(request))
    for task in (job, gone):
        task.add_done_callback(lambda _: told.put_nowait(None))
    try:
        while (event := await told.get()) is not None:
            yield event
        if not job.done():
            raise ClientDisconnect
        yield {"event": ANSWER, "answer": job.result()}
    finally:
        for task in (job, gone):
            task.cancel()
        await asyncio.gather(job, gone, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def lines(first: Event, rest: AsyncGenerator[Event, None]) -> AsyncIterator[bytes]:
    """Events as lines of JSON; an error after the first is an event as well."""
    yield _line(first)
    try:
        async for event in rest:
            yield _line(event)
    except ApiError as error:
        yield _line(
            {"event": ERROR, "status": error.status, **json.loads(bytes(error.response().body))}
        )
    finally:
        await rest.aclose()


def _line(event: dict[str, Any]) -> bytes:
    return json.dumps(event, allow_nan=False, separators=(",", ":")).encode() + b"\n"
