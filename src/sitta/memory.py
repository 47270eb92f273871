"""How many rows of a pass fit into the memory that is there.

What a row takes is measured while the first image of a shape goes through anyway, one member after
the other, and is remembered for the images of that shape that follow. So it is right for any
network, in 2D and 3D, with attention or without, and costs no pass of its own.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

SHARE = 0.5  # of the memory that is free, for one pass: others want some, and results take some
MOST = 2 << 30  # on a CPU, where wide passes over large images save no time
SLACK = 1.25  # what convolutions take besides their outputs, over what was measured
GENEROUS = 16 << 10  # bytes for each pixel of a row, more than networks take: no need to measure
KEPT = 256  # shapes to remember for a network
LESSON = (32 << 20) - (8 << 10)  # bytes: just below the largest block that glibc learns from
TRIM_THRESHOLD, MMAP_MAX = -1, -4  # parameters of mallopt, from glibc's malloc.h

_known: weakref.WeakKeyDictionary[nn.Module, dict[tuple[int, ...], int]]
_known = weakref.WeakKeyDictionary()


@functools.cache
def keep_freed() -> None:
    """Let the C library keep some of what is freed for the next pass, which else waits for pages.

    glibc gives memory back to the system above twice the largest block that was ever freed, if that
    was no larger than 32 MB. To free such a block once, which nobody has written to and which so
    never took any memory, raises what it keeps to 64 MB. Elsewhere this does nothing.
    """
    torch.empty(LESSON, dtype=torch.uint8, device="cpu")


def keep_all_freed() -> None:
    """Let the C library keep all that is freed, for a process that does nothing but our work.

    Gradients of large images hold blocks above what ``keep_freed`` can teach it: without this,
    nearly half of the time of MEMO on 256x256 pixels goes into fresh pages. The process so never
    gets smaller than it once was. Does nothing where there is no glibc.
    """
    with suppress(AttributeError, OSError, TypeError):
        tune = ctypes.CDLL(None).mallopt
        tune(MMAP_MAX, 0)
        tune(TRIM_THRESHOLD, 2**31 - 1)


def room(device: torch.device) -> int:
    """Bytes that one pass may take on a device.

    Example:
        >>> room(torch.device("cpu")) <= MOST
        True
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(SHARE * (free + idle))
    return min(MOST, int(SHARE * available()))


def available(root: Path = Path("/")) -> int:
    """Bytes of main memory that can be had: of the machine, and of the group it is shared in.

    Args:
        root: Where the system's own files are.

    Example:
        >>> available() > 0
        True
    """
    found = [free for free in (_machine(root), *_groups(root)) if free is not None]
    return max(0, min(found)) if found else 2 * MOST


def _machine(root: Path) -> int | None:
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:  # not Linux: what there is at all
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return None


def _groups(root: Path) -> Iterable[int | None]:
    """What the control group of this process leaves, in both versions of their layout."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    top = root / "sys/fs/cgroup"
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            yield from _left(top, path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
            yield from _left(top / "memory", path, *names)


def _left(top: Path, path: str, limit: str, usage: str, cached: str) -> Iterable[int | None]:
    """Of a group and of those above it, as far as they can be seen from inside a container."""
    parts = Path(path.lstrip("/")).parts
    for depth in range(len(parts), -1, -1):
        folder = top.joinpath(*parts[:depth])
        most, used = _number(folder / limit), _number(folder / usage)
        if most is not None and used is not None:
            yield most - used + _cached(folder / "memory.stat", cached)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())  # "max", where there is no limit, is no number
    except (OSError, ValueError):
        return None


def _cached(path: Path, name: str) -> int:
    """Bytes of files in memory that the system would give up at once."""
    try:
        rows = (line.split() for line in path.read_text().splitlines())
        return next((int(row[1]) for row in rows if row[0] == name), 0)
    except (OSError, ValueError, IndexError):
        return 0


def parts(members: int, images: int, row: int, room: int) -> tuple[int, int]:
    """Members and images in one pass, so that it fits, in parts as equal as can be.

    Members are split first, then images; one row goes through in any case.

    Args:
        members: How many there are.
        images: How many there are.
        row: Bytes of one member of one image.
        room: Bytes of a pass.

    Example:
        >>> parts(6, 1, row=100, room=10_000), parts(6, 1, row=100, room=400)
        ((6, 1), (3, 1))
        >>> parts(6, 8, row=100, room=2_000), parts(6, 8, row=100, room=450)
        ((2, 8), (1, 4))
    """
    rows = max(1, room // max(1, row))
    if rows >= images:
        return _even(members, rows // images), images
    return 1, _even(images, rows)


def _even(count: int, most: int) -> int:
    passes = -(-count // min(count, most))
    return -(-count // passes)


def is_small(rows: int, shape: Sequence[int]) -> bool:
    """Whether so many rows of an image ``(C, *S)`` fit in any case, so that nobody need ask.

    Example:
        >>> is_small(6, (1, 128, 128)), is_small(6, (1, 512, 512))
        (True, False)
    """
    return rows * math.prod(shape[1:]) * GENEROUS <= MOST


def known(network: nn.Module, image: Tensor) -> int | None:
    """Bytes of one row of a network for images ``(C, *S)``, if that was measured before."""
    return _known.get(network, {}).get(tuple(image.shape))


class Measured(TorchDispatchMode):
    """While one row after the other goes through a network, notes the most that one takes.

    Args:
        network: What goes through.
        image: Of one row, ``(C, *S)``.

    Example:
        >>> net, image = nn.Conv2d(1, 4, 1), torch.zeros(1, 8, 8)
        >>> rows = image[None]
        >>> with Measured(net, image), torch.no_grad():
        ...     _ = net(rows)
        >>> known(net, image) == int(SLACK * 4 * 4 * 8 * 8)
        True
    """

    def __init__(self, network: nn.Module, image: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._network, self._shape = network, tuple(image.shape)
        self._seen: set[int] = set()
        self._now = self._peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run it, and count what is new."""
        out = func(*args, **(kwargs or {}))
        for value in out if isinstance(out, tuple | list) else (out,):
            if isinstance(value, Tensor):
                self._add(value.untyped_storage())
        return out

    def __exit__(self, *error: Any) -> None:
        """Remember the result, unless something went wrong."""
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        if error[0] is None:
            shapes = _known.setdefault(self._network, {})
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
