"""Locks on files. The system frees them when their process ends, however that happens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Lock a file for the block, without waiting; False if another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        yield lock(file.fileno())


def is_locked(path: Path) -> bool:
    """Whether a process of this machine has the lock; False if that cannot be told."""
    try:
        with open(path) as file:  # who only looks may not be allowed to write here
            return not lock(file.fileno(), shared=True)
    except OSError:
        return False


def lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock what a descriptor stands for until that is closed; False if another process has it."""
    try:
        if sys.platform == "win32":  # where locks are never shared
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the latter is what Windows says
        return False
    return True
