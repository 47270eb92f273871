"""What the OpenAPI document says beyond the types: errors, files, and the form of an upload."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from sitta.data.formats import FORMATS
from sitta.serve.negotiation import LINES, MASKS
from sitta.serve.schemas import Error, PredictionAnswer, Problem, example

WHY = {
    400: "The request is damaged.",
    401: "The service asks for its token.",
    403: "Called by a name that is not the service's own, or by another site's page.",
    404: "There is no such model, method, result or part of it.",
    405: "The path takes other verbs.",
    406: "The answer cannot be given in the form that Accept asks for.",
    408: "The upload took too long.",
    413: "Too many bytes, files, pixels or slices, or too much memory.",
    415: "Not multipart, or not an image of a format that is read here.",
    422: "The image, a setting or another value cannot be used.",
    429: "The queue is full, or too many tokens were wrong: try again after Retry-After.",
    500: "A fault of the service.",
    503: "No worker is there, or became free in time: try again after Retry-After.",
    504: "The image was not done in time.",
    507: "The disk of the service is full.",
}
ALWAYS = (401, 403, 405, 422, 429, 500)


def errors(*more: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, besides those that any may have."""
    content = {"application/json": {"example": {"error": example(Problem)}}}
    return {
        status: {"model": Error, "description": WHY[status], "content": content}
        for status in sorted({*ALWAYS, *more})
    }


BYTES = {"schema": {"type": "string", "format": "binary"}}
BINARY = ("application/octet-stream", "image/png", "application/gzip")
OBJECT = {"application/json": {"schema": {"type": "object"}}}


def answers(about: str, content: dict[str, Any], *statuses: int, **more: Any) -> dict[str, Any]:
    """The options of a route that answers with other forms than JSON."""
    responses = {200: {"description": about, "content": content, **more}}
    return {"response_model": None, "responses": responses | errors(*statuses)}


FILE = answers("The file.", dict.fromkeys(BINARY, BYTES) | OBJECT, 404)
TEXT = answers("The counts.", {"text/plain": {"schema": {"type": "string"}}})
UPLOAD = {
    "type": "object",
    "properties": {
        "file": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "format": "binary"},
            "description": f"One image ({', '.join(FORMATS)}), or several DICOM files that are "
            "the slices of one series.",
        },
        "model": {"type": "string", "description": "Of /api/models; the first if not given."},
        "method": {
            "type": "string",
            "description": "Of /api/methods; that of the model if not given.",
        },
        "invert": {
            "type": "string",
            "enum": ["true", "false"],
            "description": "Whether black and white change places before the model sees it.",
        },
        "rotate": {
            "type": "string",
            "enum": ["0", "90", "180", "270"],
            "description": "Degrees clockwise by which the model sees it turned.",
        },
        "group": {"type": "string", "description": "Results of one image have the same."},
        "again": {"type": "string", "description": "Of a session: a result, in place of `file`."},
        "path": {"type": "string", "description": "What to call the image among others."},
        "settings": {
            "type": "string",
            "description": "Of the method, a JSON object.",
            "example": '{"strategy": "vote"}',
        },
    },
    "additionalProperties": False,
}
ZIP = answers("The archive.", {"application/zip": BYTES}, 404, 413)
CSV = answers("The file.", {"text/csv": {"schema": {"type": "string"}}}, 404, 413)


def body(content: dict[str, Any]) -> dict[str, Any]:
    """The options of a route that reads its body itself, bounded."""
    return {"openapi_extra": {"requestBody": {"required": True, "content": content}}}


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """Of a route that reads JSON."""
    return body({"application/json": {"schema": model.model_json_schema()}})


PREDICT = answers(
    "Scores and links, or the mask itself.",
    {"application/json": {"example": example(PredictionAnswer)}}
    | dict.fromkeys(MASKS, BYTES)
    | {LINES: {"schema": {"type": "string", "description": "A line of JSON for each event."}}},
    *(400, 404, 406, 408, 413, 415, 429, 503, 504, 507),
    model=PredictionAnswer,
) | {
    "openapi_extra": {
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": UPLOAD}}}
    },
}
