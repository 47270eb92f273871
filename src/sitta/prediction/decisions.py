"""Decisions: what a person says of a mask, and the file that keeps it. Needs no torch.

The fields of ``Decision`` are the columns of ``decisions.csv``: page, report and command line
follow from them.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sitta._util.files import atomic_write
from sitta._util.text import cell, printable, uncell
from sitta.errors import InvalidSetting

FILE = "decisions.csv"
DECISIONS = {"accept": "Accept", "needs-fix": "Needs fix", "reject": "Reject"}
ADAPTED, UNADAPTED, CORRECTED, MEMBER = "adapted", "unadapted", "corrected", "member@"
MOST_TEXT = 500  # characters of a remark, and of a name
MOST_SHOWN = 100  # characters of a wrong value, in the message
NAMED = ("split",)  # members that are called otherwise than by their lambda
NAMES = f"{ADAPTED}, {UNADAPTED}, {CORRECTED}, or {MEMBER} and the name of a member"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a reviewer says of one image, or of one slice of a volume."""

    file: str
    slice: int | None = None  # counted from 0, as in summary.csv; None for the whole file
    decision: str = ""  # of DECISIONS; empty if it is still open
    mask: str = ADAPTED  # which mask was chosen
    threshold: float | None = None  # probability that counts as foreground; None if as usual
    remark: str = ""
    reviewer: str = ""
    time: str = ""  # ISO 8601, UTC
    mask_sha256: str = ""  # of the file of the chosen mask

    def __post_init__(self) -> None:
        allowed = not self.decision or self.decision in DECISIONS
        _require("decision", self.decision, allowed, ", ".join(DECISIONS))
        _require("mask", self.mask, _is_mask(self.mask), NAMES)
        share = self.threshold
        _require("threshold", share, share is None or 0 < share < 1, "between 0 and 1")
        _require("slice", self.slice, self.slice is None or self.slice >= 0, "0 or more")
        for name in ("file", "remark", "reviewer"):
            text = getattr(self, name)
            short = name == "file" or len(text) <= MOST_TEXT
            _require(name, f"{len(text)} characters", short, f"at most {MOST_TEXT} characters")
            object.__setattr__(self, name, printable(text))

    @property
    def is_open(self) -> bool:
        """Whether nothing is decided yet."""
        return not self.decision


COLUMNS = tuple(field.name for field in fields(Decision))


def now() -> str:
    """The time of a decision."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def member_name(name: str) -> str:
    """What the mask of a member is called."""
    return f"{MEMBER}{name}"


def to_csv(decisions: Iterable[Decision]) -> str:
    """The text of ``decisions.csv``; no cell of it is a formula to a spreadsheet.

    Example:
        >>> print(to_csv([Decision(file="=a.png", decision="accept")]).splitlines()[1])
        '=a.png,,accept,adapted,,,,,
    """
    stream = io.StringIO(newline="")
    table = csv.writer(stream)
    table.writerow(COLUMNS)
    for decision in decisions:
        values = asdict(decision).values()
        table.writerow("" if value is None else cell(value) for value in values)
    return stream.getvalue()


def from_csv(text: str) -> list[Decision]:
    """The decisions in the text of ``decisions.csv``, also after a spreadsheet has saved it.

    Raises:
        InvalidSetting: A column is missing, or a value is none that ``Decision`` takes.
    """
    table = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    missing = [name for name in COLUMNS if name not in (table.fieldnames or ())]
    if missing:
        raise InvalidSetting(
            f"{FILE} has no column {', '.join(missing)}.",
            allowed=", ".join(COLUMNS),
            fix="save it with commas between its columns and with its first line",
        )
    try:
        return [Decision(**_values(row)) for row in table]
    except csv.Error as error:  # such as a cell of more than 128 kB
        raise InvalidSetting(f"{FILE} is damaged ({error}).") from error


def read(path: Path) -> list[Decision]:
    """The decisions of a file; none if there is no file."""
    if not path.exists():
        return []
    if not path.is_file():  # a pipe would never end
        raise InvalidSetting(f"{path} is no file.")
    try:
        return from_csv(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidSetting(f"{path.name} is no text ({error.reason}).") from error


def write(path: Path, decisions: Iterable[Decision]) -> None:
    """Write a file, whole or not at all, in place of an older one."""
    content = to_csv(decisions).encode("utf-8", "replace")
    with atomic_write(path, len(content)) as draft:
        draft.write_bytes(content)


def _values(row: dict[str, Any]) -> dict[str, Any]:
    values = {name: uncell(row[name] or "") for name in COLUMNS}
    try:
        number = int(values["slice"]) if values["slice"] else None
        threshold = float(values["threshold"]) if values["threshold"] else None
    except ValueError as error:
        what = f"{FILE} has a cell that is no number ({printable(str(error)[:MOST_SHOWN])})."
        raise InvalidSetting(what) from error
    return {**values, "slice": number, "threshold": threshold}


def _is_mask(name: str) -> bool:
    if not name.startswith(MEMBER):
        return name in (ADAPTED, UNADAPTED, CORRECTED)
    member = name.removeprefix(MEMBER)
    try:
        return member in NAMED or math.isfinite(float(member))
    except ValueError:
        return False


def _require(name: str, value: object, holds: bool, allowed: str) -> None:
    if not holds:
        got = printable(str(value)[:MOST_SHOWN])
        raise InvalidSetting(f"The {name} of a decision is none.", allowed=allowed, got=got)
