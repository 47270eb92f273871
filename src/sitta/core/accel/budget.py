"""How many rows of a pass fit into free memory.

The memory of a row is measured while the first image of a shape goes through, one member after the
other, and is remembered for later images of that shape. This holds for any network and costs no
pass of its own.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

SHARE = 0.5  # of the memory that is free, for one pass: others want some, and results take some
CPU_BYTES = 2 << 30  # on a CPU, where wide passes over large images save no time
SLACK = 1.25  # what convolutions take besides their outputs, over what was measured
GENEROUS = 16 << 10  # bytes for each pixel of a row, more than networks take: no need to measure
KEPT = 256  # shapes to remember for a network

_row_bytes: weakref.WeakKeyDictionary[nn.Module, dict[tuple[int, ...], int]]
_row_bytes = weakref.WeakKeyDictionary()


def available_bytes(device: torch.device) -> int:
    """Bytes that one pass may take on a device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(SHARE * (free + idle))
    return min(CPU_BYTES, int(SHARE * free_memory()))


def free_memory(root: Path = Path("/")) -> int:
    """Free bytes of main memory: of the machine, and of the control group of this process."""
    import psutil  # only here: importing sitta loads torch and NumPy alone

    machine: int = psutil.virtual_memory().available
    return max(0, min([machine, *_left_to_group(root)]))


def _left_to_group(root: Path) -> Iterator[int]:
    """What the groups of this process leave, in both versions of their layout."""
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = line.split(":", 2)
        if number == "0":
            top, names = "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top = "sys/fs/cgroup/memory"
            names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        else:
            continue
        parts = Path(path.lstrip("/")).parts
        for depth in range(len(parts), -1, -1):  # a container sees some of those above it
            yield from _left(root.joinpath(top, *parts[:depth]), *names)


def _left(folder: Path, limit: str, usage: str, cached: str) -> Iterator[int]:
    with suppress(ValueError, IndexError):  # "max", where there is no limit, is no number
        most, used = (int(_lines(folder / name)[0]) for name in (limit, usage))
        stat = dict(line.partition(" ")[::2] for line in _lines(folder / "memory.stat"))
        kept = stat.get(cached, "")  # files in memory, which the system would give up at once
        yield most - used + (int(kept) if kept.isdecimal() else 0)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def split(members: int, images: int, row: int, free: int) -> tuple[int, int]:
    """Members and images in one pass, so that it fits, in parts as equal as can be.

    Members are split first, then images; one row goes through in any case. ``row`` is the bytes of
    one member of one image, ``free`` those of a pass.
    """
    rows = max(1, free // max(1, row))
    if rows >= images:
        return _even(members, rows // images), images
    return 1, _even(images, rows)


def _even(count: int, most: int) -> int:
    passes = -(-count // min(count, most))
    return -(-count // passes)


def is_small(rows: int, shape: Sequence[int]) -> bool:
    """Whether so many rows of an image ``(C, *S)`` fit in any case, without measuring."""
    return rows * math.prod(shape[1:]) * GENEROUS <= CPU_BYTES


def row_bytes(network: nn.Module, image: Tensor) -> int | None:
    """Bytes of one row of a network for images ``(C, *S)``, if that was measured before."""
    return _row_bytes.get(network, {}).get(tuple(image.shape))


class PeakTracker(TorchDispatchMode):
    """Measures the most that a row ``(C, *S)`` takes while rows go through a network in turn."""

    def __init__(self, network: nn.Module, image: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._network, self._shape = network, tuple(image.shape)
        self._seen: set[int] = set()
        self._now = self._peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and count new memory."""
        out = func(*args, **(kwargs or {}))
        for value in out if isinstance(out, tuple | list) else (out,):
            if isinstance(value, Tensor):
                self._add(value.untyped_storage())
        return out

    def __exit__(self, *error: Any) -> None:
        """Remember the result, unless something went wrong."""
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        if error[0] is None:
            shapes = _row_bytes.setdefault(self._network, {})
            if len(shapes) >= KEPT:
                shapes.clear()
            shapes[self._shape] = int(SLACK * self._peak)

    def _add(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self._seen:
            self._seen.add(key)
            self._now += size
            self._peak = max(self._peak, self._now)
            weakref.finalize(storage, self._drop, key, size)

    def _drop(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self._now -= size
