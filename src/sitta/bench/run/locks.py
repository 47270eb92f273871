"""Locks on files. The system frees them when their process ends, however that happens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Lock a file for the block, without waiting; False if another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        yield _lock(file)


def is_locked(path: Path) -> bool:
    """Whether a process of this machine has the lock; False if that cannot be told."""
    try:
        with open(path) as file:  # who only looks may not be allowed to write here
            return not _lock(file, shared=True)
    except OSError:
        return False


def _lock(file: IO[str], *, shared: bool = False) -> bool:
    try:
        if sys.platform == "win32":  # where locks are never shared
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the latter is what Windows says
        return False
    return True
