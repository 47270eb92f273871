"""The zoo: trained models by name, each with a card, and their checksums beside them.

Nothing here needs torch, so that a listing answers at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sitta.errors import InvalidSetting, SittaError, UnsupportedModel

SHIPPED = Path(__file__).parents[1] / "assets"
CLONE = Path(__file__).parents[3]  # if this file is src/sitta/models/zoo.py of a clone
VARIABLE = "SITTA_ZOO"
SUMS, SUFFIX = "SHA256SUMS", ".safetensors"
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")  # no path, and no draft that is still being written
SUM = re.compile(rf"([0-9a-f]{{64}}) [ *]({NAME.pattern})", re.ASCII)
POINTER = b"version https://git-lfs"  # how a file begins that Git LFS has yet to fetch
AGAIN = "get the file again; one of the zoo, in its clone: git checkout zoo"


@dataclass(frozen=True)
class Entry:
    """A model that goes by a name.

    Attributes:
        name: Such as ``chest-mcu``.
        path: Its checkpoint.
        task: Such as ``chest``; empty if its file cannot be read.
        source: The domain it was trained on, such as ``chest/mcu``.
        images: How many it was trained on, if its card says so.
        dice: What it reached on held-out images of its source, if its card says so.
        size: Of the file, in bytes.
        sha256: As recorded beside it; empty if it is not.
        shipped: Whether it is part of the package.
        problem: Why its file cannot be read; empty if it can.
    """

    name: str
    path: Path
    task: str
    source: str
    images: int | None
    dice: float | None
    size: int
    sha256: str
    shipped: bool
    problem: str = ""

    @property
    def page(self) -> Path:
        """Its card for people; models that ship have none."""
        return self.path.with_suffix(".md")


def folders() -> list[Path]:
    """Where models of the zoo are: ``SITTA_ZOO`` if set, then ``zoo`` of the clone in use.

    Raises:
        InvalidSetting: ``SITTA_ZOO`` names no folder.
    """
    found = []
    if given := os.environ.get(VARIABLE):
        if not Path(given).is_dir():
            raise InvalidSetting(
                f"{VARIABLE} names no folder.", got=given, fix="correct it, or unset it"
            )
        found.append(Path(given))
    if (CLONE / "zoo" / SUMS).is_file():
        found.append(CLONE / "zoo")
    return found


def entries() -> list[Entry]:
    """Every model that goes by a name: those that ship, then folder by folder, by name.

    Of two models with one name the first counts, as in ``sitta.load``.

    Example:
        >>> entries()[0].name, entries()[0].source
        ('phantom-alder', 'phantom/alder')
    """
    found: dict[str, Entry] = {}
    for folder, sums in _places():
        files = {path.stem for path in folder.glob(f"*{SUFFIX}") if NAME.fullmatch(path.stem)}
        for name in sorted(files | set(sums)):
            if name not in found:
                found[name] = _entry(name, folder, sums)
    return list(found.values())


def lookup(name: str) -> Entry | None:
    """The model of that name, or None; a path is no name."""
    if not NAME.fullmatch(name) or name.endswith(SUFFIX):
        return None
    for folder, sums in _places():
        if name in sums or (folder / f"{name}{SUFFIX}").is_file():
            return _entry(name, folder, sums)
    return None


def verify(entry: Entry) -> None:
    """Compare a file with its checksum; of models that ship, which have none, see if it reads.

    Raises:
        SittaError: It is missing, cut short, damaged, changed, or nobody recorded a checksum.
    """
    if entry.problem:
        raise SittaError(entry.problem)
    if entry.shipped:
        return
    if not entry.sha256:
        raise SittaError(
            f"{entry.path} is not in {SUMS} beside it, so that nothing tells whether it is whole.",
            fix=f"give its path instead of its name, or record it: sha256sum *{SUFFIX} > {SUMS}",
        )
    if (found := digest(entry.path)) != entry.sha256:
        raise SittaError(
            f"{entry.path} is damaged or was changed: its SHA-256 is not the one in {SUMS}.",
            allowed=entry.sha256,
            got=found,
            fix=AGAIN,
        )


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def recorded(folder: Path) -> dict[str, str]:
    """SHA-256 of each model of a folder by name, as its ``SHA256SUMS`` says.

    Raises:
        SittaError: A line is not what ``sha256sum`` writes about a file of this folder.
    """
    path, found = folder / SUMS, {}
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        parts = SUM.fullmatch(line.strip())
        if parts is None and line.strip():
            raise SittaError(
                f"Line {number} of {path} is no checksum of a file beside it.",
                fix="restore it, in its clone: git checkout zoo",
            )
        if parts is not None and parts[2].endswith(SUFFIX):
            found[parts[2].removesuffix(SUFFIX)] = parts[1]
    return found


def card(path: str | Path) -> dict[str, Any]:
    """What a checkpoint says about itself.

    Example:
        >>> card(SHIPPED / "phantom-alder.safetensors")["source"]
        'phantom/alder'
    """
    metadata = _metadata(Path(path))
    if "sitta" not in metadata:
        raise UnsupportedModel(
            f"{path} does not say which network its weights belong to.",
            fix="build the network yourself, load the weights into it, and pass it to sitta.InTEnt",
        )
    try:
        found = json.loads(metadata["sitta"])
    except json.JSONDecodeError as error:
        raise UnsupportedModel(f"The card in {path} cannot be read ({error}).") from error
    if not isinstance(found, dict):
        raise UnsupportedModel(f"The card in {path} is not a table of names and values.")
    return found


def _metadata(path: Path) -> Mapping[str, str]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise SittaError(f"{path} is not there.", fix=AGAIN)
    try:
        with open(path, "rb") as start:
            if start.read(len(POINTER)) == POINTER:
                raise SittaError(
                    f"{path} is a pointer of Git LFS, not the model itself.", fix="git lfs pull"
                )
        with safe_open(path, framework="numpy") as file:
            return file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise SittaError(
            f"{path} is not a readable safetensors file: cut short, damaged, or never one "
            f"({error}).",
            fix=AGAIN,
        ) from error


def _places() -> Iterator[tuple[Path, dict[str, str]]]:
    """Folders in order with their checksums, one by one: a shipped model needs no zoo."""
    yield SHIPPED, {}
    for folder in folders():
        yield folder, recorded(folder)


def _entry(name: str, folder: Path, sums: Mapping[str, str]) -> Entry:
    path = folder / f"{name}{SUFFIX}"
    try:
        about, problem = card(path), ""
    except SittaError as error:
        about, problem = {}, str(error)
    source = str(about.get("source", ""))
    task, _, domain = source.partition("/")
    reached = _table(about, "training").get("validation_dice", _table(about, "dice").get(domain))
    return Entry(
        name=name,
        path=path,
        task=str(about.get("task", task)),
        source=source,
        images=_number(_table(about, "images").get("train")),
        dice=_number(reached),
        size=path.stat().st_size if path.is_file() else 0,
        sha256=sums.get(name, ""),
        shipped=folder == SHIPPED,
        problem=problem,
    )


def _table(about: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = about.get(name)
    return found if isinstance(found, dict) else {}


def _number(value: Any) -> Any:
    """A card may come from anyone: what is not a number is not known."""
    return value if isinstance(value, int | float) else None
