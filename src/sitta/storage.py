"""Files are written whole or not at all."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DRAFT = re.compile(r"\.draft-(\d+)-[0-9a-f]{8}\.")
SETTLED = 60.0  # seconds: a draft younger than that may be another machine's, still at work


@contextmanager
def finished(path: Path) -> Iterator[Path]:
    """A temporary name that becomes ``path`` once all is written and on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mark = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"  # threads may write the same
    draft = path.with_name(f".draft-{mark}.{path.name}")
    try:
        yield draft
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def sweep(folder: Path, settled: float = SETTLED) -> None:
    """Remove drafts that a process left behind when it was killed."""
    for path in folder.rglob(".draft-*"):
        found = DRAFT.match(path.name)
        if not found or _is_alive(int(found[1])):
            continue
        try:
            if time.time() - path.stat().st_mtime >= settled:
                path.unlink()
        except FileNotFoundError:
            continue  # its owner was faster


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return not _is_defunct(process)


def _is_defunct(process: int) -> bool:
    """Whether a process has ended and only waits for its parent to notice (on Linux)."""
    try:
        told = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return told.rpartition(")")[2].split()[:1] == ["Z"]  # its name, in brackets, may hold anything
