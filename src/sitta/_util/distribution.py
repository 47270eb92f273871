"""What is installed: Sitta's own requirements and extras, and which of them are here."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib import metadata
from itertools import takewhile

from sitta._version import DISTRIBUTION
from sitta.errors import clone

EXTRAS = {  # those of pyproject.toml for users, and what each is for
    "bench": "comparisons of methods",
    "dicom-seg": "masks as DICOM SEG",
    "nnunet": "trained nnU-Nets",
    "onnx": "ONNX graphs",
    "ray": "Ray clusters",
    "serve": "web page, REST service",
}


@dataclass(frozen=True)
class Requirement:
    """A package that Sitta needs, and the version that is installed."""

    name: str
    least: str  # oldest version allowed; empty if any is
    installed: str | None

    @property
    def problem(self) -> str:
        """Why it does not do, or an empty text."""
        if self.installed is None:
            return f"{self.name} is not installed"
        if _numbers(self.installed) < _numbers(self.least):
            return f"{self.name} {self.installed} is older than {self.least}"
        return ""


def requirements(extra: str = "") -> list[Requirement]:
    """What Sitta itself or one of its extras needs."""
    return [
        Requirement(name, _least(text), _installed(name))
        for text in _declared(extra)
        for name in re.findall(r"^[\w.-]+", text)
    ]


def is_installed(name: str) -> bool:
    """Whether there is a distribution of that name."""
    return _installed(name) is not None


def _declared(extra: str) -> list[str]:
    """From the clone, where it is newer than what was installed, or from the package."""
    if (root := clone()) is not None:
        project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
        requirements: list[str] = project["optional-dependencies"].get(
            extra, project["dependencies"]
        )
        return requirements
    try:
        listed = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # copied somewhere, and never installed
        return []
    wanted = rf"extra == ['\"]{extra}['\"]" if extra else "^(?!.*extra ==)"
    return [text for text in listed if re.search(wanted, text)]


def _least(text: str) -> str:
    least = re.search(r">=\s*([\d.]+)", text)
    return least[1] if least else ""


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """``2.13.0+cpu`` as (2, 13, 0)."""
    parts = takewhile(str.isdecimal, re.split(r"[.+]", version))
    return tuple(map(int, parts))
