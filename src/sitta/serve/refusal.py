"""What the service answers when it does not do what it was asked."""

from __future__ import annotations

from typing import Any

from sitta.errors import SittaError


class Refusal(Exception):
    """An answer of 4xx or 5xx: always the same JSON, one clear sentence, never a traceback.

    Args:
        status: Of HTTP.
        code: For programs, such as ``bad-image``.
        message: For people, one sentence.
        allowed: What would have been accepted.
        fix: What to do.
        headers: To send along.

    Example:
        >>> Refusal(404, "gone", "There is no such result.").body()["error"]["code"]
        'gone'
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        allowed: str | None = None,
        fix: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.allowed, self.fix, self.headers = allowed, fix, headers or {}

    @classmethod
    def of(cls, status: int, code: str, error: SittaError) -> Refusal:
        """A user's error, as the service says it."""
        said = f"{error.what} Got: {error.got.rstrip('.')}." if error.got else error.what
        return cls(status, code, said, allowed=error.allowed or None, fix=error.fix or None)

    def body(self) -> dict[str, dict[str, Any]]:
        """As JSON."""
        told = {"code": self.code, "message": self.message}
        return {"error": {**told, "allowed": self.allowed, "fix": self.fix}}

    def plain(self) -> dict[str, Any]:
        """In plain types, to travel from a worker."""
        told = {"status": self.status, "code": self.code, "message": self.message}
        return {**told, "allowed": self.allowed, "fix": self.fix}
