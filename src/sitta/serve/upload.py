"""What a client sends: counted while it is read, under names of the service's own making."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Receive

from sitta._util.untrusted import SETTINGS, read_json
from sitta.data.detect import suffix
from sitta.errors import InvalidSetting
from sitta.serve.errors import ApiError
from sitta.serve.quotas import Limits

FIELDS = ("model", "method", "settings", "path", "invert", "rotate", "group", "again")
FIELD_BYTES = 2**16
BESIDE = 2**18  # bytes of a request besides its files: boundaries, headers of parts, fields
NAME_LENGTH = 100
MOST_PATH = 300
SERIES = "series"


@dataclass(frozen=True)
class Upload:
    """An upload that lies in its folder."""

    files: list[Path]  # under names that no client chose
    name: str  # what to call it in answers: the client's own name without any path
    path: str  # what to call it among others: the client's own path, as far as it may be shown
    fields: Mapping[str, str]  # the other fields that were sent
    settings: Mapping[str, Any]


async def receive(request: Request, folder: str, limits: Limits) -> Upload:
    """Read a multipart request into a folder."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        message = "The request is not multipart/form-data."
        raise ApiError(415, "not-multipart", message, allowed="curl -F file=@")
    length = request.headers.get("content-length", "0")
    if length.isdigit() and len(length) < 20:
        _check_size(int(length), limits)
    counted = Request(request.scope, _counted(request, limits))
    try:
        async with (
            asyncio.timeout(limits.seconds),
            counted.form(max_files=limits.files, max_fields=8, max_part_size=FIELD_BYTES) as form,
        ):
            return await _unpacked(form, Path(folder))
    except TimeoutError:
        message = f"The upload took longer than {limits.seconds:g} s."
        raise ApiError(408, "slow-upload", message) from None
    except HTTPException as error:
        raise _form_error(str(error.detail), limits) from None


def _form_error(said: str, limits: Limits) -> ApiError:
    """In our own words; Starlette's say which of its limits was exceeded."""
    if "Too many files" in said:
        message, allowed = "The request has too many files.", f"at most {limits.files}"
        return ApiError(413, "too-many-files", message, allowed)
    if "Too many fields" in said or "maximum size" in said:
        return ApiError(413, "too-large", "The request has too many fields, or too long ones.")
    return ApiError(400, "bad-multipart", "The multipart request is damaged or cut short.")


def _check_size(size: int, limits: Limits) -> None:
    if size > limits.upload_bytes + BESIDE:
        raise ApiError(
            413,
            "too-large",
            "The upload is too large.",
            allowed=f"at most {limits.upload_bytes:,} bytes",
            fix="send a smaller image; who runs the service can raise the limit",
        )


def _counted(request: Request, limits: Limits) -> Receive:
    """Receives no more than is allowed, whatever the header announced."""
    total = 0

    async def receive() -> Message:
        nonlocal total
        message = await request.receive()
        total += len(message.get("body", b""))
        _check_size(total, limits)
        return message

    return receive


async def _unpacked(form: FormData, folder: Path) -> Upload:
    uploads, fields = _sorted_fields(form)
    if not uploads and fields.get("again"):  # the image of an earlier result
        return Upload([], "", "", fields, _settings(fields.get("settings", "")))
    if not uploads:
        message = "The request has no field 'file' with an image."
        raise ApiError(422, "no-file", message, allowed="file=@image")
    files = []
    for number, upload in enumerate(uploads):
        ending = suffix(Path("x" + _tail(upload.filename or "")))  # one of a fixed list, or none
        path = folder / f"{number:05d}{ending}"
        await asyncio.to_thread(_save, upload.file, path)
        files.append(path)
    name = _tail(uploads[0].filename or "") if len(uploads) == 1 else SERIES
    name = name or "image"
    shown = shown_path(fields.get("path", "")) or name
    return Upload(files, name, shown, fields, _settings(fields.get("settings", "")))


def _sorted_fields(form: FormData) -> tuple[list[UploadFile], dict[str, str]]:
    uploads: list[UploadFile] = []
    fields: dict[str, str] = {}
    for key, value in form.multi_items():
        if key == "file" and isinstance(value, UploadFile):
            uploads.append(value)
        elif key in FIELDS and isinstance(value, str) and key not in fields:
            fields[key] = value.strip()
        else:
            raise ApiError(
                422,
                "bad-field",
                "The request has a field that is not known, given twice, or of the wrong kind.",
                allowed="file (a file, once; several times for the slices of a DICOM series), "
                "model, method, settings, path, invert, rotate, group, again (text, once)",
            )
    return uploads, fields


def _tail(name: str) -> str:
    """A client's file name as it may be shown: no path, nothing that is not printable."""
    last = re.split(r"[/\\]", name)[-1]
    return "".join(c for c in last if c.isprintable())[-NAME_LENGTH:].strip()


def shown_path(path: str) -> str:
    """A client's path as it may be shown, and begin the name of a file below a folder.

    Of one that is too long, the last folders are kept whole: half of a name may be ``..``.
    """
    parts = (re.sub(r'[<>:"|?*]', "_", _tail(part)) for part in re.split(r"[/\\]", path))
    kept, room = list[str](), MOST_PATH
    for part in reversed([part for part in parts if part.strip(". ")]):
        room -= len(part) + 1
        if room < 0:
            break
        kept.insert(0, part)
    return "/".join(kept)


def _save(source: BinaryIO, path: Path) -> None:
    with open(path, "xb") as target:
        shutil.copyfileobj(source, target, 1 << 20)


def _settings(text: str) -> dict[str, Any]:
    try:
        settings = read_json(text or "{}", "The settings", longest=SETTINGS, nan=False)
    except InvalidSetting as error:
        raise ApiError.of(422, "bad-setting", error) from error
    if not isinstance(settings, dict):
        message = "The settings are no JSON object."
        raise ApiError(422, "bad-setting", message, allowed='{"strategy": "vote"}')
    return settings
