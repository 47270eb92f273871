"""Files are written whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def finished(path: Path) -> Iterator[Path]:
    """A temporary name that becomes ``path`` once all is written and on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{uuid.uuid4().hex[:8]}.{path.name}")  # threads may write the same
    try:
        yield draft
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
