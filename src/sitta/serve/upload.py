"""What a client sends: counted while it is read, under names of the service's own making."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from sitta.data.sniff import suffix
from sitta.serve.limits import Limits
from sitta.serve.refusal import Refusal

FIELDS = ("model", "method", "settings")
FIELD_BYTES = 2**16
BESIDE = 2**18  # bytes of a request besides its files: boundaries, headers of parts, fields
NAME_LENGTH = 100
SERIES = "series"


@dataclass(frozen=True)
class Parcel:
    """An upload that lies in its folder.

    Attributes:
        files: Where, under names that no client chose.
        name: What to call it in answers: the client's own name without any path.
        fields: The other fields that were sent.
        settings: Of the method.
    """

    files: list[Path]
    name: str
    fields: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


async def receive(request: Request, folder: Path, limits: Limits) -> Parcel:
    """Read a multipart request into a folder.

    Raises:
        Refusal: Too much, too slow, not multipart, or not the fields that are known.
    """
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise Refusal(
            415,
            "not-multipart",
            "The request is not multipart/form-data.",
            allowed="curl -F file=@",
        )
    _check_length(request, limits)
    counted = Request(request.scope, _counted(request, limits))
    try:
        async with asyncio.timeout(limits.seconds):
            form = await counted.form(
                max_files=limits.files, max_fields=8, max_part_size=FIELD_BYTES
            )
            try:
                return await _unpacked(form, folder)
            finally:
                await form.close()
    except TimeoutError:
        raise Refusal(
            408, "slow-upload", f"The upload took longer than {limits.seconds:g} s."
        ) from None
    except HTTPException as error:
        _refuse_form(str(error.detail), limits)


def _refuse_form(said: str, limits: Limits) -> NoReturn:
    """In our own words; Starlette's tell which of its limits was met."""
    if "Too many files" in said:
        raise Refusal(
            413,
            "too-many-files",
            "The request has too many files.",
            allowed=f"at most {limits.files}",
        )
    if "Too many fields" in said or "maximum size" in said:
        raise Refusal(413, "too-large", "The request has too many fields, or too long ones.")
    raise Refusal(400, "bad-multipart", "The multipart request is damaged or cut short.")


def _check_length(request: Request, limits: Limits) -> None:
    length = request.headers.get("content-length", "0")
    if length.isdigit() and len(length) < 20 and int(length) > limits.upload_bytes + BESIDE:
        raise _too_many_bytes(limits)


def _too_many_bytes(limits: Limits) -> Refusal:
    return Refusal(
        413,
        "too-large",
        "The upload is too large.",
        allowed=f"at most {limits.upload_bytes:,} bytes",
        fix="send a smaller image; who runs the service can raise the limit",
    )


def _counted(request: Request, limits: Limits) -> Any:
    """Receives no more than is allowed, whatever the header announced."""
    total = 0

    async def found() -> Message:
        nonlocal total
        message = await request.receive()
        total += len(message.get("body", b""))
        if total > limits.upload_bytes + BESIDE:
            raise _too_many_bytes(limits)
        return message

    return found


async def _unpacked(form: FormData, folder: Path) -> Parcel:
    uploads, fields = _sorted_fields(form)
    if not uploads:
        raise Refusal(
            422, "no-file", "The request has no field 'file' with an image.", allowed="file=@image"
        )
    files = []
    for number, upload in enumerate(uploads):
        ending = suffix(Path("x" + tail(upload.filename or "")))  # one of a fixed list, or none
        path = folder / f"{number:05d}{ending}"
        await asyncio.to_thread(_copy, upload.file, path)
        files.append(path)
    name = tail(uploads[0].filename or "") if len(uploads) == 1 else SERIES
    return Parcel(files, name or "image", fields, _settings(fields.get("settings", "")))


def _sorted_fields(form: FormData) -> tuple[list[UploadFile], dict[str, str]]:
    uploads: list[UploadFile] = []
    fields: dict[str, str] = {}
    for key, value in form.multi_items():
        if key == "file" and isinstance(value, UploadFile):
            uploads.append(value)
        elif key in FIELDS and isinstance(value, str) and key not in fields:
            fields[key] = value.strip()
        else:
            raise Refusal(
                422,
                "bad-field",
                "The request has a field that is not known, given twice, or of the wrong kind.",
                allowed="file (a file, once; several times for the slices of a DICOM series), "
                "model, method, settings (text, once)",
            )
    return uploads, fields


def tail(name: str) -> str:
    """A client's file name as it may be shown: no path, nothing that is not printable.

    Example:
        >>> tail("../../etc/passwd"), tail("scans/a" + chr(0) + ".png")
        ('passwd', 'a.png')
    """
    last = re.split(r"[/\\]", name)[-1]
    return "".join(c for c in last if c.isprintable())[-NAME_LENGTH:].strip()


def _copy(source: BinaryIO, path: Path) -> None:
    with open(path, "xb") as target:
        while part := source.read(1 << 20):
            target.write(part)


def _settings(text: str) -> dict[str, Any]:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(constant)

    try:
        found = json.loads(text or "{}", parse_constant=refuse)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Refusal(
            422, "bad-setting", "The settings are no JSON object.", allowed='{"strategy": "vote"}'
        )
    return found
