"""``sitta review``: the report of a finished run, with decisions that are written beside it.

The folder may come from anyone: no name and no link in it leads to another file.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from html import unescape
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from prometheus_client import Metric
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp

from sitta._util.text import printable
from sitta._util.untrusted import read_text
from sitta._version import __version__
from sitta.errors import InvalidSetting, SittaError
from sitta.inference.outputs import FOLDERS
from sitta.prediction.decisions import FILE, Decision, now, read, to_csv, write
from sitta.serve.api import USE
from sitta.serve.app import SEEN, add_errors, add_login, logged_in
from sitta.serve.body import posted
from sitta.serve.errors import ApiError
from sitta.serve.guard import Guard
from sitta.serve.metrics import Metrics
from sitta.serve.middleware import Middleware
from sitta.serve.review import plain
from sitta.serve.schemas import SaidOfFile

POLICY = re.compile(r'(<meta http-equiv="Content-Security-Policy" content=")([^"]*)(">)')
HASH = re.compile(r"'sha256-[A-Za-z0-9+/]{43}='")  # of the report's own style and script
ALLOWED = (
    "default-src 'none'; style-src {own}; script-src {own}; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
MOST_BYTES = 2**22  # of a refused request that are read


class Run:
    """The folder of a finished run, and what is decided on its files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._lock = folder, threading.Lock()
        records = [_record(path) for path in sorted((folder / ".sitta").glob("*.json"))]
        self.outputs = {record["name"]: list(record["outputs"]) for record in records}
        self._digests = {r["outputs"][0]: r.get("mask_sha256") for r in records}
        if not self.outputs or not (folder / "report.html").is_file():
            raise InvalidSetting(
                f"{folder} is no folder of a finished run.",
                allowed="a folder with report.html, as sitta predict --out writes it",
                fix="sitta predict MODEL IMAGES --out FOLDER makes one",
            )
        self._names = {printable(name): name for name in self.outputs}
        self.decisions()  # a file that cannot be read is said now, and never replaced
        self.page()

    def page(self) -> tuple[str, str]:
        """The report and its policy: it may ask this service and nobody else, whatever it says."""
        text = (self.folder / "report.html").read_text(encoding="utf-8", errors="replace")
        policy_tag = POLICY.search(text)
        own = HASH.findall(unescape(policy_tag[2])) if policy_tag else []
        if not own:
            raise InvalidSetting(
                f"{self.folder / 'report.html'} is no report of Sitta.",
                fix="run sitta predict again",
            )
        return POLICY.sub("", text, count=1), ALLOWED.format(own=" ".join(own))

    def file(self, name: str) -> Path | None:
        """A mask or map of the run, if it is there.

        A link out of the folder counts where it leads to the very mask that was written, as in an
        archive that keeps its files elsewhere.
        """
        path = self.folder / name
        if not any(name in outputs for outputs in self.outputs.values()) or not path.is_file():
            return None
        inside = path.resolve().is_relative_to(self.folder.resolve())
        return path if inside or self._digests.get(name) == _digest(path) else None

    def decisions(self) -> list[Decision]:
        """What was decided so far."""
        try:
            return read(self.folder / FILE)
        except InvalidSetting as error:
            raise InvalidSetting(
                f"{self.folder / FILE} cannot be read: {error.what}",
                fix="mend it, or move it away",
            ) from error

    def rows(self) -> list[dict[str, Any]]:
        """The same in plain types, with the names that the report has."""
        rows = plain(self.decisions())
        return [{**row, "file": self._names.get(row["file"], row["file"])} for row in rows]

    def decide(self, said: SaidOfFile) -> None:
        """Keep what is said of a file; all else that the file of decisions holds stays."""
        outputs = self.outputs.get(said.file)
        if outputs is None:
            raise ApiError(404, "no-file", "This run has no such file.")
        mask = self.file(outputs[0])
        if mask is None:
            raise ApiError(404, "no-mask", "The mask of this file is no longer there.")
        try:
            one = Decision(**said.model_dump(), time=now(), mask_sha256=_digest(mask))
        except SittaError as error:
            raise ApiError.of(422, "bad-decision", error) from error
        with self._lock:
            others = [d for d in self.decisions() if (d.file, d.slice) != (one.file, None)]
            new = [] if one.is_open and not one.remark else [one]
            write(self.folder / FILE, sorted([*others, *new], key=_place))


def _record(path: Path) -> dict[str, Any]:
    """What a run kept of a file."""
    record: Any = None
    with suppress(OSError, ValueError, RecursionError, InvalidSetting):
        record = json.loads(read_text(path))
    kept: dict[str, Any] = record if isinstance(record, dict) else {}
    outputs = kept.get("outputs")
    named = isinstance(kept.get("name"), str) and isinstance(outputs, list) and bool(outputs)
    if not named or not all(map(_is_output, outputs or [])):
        raise InvalidSetting(
            f"{path} is damaged: it is no record of a run.",
            fix="run sitta predict again, with --overwrite",
        )
    return kept


def _is_output(name: Any) -> bool:
    """Whether it names a file below a folder of masks or maps."""
    return isinstance(name, str) and name.startswith(FOLDERS) and ".." not in Path(name).parts


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _place(one: Decision) -> tuple[str, int]:
    return one.file, -1 if one.slice is None else one.slice


class _Nothing:
    """Nothing works here but the server itself."""

    def drain(self) -> None:
        pass

    def close(self) -> None:
        pass

    def collect(self) -> Iterator[Metric]:
        yield from ()


NOTHING = _Nothing()


async def _of_folder(act: Callable[..., Any], *given: Any) -> Any:
    """What an act on the folder gives; 409 if another program has changed its files meanwhile."""
    try:
        return await asyncio.to_thread(act, *given)
    except InvalidSetting as error:
        raise ApiError.of(409, "changed-folder", error) from error


def create_review(run: Run, guard: Guard, log: Callable[[str], None]) -> ASGIApp:
    """The ASGI application that serves one run for review."""
    app = FastAPI(
        title="Sitta", version=__version__, description=USE, docs_url=None, redoc_url=None
    )
    app.state.guard = guard

    @app.api_route("/", methods=SEEN, include_in_schema=False)
    async def index(request: Request, token: str | None = None) -> Response:
        if token is not None:
            return logged_in(request, token)
        text, policy = await _of_folder(run.page)
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})

    @app.get("/decisions")
    async def decisions() -> Response:
        return JSONResponse({"decisions": await _of_folder(run.rows)})

    @app.put("/decisions", status_code=204)
    async def decide(request: Request) -> Response:
        said = await posted(request, SaidOfFile)
        await _of_folder(run.decide, said)
        return Response(status_code=204)

    @app.get(f"/{FILE}")
    async def table() -> Response:
        rows = await _of_folder(run.decisions)
        headers = {"Content-Disposition": f'attachment; filename="{FILE}"'}
        return Response(to_csv(rows), media_type="text/csv", headers=headers)

    @app.get("/{name:path}")
    async def mask(name: str) -> Response:
        path = await asyncio.to_thread(run.file, name)  # of names of the run: no client's is opened
        if path is None:
            raise ApiError(404, "not-found", "There is nothing at this path.")
        return FileResponse(path, filename=path.name)

    add_login(app)
    add_errors(app)
    return Middleware(app, guard, Metrics(NOTHING), log, MOST_BYTES)
