"""A profile as TOML, which Python reads and does not write."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from sitta.errors import InvalidSetting

BARE = re.compile(r"[A-Za-z0-9_-]+")


def text(tables: Mapping[str, Any]) -> str:
    """The tables of ``Profile.as_dict`` as a file.

    Example:
        >>> print(text({"profile": 1, "model": {"checkpoint": "chest-mcu"}}), end="")
        profile = 1
        <BLANKLINE>
        [model]
        checkpoint = "chest-mcu"
    """
    top = {k: v for k, v in tables.items() if not _is_table(v)}
    blocks = [lines(top)]
    for name, value in tables.items():
        if isinstance(value, Mapping):
            blocks.append([f"[{key(name)}]", *lines(value)])
        elif _is_table(value):
            blocks += [[f"[[{key(name)}]]", *lines(one)] for one in value]
    return "\n".join("\n".join([*block, ""]) for block in blocks)


def lines(table: Mapping[str, Any]) -> list[str]:
    """One line for each entry; tables in tables are written inline."""
    return [f"{key(name)} = {value(v)}" for name, v in table.items()]


def key(name: str) -> str:
    """A key, in quotes if it needs them."""
    return name if BARE.fullmatch(name) else _string(name)


def value(given: Any) -> str:
    """A value of JSON's types in TOML; it has no null."""
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, int | float):
        return repr(given)
    if isinstance(given, str):
        return _string(given)
    if given is None:
        raise InvalidSetting("TOML has no null.", fix="leave the entry out")
    if isinstance(given, Mapping):
        inner = ", ".join(lines(given))
        return f"{{ {inner} }}" if inner else "{}"
    return f"[{', '.join(map(value, given))}]"


def _string(given: str) -> str:
    return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")


def _is_table(given: Any) -> bool:
    """Whether it is a table, or a list of tables."""
    several = isinstance(given, list) and bool(given)
    return isinstance(given, Mapping) or (several and all(isinstance(x, Mapping) for x in given))
