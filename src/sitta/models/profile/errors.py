"""Mistakes in a profile: each names the file and the place, such as ``classes[1].threshold``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sitta.errors import InvalidSetting, SittaError

Place = tuple[str | int, ...]  # keys, and numbers of list elements


class ProfileError(InvalidSetting):
    """A profile that cannot be used."""

    def __init__(
        self, what: str, *place: str | int, file: Path | None = None, **details: str
    ) -> None:
        super().__init__(what, **details)
        self.place, self.file = place, file

    def __str__(self) -> str:
        where = [str(self.file or ""), dotted(self.place)]
        return ": ".join(filter(None, [", ".join(filter(None, where)), super().__str__()]))


def dotted(place: Place) -> str:
    """A place in words.

    Example:
        >>> dotted(("classes", 1, "threshold"))
        'classes[1].threshold'
    """
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return "".join(parts).removeprefix(".")


@contextmanager
def at(*place: str | int, file: Path | None = None) -> Iterator[None]:
    """Errors of settings that are raised inside become errors of the profile, at this place."""
    try:
        yield
    except SittaError as error:
        inner = getattr(error, "place", ())
        details = {name: getattr(error, name) for name in ("allowed", "got", "fix")}
        raise ProfileError(error.what, *place, *inner, file=file, **details) from error
