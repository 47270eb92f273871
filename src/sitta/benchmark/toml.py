"""TOML with the line of every mistake: what a value is, where it stands, what it may be."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from sitta.benchmark.places import Place, places
from sitta.errors import InvalidSetting, SittaError

T = TypeVar("T")
NEEDED: Any = object()


class PlanError(InvalidSetting):
    """A file that cannot be used as it is, with the line that says why."""


@dataclass(frozen=True)
class File:
    """The text of a TOML file, and where it came from."""

    path: Path
    text: str

    @classmethod
    def read(cls, path: str | Path) -> tuple[File, Section]:
        """A file and its outermost section.

        Raises:
            PlanError: It is not TOML.
        """
        try:
            file = cls(Path(path), Path(path).read_text(encoding="utf-8"))
            return file, Section(file, tomllib.loads(file.text), ())
        except UnicodeDecodeError as error:
            raise PlanError(f"{path} is not a text file ({error.reason}).") from error
        except tomllib.TOMLDecodeError as error:
            raise PlanError(f"{path} is not TOML: {error}.") from error

    def line(self, place: Place) -> int:
        """Where a value stands: its own line, or that of the nearest table or list around it."""
        known = places(self.text)
        while place and place not in known:
            place = place[:-1]
        return known.get(place, 1)


@dataclass
class Section:
    """One table of the file. Values are taken by name; what is left over is a mistake."""

    file: File
    values: dict[str, Any]
    place: Place
    taken: set[str] = field(default_factory=set)

    def take(self, key: str, kind: type[T], default: T = NEEDED) -> T:
        """A value of the given type."""
        self.taken.add(key)
        if key not in self.values:
            if default is NEEDED:
                self.fail((), f"{self.title} has no '{key}'.")
            return default
        value = self.values[key]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.fail((key,), f"'{key}' is not {WORDS[kind]}.", got=repr(value))
        return value

    def several(self, key: str, kind: type[T], default: Sequence[T] = NEEDED) -> tuple[T, ...]:
        """A list of values of one type, without repetition."""
        if key not in self.values and default is not NEEDED:
            self.taken.add(key)
            return tuple(default)
        items = self.take(key, list)
        found: list[T] = []
        for at, item in enumerate(items):
            value = float(item) if kind is float and type(item) is int else item
            if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                self.fail((key, at), f"'{key}' holds what is not {WORDS[kind]}.", got=repr(item))
            if value in found:
                self.fail((key, at), f"'{key}' holds {item!r} twice.")
            found.append(value)
        return tuple(found)

    def section(self, key: str) -> Section:
        """A table in this one; empty if it is not there."""
        return Section(self.file, self.take(key, dict, {}), (*self.place, key))

    def sections(self, key: str) -> list[Section]:
        """A list of tables in this one."""
        every = self.take(key, list, [])
        for at, values in enumerate(every):
            if not isinstance(values, dict):
                self.fail((key, at), f"'{key}' is not a list of tables.", allowed=f"[[{key}]]")
        return [Section(self.file, v, (*self.place, key, at)) for at, v in enumerate(every)]

    def rest(self) -> dict[str, Any]:
        """All that was not taken yet."""
        left = {k: v for k, v in self.values.items() if k not in self.taken}
        self.taken |= left.keys()
        return left

    def end(self) -> None:
        """Refuse what nobody asked for."""
        for key in self.values:
            if key not in self.taken:
                known = ", ".join(sorted(self.taken))
                self.fail((key,), f"{self.title} has no setting '{key}'.", allowed=known)

    def check(self, key: Place, make: Callable[[], T]) -> T:
        """What ``make`` gives; its complaint carries the line of a value."""
        try:
            return make()
        except PlanError:
            raise
        except SittaError as error:
            self.fail(key, error.what, allowed=error.allowed, got=error.got, fix=error.fix)

    @property
    def title(self) -> str:
        """What the table is called in the file."""
        names = ".".join(str(part) for part in self.place if isinstance(part, str))
        return f"[{names}]" if names else "The plan"

    def fail(
        self, key: Place, what: str, *, allowed: str = "", got: str = "", fix: str = ""
    ) -> NoReturn:
        """Complain about a value, or about one element of a list: ``(key, its number)``."""
        line = self.file.line((*self.place, *key))
        raise PlanError(f"{self.file.path}, line {line}: {what}", allowed=allowed, got=got, fix=fix)


WORDS: dict[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}
