"""Values from strangers, bounded in length, depth and digits before anything is done with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from reprlib import Repr
from typing import Any

from sitta.errors import InvalidSetting

DEPTH = 16  # of lists and tables in each other; Python's own functions end at about 1,000
DIGITS = 20  # of a whole number: any of 64 bits has fewer, with its sign
SETTINGS = 10_000  # characters of all settings of a request
CARD = 1 << 20  # characters of what a file says about itself
RECORD = 1 << 28  # bytes of what a run or a session keeps about a file, with its pictures
TOO_DEEP = object()


class _Short(Repr):
    """``repr`` of anything, short: never a thousand digits, lists in lists or megabytes."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 3, 100, 100

    def repr_int(self, x: int, level: int) -> str:
        """Python refuses to write out more than 4,300 digits."""
        return repr(x) if abs(x) < 10**DIGITS else f"a number of {x.bit_length()} bits"


_SHORT = _Short()


def shown(value: object) -> str:
    """What was given, for an error message: of any value, on one short line.

    Example:
        >>> shown([[[[[1]]]]]), shown(10**5000)
        ('[[[[...]]]]', 'a number of 16610 bits')
    """
    return _SHORT.repr(value)


def read_text(path: Path, longest: int = RECORD) -> str:
    """The text of a file of others: of no pipe or device, which may have no end."""
    if not path.is_file():
        raise InvalidSetting(f"{path} is no file.")
    with open(path, "rb") as file:
        content = file.read(longest + 1)
    if len(content) > longest:
        raise InvalidSetting(f"{path} is too long.", allowed=f"{longest:,} bytes")
    return content.decode("utf-8")


def read_json(text: str, what: str, *, longest: int = CARD, nan: bool = True) -> Any:
    """The value of a JSON text, called ``what`` in an InvalidSetting; ``nan``: Python's NaN too.

    Example:
        >>> read_json('{"step": 0.2}', "The settings")
        {'step': 0.2}
        >>> read_json("[" * 900 + "]" * 900, "The settings")
        Traceback (most recent call last):
        sitta.errors.InvalidSetting: The settings cannot be read: too many lists in each other. \
Allowed: 16 levels.
    """

    def refused(why: str, **more: str) -> InvalidSetting:
        return InvalidSetting(f"{what} cannot be read: {why}.", **more)

    def whole(digits: str) -> int:
        if len(digits) > DIGITS:
            got = f"{len(digits):,} digits"
            raise refused("a whole number is too long", allowed=f"{DIGITS} digits", got=got)
        return int(digits)

    def constant(name: str) -> float:
        if not nan:
            raise refused(f"{name} is no JSON", allowed="finite numbers")
        return float(name)

    if len(text) > longest:
        allowed, got = f"{longest:,} characters", f"{len(text):,}"
        raise refused("the text is too long", allowed=allowed, got=got)
    try:
        value = json.loads(text, parse_int=whole, parse_constant=constant)
    except json.JSONDecodeError as error:
        raise refused(f"this is no JSON ({error})", got=shown(text)) from error
    except RecursionError:
        value = TOO_DEEP
    if value is TOO_DEEP or _depth(value) > DEPTH:
        raise refused("too many lists in each other", allowed=f"{DEPTH} levels")
    return value


def _depth(value: Any) -> int:
    """Levels of lists and tables, without recursion."""
    level, depth = [value], 0
    while level := [v for v in level if isinstance(v, Mapping | list)]:
        level = [
            v for held in level for v in (held.values() if isinstance(held, Mapping) else held)
        ]
        depth += 1
    return depth
