"""A time limit for a block of code."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

RETRY_SECONDS = 1.0  # seconds until the next try, if a library has swallowed the first


class Expired(BaseException):
    """The limit is reached; no ``Exception``, which libraries catch and go on."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise ``Expired`` in the block after so many seconds; 0 is no limit.

    An alarm of the system does it, so that no thread or process is needed per file. It ends Python
    code and waiting for a disk. Code in C ends when it returns to Python. Without alarms (Windows,
    threads other than the main one) there is no limit.
    """
    here = threading.current_thread() is threading.main_thread()
    if not seconds or not here or not hasattr(signal, "setitimer"):
        yield
        return
    start, (left, interval) = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)
    handler = signal.signal(signal.SIGALRM, _expire)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, RETRY_SECONDS)
            yield
        finally:  # once more below: the alarm may come right here
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:  # an alarm of someone else: it comes when it would have come
            rest = max(left - (time.monotonic() - start), 1e-6)
            signal.setitimer(signal.ITIMER_REAL, rest, interval)


def _expire(number: int, frame: FrameType | None) -> None:
    raise Expired
