"""Who may ask what: host, origin and token are checked, and headers set, on every request."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from sitta.errors import InvalidSetting
from sitta.serve.refusal import Refusal

COOKIE = "sitta-session"
SHORTEST_TOKEN = 16
OPEN = ("/healthz", "/login")  # without a token: neither tells anything
SAFE = ("GET", "HEAD", "OPTIONS")
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
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
    """Whether an address is that of this machine alone.

    Example:
        >>> [is_loopback(h) for h in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org")]
        [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Guard:
    """The rules of one service.

    Args:
        host: What the service is bound to.
        token: That clients must show; None for none.
        insecure: Serve others than this machine without a token.
        names: More host names by which clients may call, such as that of a reverse proxy.

    Raises:
        InvalidSetting: Others than this machine are served, and nothing keeps anyone out.
    """

    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    insecure: bool = False
    names: frozenset[str] = frozenset()
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

    def check(self, method: str, path: str, headers: Headers, login: bool = False) -> None:
        """Refuse a request that must not be answered.

        Args:
            method: GET, POST and so on.
            path: What is asked for.
            headers: Of the request.
            login: Whether the request shows a token in its query, which only logs in.

        Raises:
            Refusal: 403 or 401.
        """
        self._check_host(headers)
        if method not in SAFE:
            _check_origin(headers)
        shown = path in OPEN or (login and path == "/")
        if self.token is not None and not shown and not self._is_known(headers):
            raise Refusal(
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
        name = _host_name(headers.get("host", ""))
        if not is_loopback(name) and name not in self.names:
            raise Refusal(
                403,
                "wrong-host",
                "This service is called by a name that is not its own.",
                allowed=", ".join(["localhost", "127.0.0.1", *sorted(self.names)]),
                fix="sitta serve --allow-host NAME, if it is behind a proxy of that name",
            )

    def is_token(self, given: str) -> bool:
        """Compared in a time that does not depend on where they differ."""
        return self.token is not None and _equal(given, self.token)

    def _is_known(self, headers: Headers) -> bool:
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(shown.strip()):
            return True
        return _equal(_cookie(headers.getlist("cookie")), self.session)

    def cookie(self, secure: bool) -> str:
        """For a browser that showed the token: it stands for it until this process ends."""
        kept = f"{COOKIE}={self.session}; Path=/; HttpOnly; SameSite=Strict"
        return f"{kept}; Secure" if secure else kept


def _check_origin(headers: Headers) -> None:
    """A page elsewhere may send, even if it may not read what comes back."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    foreign = origin is not None and not _is_same(origin, headers.get("host", ""))
    if foreign or site in ("cross-site", "same-site"):
        raise Refusal(403, "wrong-origin", "Another site's page may not use this service.")


def _is_same(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower() != ""
    except ValueError:
        return False


def _host_name(host: str) -> str:
    """Without the port.

    Example:
        >>> _host_name("[::1]:8642"), _host_name("LocalHost:1")
        ('::1', 'localhost')
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _cookie(lines: Iterable[str]) -> str:
    for line in lines:
        try:
            found = SimpleCookie(line).get(COOKIE)
        except CookieError:
            continue
        if found is not None:
            return found.value
    return ""
