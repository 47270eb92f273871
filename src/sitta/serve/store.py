"""Results in a folder of this process alone: bounded in size and age, and gone on exit."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sitta._util.locks import lock
from sitta.errors import SittaError
from sitta.prediction.decisions import CORRECTED, Decision
from sitta.serve.errors import ApiError
from sitta.serve.quotas import Limits

PREFIX = "sitta-serve-"
WORKDAY = 12 * 3600.0  # seconds for which at least what a person decided or drew is kept
TRIES = 20  # to have a folder before another service sweeps it; more do not help
OURS = re.compile(rf"{PREFIX}(\d+-)?[a-z0-9_]{{8}}")  # as tempfile ends names


@dataclass
class Entry:
    """A result that is kept."""

    folder: Path
    answer: dict[str, Any]
    layout: Any  # how the arrays in the folder lie
    since: float  # when it was made, on a clock that only runs forward
    size: int  # bytes of its files
    review: dict[int | None, Decision] = field(default_factory=dict)  # by slice; None: whole file
    uploads: list[Path] = field(default_factory=list)  # the image itself, if it is kept
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while a file is made

    def opened(self) -> Any:
        """How the arrays lie."""
        return self.layout

    @property
    def is_draft(self) -> bool:
        """Whether it is being made: there is an image, and some of its mask."""
        return bool(self.answer.get("draft"))

    @property
    def is_corrected(self) -> bool:
        """Whether a person drew a mask."""
        return (self.folder / f"{CORRECTED}.npy").exists()

    @property
    def is_work(self) -> bool:
        """Whether a person decided on it or drew a mask: made again, it would be lost."""
        return bool(self.review) or self.is_corrected


class Store:
    """Results by unguessable ids; ``limits`` say how much is kept, and how long."""

    def __init__(self, limits: Limits) -> None:
        remove_abandoned(Path(tempfile.gettempdir()))
        self.limits = limits
        self.root, self._lock = _own_folder()
        self._entries: dict[str, Entry] = {}  # oldest first
        self.unread: list[str] = []  # folders of results that cannot be read

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        """Bytes of all results."""
        return sum(entry.size for entry in self._entries.values())

    def workspace(self) -> tempfile.TemporaryDirectory[str]:
        """A folder for an upload, which goes when the request is done."""
        return tempfile.TemporaryDirectory("", "upload-", self.root, ignore_cleanup_errors=True)

    def new(self) -> str:
        """An id with an empty folder, which is no result before it is added."""
        name = secrets.token_urlsafe(24)
        self.folder(name).mkdir(mode=0o700)
        return name

    def folder(self, name: str) -> Path:
        """Where the files of a result are."""
        return self.root / f"result-{name}"

    def drop(self, name: str) -> None:
        """Remove a folder, and the result that it became."""
        self._entries.pop(name, None)
        shutil.rmtree(self.folder(name), ignore_errors=True)

    def add(
        self,
        name: str,
        answer: dict[str, Any],
        layout: Any = None,
        uploads: Sequence[Path] = (),  # kept by a session alone
    ) -> None:
        """Keep a result; the oldest go if there is no room."""
        folder = self.folder(name)
        self._entries[name] = Entry(folder, answer, layout, time.monotonic(), _bytes(folder))
        self.tidy(keep=name)

    def begin(self, name: str, answer: dict[str, Any], layout: Any) -> None:
        """Show a result that is being made; it is added when it is done."""
        self._entries[name] = Entry(self.folder(name), answer, layout, time.monotonic(), 0)

    def measure(self, name: str) -> None:
        """Count the files of a result again, after one was made."""
        entry = self._entries.get(name)
        if entry is not None:
            entry.size = _bytes(entry.folder)

    def kept(self, name: str) -> None:
        """Count the files of a result again, after a person said or drew something."""
        self.measure(name)

    def session(self) -> dict[str, Any]:
        """What a page shows when it is loaded anew: nothing of it is kept here."""
        return {"session": False, "results": []}

    def get(self, name: str, draft: bool = False) -> Entry:
        """A result, or also one that is being made; 404 if there is none, or no more."""
        self.tidy()
        entry = self._entries.get(name)
        if entry is None or (entry.is_draft and not draft):
            raise gone()
        return entry

    def delete(self, name: str) -> None:
        """Remove a result."""
        self.get(name)
        self.drop(name)

    def tidy(self, keep: str = "") -> None:
        """Remove what is too old, and the oldest of what is too much: a person's work last."""
        now, kept = time.monotonic(), self.limits.keep_seconds
        excess = self.size - self.limits.keep_bytes
        for is_work, most in ((False, kept), (True, max(kept, WORKDAY))):
            for name, entry in list(self._entries.items()):
                if name == keep or entry.is_draft:  # whose job ends it
                    continue
                if (now - entry.since > most or excess > 0) and entry.is_work is is_work:
                    excess -= entry.size
                    self.drop(name)

    def close(self) -> None:
        """Remove everything."""
        self._entries.clear()
        shutil.rmtree(self.root, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def gone() -> ApiError:
    """There is no such result."""
    return ApiError(
        404,
        "no-result",
        "There is no such result: results are kept for a limited time only, or were deleted.",
        fix="send the image again",
    )


def _bytes(folder: Path) -> int:
    """Of the files that are there: drafts get their names, and results go, at any moment."""
    total = 0
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            with suppress(FileNotFoundError):
                total += path.stat().st_size
    return total


def _own_folder() -> tuple[Path, int | None]:
    """A folder that only this user can read, and the lock that says that it is in use."""
    for _ in range(TRIES):
        root = Path(tempfile.mkdtemp(prefix=PREFIX))  # 0700
        held = lock_folder(root)
        if sys.platform == "win32" or (held is not None and root.exists()):
            return root, held
        if held is not None:  # another service took it for abandoned before it was locked
            os.close(held)
        shutil.rmtree(root, ignore_errors=True)
    raise SittaError(
        f"Folders in {tempfile.gettempdir()} cannot be locked, so results would not be safe there.",
        fix="name a folder on a local disk with TMPDIR",
    )


def lock_folder(folder: Path) -> int | None:
    """A lock on a folder, which the system frees when its process ends; None if it is held.

    Numbers of processes would not do: in a container every service has the same.
    """
    if sys.platform == "win32":  # where folders have no locks, and nothing is swept
        return None
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        with suppress(OSError):
            if lock(descriptor):
                return descriptor
        os.close(descriptor)
    return None


def remove_abandoned(parent: Path) -> None:
    """Remove folders of services that were killed before they could do it themselves."""
    for path in parent.glob(f"{PREFIX}*"):
        if not OURS.fullmatch(path.name) or not _is_mine(path):
            continue
        held = lock_folder(path)
        if held is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(held)


def _is_mine(path: Path) -> bool:
    try:
        return path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.getuid()
    except (OSError, AttributeError):  # no such users on Windows
        return False
