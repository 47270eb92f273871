"""Mistakes in a plan: each names its place, such as ``tasks.chest.domains[1]``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic_core import ErrorDetails

from sitta._util.untrusted import shown
from sitta.errors import InvalidSetting, SittaError

Location = tuple[str | int, ...]

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
MISTAKES = {  # by pydantic's names of them
    "string_type": "is not text",
    "int_type": "is not a whole number",
    "float_type": "is not a number",
    "bool_type": "is not true or false",
    "tuple_type": "is not a list",
    "dict_type": "is not a table",
    "model_type": "is not a table",
    "greater_than_equal": "is below {ge}",
    "less_than_equal": "is above {le}",
    "too_long": "has {actual_length} entries, more than {max_length}",
    "greater_than": "is not above 0",
    "finite_number": "is not above 0",
}


class PlanError(InvalidSetting):
    """A plan that cannot be run; the location is of keys and numbers of list elements."""

    def __init__(
        self, what: str, *location: str | int, file: Path | None = None, **details: str
    ) -> None:
        super().__init__(what, **details)
        self.location, self.file = location, file

    def __str__(self) -> str:
        where = [str(self.file or ""), _dotted(self.location)]
        return ": ".join(filter(None, [", ".join(filter(None, where)), super().__str__()]))


def _dotted(location: Location) -> str:
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if BARE_KEY.fullmatch(part) else f'."{part}"'
    return text.removeprefix(".")


@contextmanager
def at(*location: str | int, file: Path | None = None) -> Iterator[None]:
    """Errors that are raised inside become errors of the plan, at this location."""
    try:
        yield
    except (SittaError, OSError) as error:
        raise placed(error, location, file) from error


def placed(error: Exception, location: Location, file: Path | None = None) -> PlanError:
    """The same error, at a location outside of its own."""
    allowed, got, fix = (getattr(error, name, "") for name in ("allowed", "got", "fix"))
    what, inner = getattr(error, "what", str(error)), getattr(error, "location", ())
    return PlanError(what, *location, *inner, file=file, allowed=allowed, got=got, fix=fix)


def in_words(error: ErrorDetails) -> PlanError:
    """An error of pydantic, in the words of ours."""
    location, kind, got = error["loc"], error["type"], shown(error["input"])
    context = error.get("ctx", {})
    if isinstance(cause := context.get("error"), SittaError):
        return placed(cause, location)
    *outer, last = location
    key = last if isinstance(last, str) else outer[-1]
    if kind == "missing":
        title = ".".join(part for part in outer if isinstance(part, str))
        return PlanError(f"{f'[{title}]' if title else 'The plan'} has no '{key}'.", *outer)
    if kind == "model_type" and isinstance(last, int):
        what = f"'{key}' is not a list of tables."
        return PlanError(what, *location, allowed=f"[[{key}]]", got=got)
    mistake = MISTAKES.get(kind, "is wrong: {msg}").format(msg=error["msg"], **context)
    holds = "" if isinstance(last, str) else "holds what "
    return PlanError(f"'{key}' {holds}{mistake}.", *location, got=got)
