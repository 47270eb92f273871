"""The chain of pages of a TIFF file, followed once before a decoder does, which may never end."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Literal

from sitta.errors import InvalidImage

MOST_PAGES = 2**16
BIG = 43  # the number of BigTIFF, whose offsets have eight bytes
Order = Literal["little", "big"]


def check_pages(path: Path) -> None:
    """Refuse a chain of pages that runs in a circle, or is longer than any stack of slices."""
    with open(path, "rb") as file:
        head = file.read(4)
        order: Order = "little" if head[:2] == b"II" else "big"
        big = int.from_bytes(head[2:], order) == BIG
        offset = _number(file, 8 if big else 4, order, at=8 if big else 4)
        seen: set[int] = set()
        while offset:
            if offset in seen or len(seen) == MOST_PAGES:
                raise InvalidImage(
                    f"{path} is damaged: its pages run in a circle, or number over {MOST_PAGES:,}."
                )
            seen.add(offset)
            tags = _number(file, 8 if big else 2, order, at=offset)
            after = offset + (8 + 20 * tags if big else 2 + 12 * tags)
            offset = _number(file, 8 if big else 4, order, at=after)


def _number(file: BinaryIO, size: int, order: Order, at: int) -> int:
    file.seek(at)
    content = file.read(size)
    if len(content) < size:
        raise EOFError
    return int.from_bytes(content, order)
