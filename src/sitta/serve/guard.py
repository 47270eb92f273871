"""Who may ask what: host, origin and token are checked, and headers set, on every request."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from sitta.errors import InvalidSetting
from sitta.serve.attempts import Attempts
from sitta.serve.errors import ApiError

COOKIE = "sitta-session"
SHORTEST_TOKEN = 16
OPEN = ("/healthz", "/readyz", "/login")  # without a token: none tells anything
SAFE = ("GET", "HEAD", "OPTIONS")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether an address is that of this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Guard:
    """The rules of one service; refused if they let anyone in without ``insecure``."""

    host: str = "127.0.0.1"  # what the service is bound to
    token: str | None = field(default=None, repr=False)  # that clients must show
    insecure: bool = False  # serve others than this machine without a token
    names: frozenset[str] = frozenset()  # more names of this host, such as that of a proxy
    attempts: Attempts = field(default_factory=Attempts, repr=False, compare=False)
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise InvalidSetting(
                "The token is too short to keep anyone out.",
                allowed=f"at least {SHORTEST_TOKEN} characters",
                fix="python -c 'import secrets; print(secrets.token_urlsafe())' makes one",
            )
        if not is_loopback(self.host) and self.token is None and not self.insecure:
            raise InvalidSetting(
                f"On {self.host} anyone in the network could use this service.",
                allowed="--host 127.0.0.1, or --token T, or --insecure",
                fix="--token T, which clients then show; see sitta serve --help",
            )

    def check(
        self, method: str, path: str, headers: Headers, client: str, login: bool = False
    ) -> None:
        """Refuse with 403, 401 or 429; ``login``: a query shows a token, which only logs in."""
        self._check_host(headers)
        if method not in SAFE:
            _check_origin(headers)
        shown = path in OPEN or (login and path == "/")
        if self.token is not None and not shown and not self._is_logged_in(headers, client):
            raise ApiError(
                401,
                "no-token",
                "This service asks for its token.",
                allowed="Authorization: Bearer TOKEN, or a browser that has logged in at /login",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _check_host(self, headers: Headers) -> None:
        """A page elsewhere may point its own name at this machine (DNS rebinding)."""
        if not is_loopback(self.host):
            return
        name = _split(f"//{headers.get('host', '')}").hostname or ""
        if not is_loopback(name) and name not in self.names:
            raise ApiError(
                403,
                "wrong-host",
                "This service is called by a name that is not its own.",
                allowed=", ".join(["localhost", "127.0.0.1", *sorted(self.names)]),
                fix="sitta serve --allow-host NAME, if it is behind a proxy of that name",
            )

    def is_token(self, given: str, client: str) -> bool:
        """Compared in a time that does not depend on where they differ; 429 after many others."""
        self.attempts.check(client)
        right = self.token is not None and _equal(given, self.token)
        if not right:
            self.attempts.failed(client)
        return right

    def _is_logged_in(self, headers: Headers, client: str) -> bool:
        """A session is not guessed, and an old one is no attempt: only tokens are counted."""
        cookies = cookie_parser("; ".join(headers.getlist("cookie")))
        if _equal(cookies.get(COOKIE, ""), self.session):
            return True
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self.is_token(shown.strip(), client)

    def cookie(self, secure: bool) -> str:
        """For a browser that showed the token: it stands for it until this process ends."""
        kept = f"{COOKIE}={self.session}; Path=/; HttpOnly; SameSite=Strict"
        return f"{kept}; Secure" if secure else kept


def _check_origin(headers: Headers) -> None:
    """A page elsewhere may send, even if it may not read what comes back."""
    site, origin, host = (headers.get(name) for name in ("sec-fetch-site", "origin", "host"))
    same = bool(host) and _split(origin or "").netloc.lower() == (host or "").lower()
    if (origin is not None and not same) or site in ("cross-site", "same-site"):
        raise ApiError(403, "wrong-origin", "Another site's page may not use this service.")


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
