"""The application: routes, page, guard and errors put together."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp

from sitta._version import __version__
from sitta.report.html import SHARED
from sitta.serve.api import USE, router
from sitta.serve.errors import ApiError, fault
from sitta.serve.guard import Guard
from sitta.serve.middleware import Middleware
from sitta.serve.service import Service

PAGE = Path(__file__).parent / "page"
TIDY_SECONDS = 1.0
LOGIN = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Sitta</title>
<meta name="viewport" content="width=device-width"></head><body><main><h1>Sitta</h1><p>{said}</p>
<form method="post" action="/login"><label>Token <input type="password" name="token"
autocomplete="current-password" autofocus required></label> <button>Enter</button></form>
<p>{use}</p></main></body></html>"""
TOKEN_BYTES = 4096
SEEN = ["GET", "HEAD"]  # monitors ask by HEAD
HTTP_ERRORS = {
    404: ("not-found", "There is nothing at this path."),
    405: ("wrong-verb", "This path takes other verbs."),
}


def create_app(service: Service, guard: Guard) -> ASGIApp:
    """The ASGI application of a service, which is closed when the application ends."""
    app = FastAPI(
        title="Sitta",
        version=__version__,
        description=f"Adapts a trained segmentation model to each image by itself. {USE}",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.service, app.state.guard = service, guard
    app.include_router(router)
    _add_page(app)
    add_login(app)
    add_errors(app)
    return Middleware(app, guard, service.metrics, service.log, 2 * service.limits.upload_bytes)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service

    async def tidy() -> None:
        while True:
            await asyncio.sleep(TIDY_SECONDS)
            service.store.tidy()
            service.pool.watch()

    task = asyncio.create_task(tidy())
    try:
        yield
    finally:
        task.cancel()
        service.close()


def _add_page(app: FastAPI) -> None:
    """The files of the page, each by its own route's name: no path of a client is opened."""
    files = {p.relative_to(PAGE).as_posix(): p for p in sorted(PAGE.rglob("*")) if p.is_file()}
    files |= {f"{p.suffix[1:]}/{p.name}": p for p in sorted(SHARED.iterdir()) if p.is_file()}
    mimetypes.add_type("text/javascript", ".js")  # whatever this machine says

    def file(name: str) -> Response:
        if name not in files:
            raise ApiError(404, "not-found", "There is no such page.", allowed="/, /api")
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return FileResponse(files[name], media_type=kind, headers={"Cache-Control": "no-cache"})

    @app.api_route("/", methods=SEEN, include_in_schema=False)
    async def index(request: Request, token: str | None = None) -> Response:
        if token is not None:
            return logged_in(request, token)
        return file("index.html")

    @app.get("/page/{name:path}", include_in_schema=False)
    async def page(name: str) -> Response:
        return file(name)


def add_login(app: FastAPI) -> None:
    """The form that asks people for the token."""

    @app.api_route("/login", methods=SEEN, include_in_schema=False)
    async def form() -> Response:
        return _login("This service asks for its token.")

    @app.post("/login", include_in_schema=False)
    async def login(request: Request) -> Response:
        length = request.headers.get("content-length", "")
        if not length.isdigit() or int(length) > TOKEN_BYTES:
            raise ApiError(413, "too-large", "That is no token.")
        given = (await request.form(max_files=0, max_fields=2)).get("token", "")
        return logged_in(request, str(given))


def logged_in(request: Request, token: str) -> Response:
    """The page for who shows the token; else the form again."""
    guard: Guard = request.app.state.guard
    client = request.client.host if request.client else ""
    if guard.token is not None and not guard.is_token(token, client):
        return _login("That is not the token.", 401)
    response = RedirectResponse("/", 303)
    if guard.token is not None:
        response.headers["Set-Cookie"] = guard.cookie(secure=request.url.scheme == "https")
    return response


def _login(said: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(LOGIN.format(said=escape(said), use=escape(USE)), status)


def add_errors(app: FastAPI) -> None:
    """Every error in the same form."""

    @app.exception_handler(ApiError)
    async def own(_: Request, error: ApiError) -> Response:
        return error.response()

    @app.exception_handler(Exception)  # Starlette's own answer is text; the middleware logs it
    async def unforeseen(_: Request, error: Exception) -> Response:
        return fault(error).response()

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = " ".join(str(part) for part in first["loc"])
        return ApiError(422, "bad-value", f"{where}: {first['msg']}."[:300]).response()

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> Response:
        code, message = HTTP_ERRORS.get(
            error.status_code, ("bad-request", "The request cannot be answered.")
        )
        headers = dict(error.headers or {})
        return ApiError(error.status_code, code, message, headers=headers).response()
