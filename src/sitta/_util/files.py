"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sitta._util.process import is_alive
from sitta.errors import DiskFull

DRAFT = re.compile(r"\.draft-(\d+)-[0-9a-f]{8}\.")


@contextmanager
def atomic_write(path: Path, most: int = 0) -> Iterator[Path]:
    """A temporary name that becomes ``path`` once all is written and on the disk.

    ``most`` is how many bytes that may be, if it is known, for the error that there is no room.
    """
    mark = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"  # threads may write the same
    draft = path.with_name(f".draft-{mark}.{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        with open(draft, "r+b") as file:  # Windows flushes no file that is open for reading alone
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        if isinstance(error, DiskFull) or not is_full(error):
            raise
        raise _no_room(error, path, draft, most) from error
    finally:
        draft.unlink(missing_ok=True)


def is_full(error: BaseException) -> bool:
    """Whether an error says that a disk, or a user's share of it, is full."""
    full = (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in full)


def _no_room(error: OSError, path: Path, draft: Path, most: int) -> DiskFull:
    written = draft.stat().st_size if draft.exists() else 0
    home = next(folder for folder in draft.absolute().parents if folder.is_dir())
    needs = f"up to {most:,}" if most > written else f"more than {written:,}"
    free = shutil.disk_usage(home).free
    return DiskFull(
        f"{error.strerror}: {path} needs {needs} bytes, {free:,} are free.",
        fix="make room, or write to another disk",
    )


def remove_stale(folder: Path, settled: float = 60.0) -> None:
    """Remove drafts of killed processes; those of the last seconds may be another machine's."""
    for path in folder.rglob(".draft-*"):
        draft = DRAFT.match(path.name)
        if not draft or is_alive(int(draft[1])):
            continue
        with suppress(FileNotFoundError):  # its owner was faster
            if time.time() - path.stat().st_mtime >= settled:
                path.unlink()
