"""Results that outlive their service: a folder that keeps images, masks, decisions and order.

Each result is a folder with its arrays, its upload, and ``entry.json``, written last: a folder
without it is what a killed service left, and is removed. One that cannot be read is left alone:
it may hold what a person drew.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from sitta._util.files import atomic_write, remove_stale
from sitta._util.untrusted import read_json, read_text
from sitta.data.masks import shareable
from sitta.data.orientation import Orientation
from sitta.data.preprocess import InverseTransform
from sitta.data.reading import read
from sitta.errors import InvalidImage, InvalidSetting, SittaError
from sitta.prediction.decisions import FILE, Decision, write
from sitta.serve.errors import ApiError
from sitta.serve.quotas import Limits
from sitta.serve.store import Entry, Store, lock_folder
from sitta.serve.upload import shown_path

ENTRY, UPLOAD, VERSION = "entry.json", "upload", 1
LONGEST = 2**26  # characters of an entry; a slice takes about 1,000
MARK = ".sitta-session"  # in a folder that a session may clean up
RESULT, WORKSPACE = re.compile(r"result-[\w-]{32}"), re.compile(r"upload-[a-z0-9_]{8}")
SOONEST = 1e-3  # seconds from one result to the next
BESIDE = "-"  # the group of results that are only compared with


def open_store(limits: Limits, session: Path | None) -> Store:
    """Where results are kept: for a while, or in a folder for good."""
    return Store(limits) if session is None else Session(limits, session)


@dataclasses.dataclass
class Kept(Entry):
    """A result of a session, whose layout is read from its own image when it is asked for."""

    transform: InverseTransform | None = None

    def opened(self) -> Any:
        """How the arrays lie, once more from the image after a restart."""
        if self.layout is None:
            self.layout = self._layout()
        return self.layout

    def _layout(self) -> Any:
        files = self.uploads
        if not files:
            raise ApiError(404, "no-file", "The image of this result is no longer there.")
        path = files[0] if len(files) == 1 else files[0].parent
        try:
            image = shareable(read(path))
        except InvalidImage as error:
            what = "The image of this result can no longer be read."
            raise ApiError(422, "bad-image", what) from error
        return dataclasses.replace(image, pixels=np.empty(0), indices=None), self.transform


class Session(Store):
    """Results in a folder of the user's: none is too old, and they are there after a restart."""

    def __init__(self, limits: Limits, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (folder / MARK).exists() and any(folder.iterdir()):
            raise InvalidSetting(
                f"{folder} holds other files: it is no folder of a session.",
                allowed="an empty or new folder, or one that --session made",
            )
        lock = lock_folder(folder)
        if lock is None and os.name == "posix":
            raise SittaError(
                f"The session {folder} is in use by another service.",
                fix="end that one first, or choose another folder",
            )
        super().__init__(limits)
        Store.close(self)  # its own folder is not needed
        self._session_lock = lock
        self.root = folder
        (folder / MARK).touch()
        remove_stale(folder)
        for path in folder.iterdir():
            if WORKSPACE.fullmatch(path.name):
                shutil.rmtree(path, ignore_errors=True)
        kept = [self._opened(path) for path in folder.iterdir() if RESULT.fullmatch(path.name)]
        for entry in sorted(filter(None, kept), key=lambda entry: entry.since):
            self._entries[entry.folder.name.removeprefix("result-")] = entry

    def _opened(self, folder: Path) -> Entry | None:
        """The result in a folder; one that was never whole is removed."""
        try:
            if not os.path.lexists(folder / ENTRY):
                shutil.rmtree(folder, ignore_errors=True)
                return None
            return _entry(folder)
        except Exception:  # whatever someone wrote there: no result is removed for it
            self.unread.append(folder.name)
            return None

    def add(
        self,
        name: str,
        answer: dict[str, Any],
        layout: Any = None,
        uploads: Sequence[Path] = (),
    ) -> None:
        """Keep a result with its image."""
        folder = self.folder(name)
        (folder / UPLOAD).mkdir(exist_ok=True)
        kept = [_linked(path, folder / UPLOAD / path.name) for path in uploads]
        transform = None if layout is None else layout[1]
        latest = max((entry.since for entry in self._entries.values()), default=0.0)
        since = max(time.time(), latest + SOONEST)  # their order, whatever the clock does
        entry = Kept(folder, answer, layout, since, 0, uploads=kept, transform=transform)
        self._entries[name] = entry
        self._write(name)

    def kept(self, name: str) -> None:
        """Write down what a person said or drew."""
        super().kept(name)
        self._write(name)
        rows = [one for entry in self._entries.values() for one in entry.review.values()]
        write(
            self.root / FILE,
            sorted(rows, key=lambda d: (d.file, -1 if d.slice is None else d.slice)),
        )

    def _write(self, name: str) -> None:
        entry = self._entries.get(name)
        if entry is None or entry.answer.get("group") == BESIDE or not isinstance(entry, Kept):
            return
        content = json.dumps(
            {
                "version": VERSION,
                "since": entry.since,
                "answer": entry.answer,
                "review": [dataclasses.asdict(one) for one in entry.review.values()],
                "transform": entry.transform and dataclasses.asdict(entry.transform),
            },
            default=_number,
        ).encode()
        with atomic_write(entry.folder / ENTRY, len(content)) as draft:
            draft.write_bytes(content)

    def session(self) -> dict[str, Any]:
        """All results in the order in which they were made."""
        done = (entry for entry in self._entries.values() if not entry.is_draft)
        entries = [entry for entry in done if entry.answer.get("group") != BESIDE]
        told = [
            {
                "answer": entry.answer,
                "decisions": [dataclasses.asdict(one) for one in entry.review.values()],
                "corrected": entry.is_corrected,
            }
            for entry in entries
        ]
        return {"session": True, "results": told}

    def tidy(self, keep: str = "") -> None:
        """Nothing is too old, or too much."""

    def close(self) -> None:
        """Keep everything; results that are only compared with go."""
        for name, entry in list(self._entries.items()):
            if entry.answer.get("group") == BESIDE:
                self.drop(name)
        self._entries.clear()
        if self._session_lock is not None:
            os.close(self._session_lock)
            self._session_lock = None
        self.root = Path(os.devnull)  # whatever is still asked for finds nothing


def _entry(folder: Path) -> Entry:
    """The result in a folder, which may come from anyone: it may name no other place."""
    paths = [folder, *folder.rglob("*")]
    if any(path.is_symlink() or not (path.is_dir() or path.is_file()) for path in paths):
        raise InvalidSetting(f"{folder} holds links, pipes or devices.")
    kept = read_json(read_text(folder / ENTRY), f"{folder.name}/{ENTRY}", longest=LONGEST)
    review = [Decision(**row) for row in kept["review"]]
    answer, since = dict(kept["answer"]), float(kept["since"])
    if kept["version"] != VERSION or not math.isfinite(since) or not _is_answer(answer):
        raise InvalidSetting(f"{folder} holds something else.")
    return Kept(
        folder,
        {**answer, "path": shown_path(answer["path"]) or "image"},
        None,
        since=since,
        size=sum(path.stat().st_size for path in folder.iterdir() if path.is_file()),
        review={one.slice: one for one in review},
        uploads=sorted((folder / UPLOAD).iterdir()),
        transform=_transform(kept["transform"]),
    )


def _is_answer(answer: dict[str, Any]) -> bool:
    """Whether it has what routes take from it, as they take it."""
    shape, classes = answer["shape"], answer["classes"]
    texts = [answer["path"], answer["name"], answer["activation"], *classes]
    numbers = [answer["slices"], *shape]
    return (
        isinstance(classes, list)
        and isinstance(shape, list)
        and len(shape) >= 2
        and all(isinstance(text, str) for text in texts)
        and all(isinstance(n, int) and 0 < n <= LONGEST for n in numbers)
        and isinstance(answer["rows"], list)
    )


def _linked(source: Path, target: Path) -> Path:
    """The file under another name: a link if the disk allows it, for the first one will go."""
    try:
        os.link(source, target)
    except OSError:
        with suppress(FileNotFoundError):
            shutil.copyfile(source, target)
    return target


def _number(value: Any) -> Any:
    if isinstance(value, np.integer):
        return int(value)
    raise TypeError(type(value).__name__)


def _transform(kept: dict[str, Any] | None) -> InverseTransform | None:
    if kept is None:
        return None
    sides = {k: tuple(v) for k, v in kept.items() if k != "orientation"}
    turn = Orientation(**{name: tuple(values) for name, values in kept["orientation"].items()})
    return InverseTransform(**sides, orientation=turn)
