"""Results, in a folder of this process alone: bounded in size and age, and gone on exit."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sitta.serve.limits import Limits
from sitta.serve.refusal import Refusal

PREFIX = "sitta-serve-"
OURS = re.compile(rf"{PREFIX}(\d+)-")
GONE = Refusal(
    404,
    "no-result",
    "There is no such result: results are kept for a limited time only, or were deleted.",
    fix="send the image again",
)


@dataclass
class Entry:
    """A result that is kept.

    Attributes:
        folder: Where its arrays are.
        answer: What was said about it.
        since: When it was made, in seconds of a clock that only runs forward.
        size: Bytes of its files.
        lock: Held while a file of it is made.
    """

    folder: Path
    answer: dict[str, Any]
    since: float
    size: int
    lock: threading.Lock = field(default_factory=threading.Lock)


class Store:
    """Results by unguessable ids.

    Args:
        limits: How much is kept, and how long.
    """

    def __init__(self, limits: Limits) -> None:
        sweep(Path(tempfile.gettempdir()))
        self.limits = limits
        self.root = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))  # 0700
        self._entries: OrderedDict[str, Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        """Bytes of all results."""
        return sum(entry.size for entry in self._entries.values())

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """A folder for an upload, which goes when the request is done."""
        folder = self.root / f"upload-{secrets.token_urlsafe(12)}"
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def new(self) -> str:
        """An id with an empty folder, which is no result before it is added."""
        name = secrets.token_urlsafe(24)
        self._folder(name).mkdir(mode=0o700)
        return name

    def drop(self, name: str) -> None:
        """Forget a folder that came to no result."""
        shutil.rmtree(self._folder(name), ignore_errors=True)

    def add(self, name: str, answer: dict[str, Any]) -> None:
        """Keep a result; the oldest go if there is no room."""
        folder = self._folder(name)
        self._entries[name] = Entry(folder, answer, time.monotonic(), _bytes(folder))
        self.tidy(keep=name)

    def measure(self, name: str) -> None:
        """Count the files of a result again, after one was made."""
        entry = self._entries.get(name)
        if entry is not None:
            entry.size = _bytes(entry.folder)

    def get(self, name: str) -> Entry:
        """A result.

        Raises:
            Refusal: 404, there is none, or no more.
        """
        self.tidy()
        if name not in self._entries:
            raise GONE
        return self._entries[name]

    def delete(self, name: str) -> None:
        """Forget a result."""
        self.get(name)
        self._remove(name)

    def tidy(self, keep: str = "") -> None:
        """Remove what is too old, and the oldest of what is too much."""
        oldest = time.monotonic() - self.limits.keep_seconds
        for name, entry in list(self._entries.items()):
            if entry.since < oldest and name != keep:
                self._remove(name)
        for name in list(self._entries):
            if self.size <= self.limits.keep_bytes:
                return
            if name != keep:
                self._remove(name)

    def close(self) -> None:
        """Remove everything."""
        self._entries.clear()
        shutil.rmtree(self.root, ignore_errors=True)

    def _folder(self, name: str) -> Path:
        return self.root / f"result-{name}"

    def _remove(self, name: str) -> None:
        shutil.rmtree(self._entries.pop(name).folder, ignore_errors=True)


def _bytes(folder: Path) -> int:
    """Of the files that are there: drafts get their names, and results go, at any moment."""
    found = 0
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            with suppress(FileNotFoundError):
                found += path.stat().st_size
    return found


def sweep(where: Path) -> None:
    """Remove folders of services that were killed before they could do it themselves."""
    for path in where.glob(f"{PREFIX}*"):
        found = OURS.match(path.name)
        if found and _is_mine(path) and not _is_alive(int(found[1])):
            shutil.rmtree(path, ignore_errors=True)


def _is_mine(path: Path) -> bool:
    try:
        return path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.getuid()
    except (OSError, AttributeError):
        return False


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
