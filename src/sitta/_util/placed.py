"""Mistakes in a file of settings: each names its place, such as ``tasks.chest.domains[1]``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Self

from sitta.errors import InvalidSetting, SittaError

Location = tuple[str | int, ...]  # keys, and numbers of list elements
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class PlacedError(InvalidSetting):
    """A mistake at a location of a file."""

    moved: ClassVar[tuple[type[Exception], ...]] = (SittaError,)  # errors that get a location

    def __init__(
        self, what: str, *location: str | int, file: Path | None = None, **details: str
    ) -> None:
        super().__init__(what, **details)
        self.location, self.file = location, file

    def __str__(self) -> str:
        where = [str(self.file or ""), dotted(self.location)]
        return ": ".join(filter(None, [", ".join(filter(None, where)), super().__str__()]))

    @classmethod
    def of(cls, error: Exception, location: Location, file: Path | None = None) -> Self:
        """The same error, at a location outside of its own."""
        details = {name: getattr(error, name, "") for name in ("allowed", "got", "fix")}
        what, inner = getattr(error, "what", str(error)), getattr(error, "location", ())
        return cls(what, *location, *inner, file=file, **details)

    @classmethod
    @contextmanager
    def at(cls, *location: str | int, file: Path | None = None) -> Iterator[None]:
        """Errors that are raised inside get this location."""
        try:
            yield
        except cls.moved as error:
            raise cls.of(error, location, file) from error


def dotted(location: Location) -> str:
    """A location in words.

    Example:
        >>> dotted(("classes", 1, "left lung"))
        'classes[1]."left lung"'
    """
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if BARE_KEY.fullmatch(part) else f'."{part}"'
    return text.removeprefix(".")
