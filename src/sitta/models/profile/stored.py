"""A calibration in a file beside a profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from sitta._util.untrusted import CARD, read_json
from sitta.models.profile.errors import ProfileError


class Stored(Mapping[str, Any]):
    """A calibration in a file, which is read when it is first used."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _values(self) -> Mapping[str, Any]:
        name = self.path.name
        try:
            if self.path.stat().st_size > CARD:
                raise ProfileError("The calibration is too long.", file=self.path)
            values = read_json(self.path.read_text(encoding="utf-8"), f"The calibration {name}")
        except (OSError, UnicodeDecodeError) as error:
            raise ProfileError(
                f"The calibration cannot be read ({error}).", file=self.path
            ) from error
        if not isinstance(values, dict):
            raise ProfileError("The calibration is not a table.", file=self.path)
        return values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Stored({str(self.path)!r})"


def read_stored(name: Any, folder: Path | None) -> Stored | None:
    """The calibration that a profile names; None if it names none."""
    if name is None:
        return None
    path = (folder or Path()) / name
    if Path(name).name != name or not path.is_file():
        raise ProfileError(
            f"The calibration {name} is not beside the profile.",
            "calibration",
            fix="copy it there, or leave the entry out and run sitta calibrate again",
        )
    return Stored(path)
