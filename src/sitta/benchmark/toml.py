"""TOML with the line of every mistake: what a value is, where it stands, what it may be."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from sitta.errors import InvalidSetting, SittaError

T = TypeVar("T")
Place = tuple[str | int, ...]  # such as ("methods", 1, "settings", "views")
HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]#]+?)\s*\]\]?\s*(?:#.*)?$")
KEY = re.compile(r"^\s*([\w.\-\"']+)\s*=")
PART = re.compile(r"""\"([^\"]*)\"|'([^']*)'|([^.\s"']+)""")  # a dot within quotes is no end
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
        """Where a value stands: its own line, or that of the nearest table around it."""
        best, depth = 1, 0
        for number, where in enumerate(_places(self.text), 1):
            shared = len(where) if place[: len(where)] == where else 0
            if shared > depth:
                best, depth = number, shared
        return best

    def line_of(self, place: Place, value: Any) -> int:
        """Where one element of a list stands, if the list goes over several lines."""
        start = self.line(place)
        text = f'"{value}"' if isinstance(value, str) else str(value)
        for number, line in enumerate(self.text.splitlines()[start - 1 :], start):
            if text in line or text.replace('"', "'") in line:
                return number
            if number > start and (KEY.match(line) or HEADER.match(line)):
                break
        return start


def _places(text: str) -> list[Place]:
    """For each line, the value or table that begins there; an empty place for other lines."""
    table: Place = ()
    seen: dict[Place, int] = {}
    found: list[Place] = []
    for line in text.splitlines():
        header, key = HEADER.match(line), KEY.match(line)
        if header:
            table = _names(header[2])
            if header[1] == "[[":
                seen[table] = seen.get(table, -1) + 1
            table = _numbered(table, seen)
            found.append(table)
        else:
            found.append((*table, *_names(key[1])) if key else ())
    return found


def _names(text: str) -> tuple[str, ...]:
    return tuple("".join(found) for found in PART.findall(text))


def _numbered(table: Place, seen: dict[Place, int]) -> Place:
    """With the number of each list of tables that it is in."""
    place: Place = ()
    for end in range(1, len(table) + 1):
        place += (table[end - 1],)
        if table[:end] in seen:
            place += (seen[table[:end]],)
    return place


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
        for item in items:
            value = float(item) if kind is float and type(item) is int else item
            if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                self.fail((key,), f"'{key}' holds what is not {WORDS[kind]}.", got=repr(item))
            if value in found:
                self.fail((key,), f"'{key}' holds {item!r} twice.", element=item)
            found.append(value)
        return tuple(found)

    def section(self, key: str) -> Section:
        """A table in this one; empty if it is not there."""
        return Section(self.file, self.take(key, dict, {}), (*self.place, key))

    def sections(self, key: str) -> list[Section]:
        """A list of tables in this one."""
        every = self.take(key, list, [])
        if not all(isinstance(values, dict) for values in every):
            self.fail((key,), f"'{key}' is not a list of tables.", allowed=f"[[{key}]]")
        return [Section(self.file, v, (*self.place, key, n)) for n, v in enumerate(every)]

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
            self.fail(key, error.what, allowed=error.allowed, got=error.got)

    @property
    def title(self) -> str:
        """What the table is called in the file."""
        names = ".".join(str(part) for part in self.place if isinstance(part, str))
        return f"[{names}]" if names else "The plan"

    def fail(
        self, key: Place, what: str, *, allowed: str = "", got: str = "", element: Any = None
    ) -> NoReturn:
        """Complain about a value, or about one element of a list."""
        place = (*self.place, *key)
        file = self.file
        line = file.line(place) if element is None else file.line_of(place, element)
        raise PlanError(f"{file.path}, line {line}: {what}", allowed=allowed, got=got)


WORDS: dict[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}
