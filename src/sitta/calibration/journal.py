"""What a calibration has looked at so far, on the disk: one that is stopped goes on from there.

A line for each image, with scores and no picture, name or path. It counts only for the same model,
images, references, seed and version of Sitta, and is removed once the calibration is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sitta._version import __version__

Looks = list[dict[str, Any]]  # of one image: as it is, and shifted


class Journal:
    """A file to which the looks at each image are added as soon as they are there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._done: dict[int, Looks] = {}

    def open(self, *parts: object) -> None:
        """Take up what is there, if it is of the same calibration; else begin anew."""
        key = _key(parts)
        lines = self.path.read_bytes().splitlines() if self.path.is_file() else []
        entries = [entry for line in lines if (entry := _read(line)) is not None]
        same = bool(entries) and entries[0] == {"calibration": key}
        kept = [e for e in entries[1:] if e.keys() == {"image", "looks"}] if same else []
        self._done = {entry["image"]: _arrays(entry["looks"]) for entry in kept}
        # Written again, so that half a line at the end is gone.
        text = [{"calibration": key}, *kept]
        self.path.write_text("".join(json.dumps(entry) + "\n" for entry in text), encoding="utf-8")

    def looks(self, image: int) -> Looks | None:
        """Those at an image, if it was done before."""
        return self._done.get(image)

    def add(self, image: int, looks: Looks) -> None:
        """Keep the looks at an image; on the disk when this returns."""
        entry = {"image": image, "looks": [_plain(look) for look in looks]}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def remove(self) -> None:
        """Once the calibration is kept."""
        self.path.unlink(missing_ok=True)


def _key(parts: Sequence[object]) -> str:
    """A digest of all that the looks follow from."""
    whole = hashlib.sha256(__version__.encode())
    for part in parts:
        if isinstance(part, Tensor):
            whole.update(repr((part.shape, part.dtype)).encode())
            whole.update(part.detach().cpu().contiguous().numpy().tobytes())
        else:
            whole.update(repr(part).encode())
    return whole.hexdigest()


def _read(line: bytes) -> dict[str, Any] | None:
    """An entry; None for half a line, as a process leaves it that is ended."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _plain(look: dict[str, Any]) -> dict[str, Any]:
    """Arrays as numbers with their type: they come back bit for bit."""
    return {
        name: [str(value.dtype), value.tolist()] if isinstance(value, np.ndarray) else value
        for name, value in look.items()
    }


def _arrays(looks: Looks) -> Looks:
    return [{name: _array(value) for name, value in look.items()} for look in looks]


def _array(value: Any) -> Any:
    """An array if it was one."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str):
        kind, numbers = value
        if isinstance(numbers, list):
            made: NDArray[Any] = np.array(numbers, dtype=kind)
            return made
    return value
