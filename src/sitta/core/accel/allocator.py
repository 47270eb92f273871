"""How glibc's allocator treats freed memory: by default the next pass waits for fresh pages.

For entry points that own the process (commands, workers, benchmarks), never for methods: a library
must not change the allocator of the program that imports it. Without glibc nothing happens.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4  # parameters of mallopt, from malloc.h
LARGEST_MMAP = 32 << 20  # bytes: the largest threshold that glibc takes
KEPT = 256 << 20  # bytes of freed memory to keep


def keep_between_passes() -> None:
    """Keep up to 256 MB of what a pass frees for the next one."""
    _tune((MMAP_THRESHOLD, LARGEST_MMAP), (TRIM_THRESHOLD, KEPT))


def keep_everything() -> None:
    """Keep all that is freed, for a process that does nothing but adapt.

    Gradients of large images hold blocks above what ``keep_between_passes`` covers: without this,
    nearly half of the time of MEMO on 256x256 pixels goes into fresh pages. The process never gets
    smaller than it once was.
    """
    _tune((MMAP_MAX, 0), (TRIM_THRESHOLD, 2**31 - 1))


def _tune(*parameters: tuple[int, int]) -> None:
    with suppress(AttributeError, OSError, TypeError):  # no glibc
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in parameters:
            mallopt(parameter, value)
