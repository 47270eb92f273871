"""Wrong tokens, counted by client: after a few, each further one costs a longer wait."""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Callable

from sitta.serve.errors import ApiError

FREE = 10  # wrong tokens before the first wait
LONGEST_SECONDS = 60.0  # of a wait, each of which is twice the last
FORGET_SECONDS = 900.0  # after the last wrong token
CLIENTS = 4096  # remembered; the oldest go first


class Attempts:
    """Who showed wrong tokens; ``clock`` only runs forward."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[
            str, tuple[int, float]
        ] = {}  # how many, and when the last; oldest first

    def check(self, client: str) -> None:
        """429 if this client must wait before another token of its is looked at."""
        count, last = self._failures.get(_network(client), (0, 0.0))
        wait = min(LONGEST_SECONDS, 2.0 ** min(count - FREE, 10)) if count >= FREE else 0.0
        left = math.ceil(last + wait - self._clock())
        if left > 0:
            raise ApiError(
                429,
                "too-many-tokens",
                "Too many wrong tokens came from this address.",
                fix=f"wait {left} s, then show the right one",
                headers={"Retry-After": str(left)},
            )

    def failed(self, client: str) -> None:
        """Count a wrong token."""
        now, network = self._clock(), _network(client)
        count, last = self._failures.pop(network, (0, now))
        self._failures[network] = (count + 1 if now - last < FORGET_SECONDS else 1, now)
        if len(self._failures) > CLIENTS:
            del self._failures[next(iter(self._failures))]


def _network(client: str) -> str:
    """What one client can choose its addresses from: with IPv6, 64 bits of them."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    if isinstance(address, ipaddress.IPv4Address):
        return client
    mapped = address.ipv4_mapped
    return str(mapped or ipaddress.ip_network((int(address), 64), strict=False))
