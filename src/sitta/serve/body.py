"""Bodies of requests besides uploads: read no further than what they may hold."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from sitta.serve.errors import ApiError

MOST_JSON = 2**20  # bytes: 10,000 ids have less

Model = TypeVar("Model", bound=BaseModel)


async def bounded(request: Request, most: int) -> bytes:
    """The body; 413 as soon as it has more than ``most`` bytes."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise ApiError(413, "too-large", "The request is too long.", f"at most {most:,} bytes")
        parts.append(part)
    return b"".join(parts)


async def posted(request: Request, model: type[Model]) -> Model:
    """The JSON of a body; 422 if it is not as it should be."""
    content = await bounded(request, MOST_JSON)
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = " ".join(str(part) for part in first["loc"])
        message = f"{where}: {first['msg']}.".lstrip(": ")[:300]
        raise ApiError(422, "bad-value", message) from None
