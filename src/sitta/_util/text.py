"""Text of others, such as the name of a file, where a terminal or a spreadsheet would obey it."""

from __future__ import annotations

import re
import unicodedata

# A cell that starts so is a formula to a spreadsheet; the wide forms count in East Asian ones.
FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
OPENING = re.compile(r"^['\s]+")
# Where lists are written with semicolons, a spreadsheet begins a cell after each.
AFTER_SEMICOLON = re.compile(rf";(?=['\s\"]*[{re.escape(''.join(FORMULA))}])")
WITH_APOSTROPHE = re.compile(rf";'(?=['\s\"]*[{re.escape(''.join(FORMULA))}])")


def printable(text: str, keep: str = "") -> str:
    r"""A text whose control characters are written as escapes, but those to ``keep``.

    That is all that moves a cursor, colours, or turns the direction of reading around.

    Example:
        >>> printable("a\x1b[31m.png")
        'a\\x1b[31m.png'
    """
    if text.isprintable():
        return text
    return "".join(c if c in keep else _shown(c) for c in text)


def cell(value: object) -> object:
    """A value for a CSV file that people open: a text that reads as a formula gets an apostrophe.

    Numbers stay as they are.

    Example:
        >>> cell("=1+1.png"), cell("a;=1"), cell(-0.5)
        ("'=1+1.png", "a;'=1", -0.5)
    """
    if not isinstance(value, str):
        return value
    text = AFTER_SEMICOLON.sub(";'", printable(value))
    return f"'{text}" if _is_formula(text) else text


def uncell(text: str) -> str:
    """What ``cell`` wrote, as it was.

    Example:
        >>> uncell("'=1+1.png"), uncell("'=1".join("ab")), uncell("'tis")
        ('=1+1.png', "a'=1b", "'tis")
    """
    text = WITH_APOSTROPHE.sub(";", text)
    return text[1:] if text.startswith("'") and _is_formula(text) else text


def _is_formula(text: str) -> bool:
    """Apostrophes before it count too: so ``cell`` can be undone."""
    return OPENING.sub("", text).startswith(FORMULA)


def _shown(character: str) -> str:
    if character.isprintable() or unicodedata.category(character) == "Zs":  # spaces of any width
        return character
    return character.encode("unicode_escape").decode("ascii")
