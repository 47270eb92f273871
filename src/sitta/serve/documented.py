"""What the OpenAPI document says beyond the types: errors, files, and the form of an upload."""

from __future__ import annotations

from typing import Any

from sitta.serve.schemas import Answer, Error

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
    429: "The queue is full: try again after the seconds in Retry-After.",
    500: "A fault of the service.",
    503: "No worker became free in time.",
    504: "The image was not done in time.",
}
ALWAYS = (401, 403, 405, 422, 500)
EXAMPLE = {
    "error": {
        "code": "bad-image",
        "message": "scan.png is cut short: it cannot be read as PNG (OSError).",
        "allowed": None,
        "fix": "copy, download or export it again.",
    }
}


def errors(*more: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, besides those that any may have."""
    told = {"application/json": {"example": EXAMPLE}}
    return {
        status: {"model": Error, "description": WHY[status], "content": told}
        for status in sorted({*ALWAYS, *more})
    }


BYTES = {"schema": {"type": "string", "format": "binary"}}
PLAIN: dict[str, Any] = {"response_model": None}
FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file.",
        "content": dict.fromkeys(
            ("application/octet-stream", "image/png", "application/gzip"), BYTES
        )
        | {"application/json": {"schema": {"type": "object"}}},
    }
}
TEXT: dict[int | str, dict[str, Any]] = {
    200: {"description": "The counts.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}
ROW = {
    "slice": 0,
    "agreement": 0.97,
    "uncertainty": 0.03,
    "disagreement": 0.01,
    "change": 0.08,
    "distance": 0.21,
    "area_source": 0.09,
    "area": 0.1,
    "notes": [],
    "doubt": 0.03,
    "weights": [0.4, 0.6],
    "entropies": [0.3, 0.2],
    "areas": [0.09, 0.1],
    "look": False,
}
ANSWERED = {
    "id": "Zk3u...",
    "name": "scan.dcm",
    "model": "phantom-alder",
    "method": "intent",
    "settings": {"strategy": "ent-baln"},
    "kind": "dicom",
    "shape": [128, 128],
    "spacing": [0.5, 0.5],
    "channels": 1,
    "slices": 1,
    "shown": 0,
    "dims": 2,
    "classes": ["organ"],
    "lambdas": [1.0, 0.0],
    "source_member": 0,
    "activation": "sigmoid",
    "doubt": 0.03,
    "intensity": {"low": 0.0, "high": 65535.0, "window": [120.0, 60000.0]},
    "look": False,
    "seconds": 0.21,
    "rows": [ROW],
    "links": {"mask.png": "/api/results/Zk3u.../mask.png"},
}
UPLOAD = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "format": "binary"},
            "description": "One image (PNG, JPEG, GIF, BMP, TIFF, NIfTI, DICOM), or several "
            "DICOM files that are the slices of one series.",
        },
        "model": {"type": "string", "description": "Of /api/models; the first if not given."},
        "method": {"type": "string", "description": "Of /api/methods; intent if not given."},
        "settings": {
            "type": "string",
            "description": "Of the method, a JSON object.",
            "example": '{"strategy": "vote"}',
        },
    },
    "additionalProperties": False,
}
PREDICT: dict[str, Any] = {
    "summary": "Adapt to an image",
    "response_model": None,
    "responses": {
        200: {
            "model": Answer,
            "description": "Figures and links, or the mask itself.",
            "content": {
                "application/json": {"example": ANSWERED},
                "image/png": BYTES,
                "application/x-nifti": BYTES,
                "application/gzip": BYTES,
            },
        }
    }
    | errors(400, 404, 406, 408, 413, 415, 429, 503, 504),
    "openapi_extra": {
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": UPLOAD}}}
    },
}
