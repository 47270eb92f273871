"""Errors for names that do not exist, with a suggestion for a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import PurePath

from sitta._util.untrusted import shown
from sitta.errors import InvalidSetting


def did_you_mean(name: object, allowed: Iterable[str]) -> str:
    """A question to append to an error, or nothing if no allowed name is similar."""
    text = str(name) if isinstance(name, str | PurePath) else ""  # of others, it may not end
    matches = get_close_matches(text[:100].lower(), list(allowed), n=1)
    return f" Did you mean {matches[0]!r}?" if matches else ""


def unknown_name(kind: str, name: object, allowed: Iterable[str]) -> InvalidSetting:
    """The error for a name, such as that of a ``method``, that is none of those allowed."""
    names = list(allowed)
    what = f"There is no such {kind}.{did_you_mean(name, names)}"
    return InvalidSetting(what, allowed=", ".join(names), got=shown(name))
