"""The errors of the service, which all have the same form."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.responses import JSONResponse

from sitta._util.files import is_full
from sitta.errors import SittaError


@dataclass(eq=False)
class ApiError(Exception):
    """An answer of 4xx or 5xx: one clear sentence in JSON, never a traceback."""

    status: int
    code: str  # for programs, such as bad-image
    message: str  # for people, one sentence
    allowed: str | None = None  # what would have been accepted
    fix: str | None = None  # what to do
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    @classmethod
    def of(cls, status: int, code: str, error: SittaError) -> ApiError:
        """A user's error as the service words it."""
        message = f"{error.what} Got: {error.got.rstrip('.')}." if error.got else error.what
        return cls(status, code, message, error.allowed or None, error.fix or None)

    def response(self) -> JSONResponse:
        """The answer to the client."""
        texts = ((name, getattr(self, name)) for name in ("code", "message", "allowed", "fix"))
        body = {name: text and _encodable(text) for name, text in texts}
        return JSONResponse({"error": body}, self.status, self.headers)


def fault(error: Exception) -> ApiError:
    """507 where the disk is full, else 500: what went wrong is for the log alone."""
    if is_full(error):
        message = "The disk of the service is full."
        return ApiError(507, "disk-full", message, fix="try again later, or delete results")
    return ApiError(500, "failed", "The service failed at this request, by a fault of its own.")


def _encodable(text: str) -> str:
    """JSON may quote half a character, which no answer can hold."""
    return text.encode(errors="backslashreplace").decode()


def unavailable(code: str, message: str) -> ApiError:
    """503: nothing is wrong with the request."""
    wait = {"Retry-After": "5"}
    return ApiError(503, code, message, fix="send it again after Retry-After", headers=wait)
