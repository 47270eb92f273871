"""The zoo: trained models by name, each with a card and a checksum. Needs no torch."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sitta.errors import InvalidSetting, SittaError, UnsupportedModel
from sitta.models.card import read_card

SHIPPED = Path(__file__).with_name("weights")  # package data
VARIABLE = "SITTA_ZOO"
SUMS, SUFFIX = "SHA256SUMS", ".safetensors"
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")  # no path, and no draft of an unfinished write
SUM = re.compile(rf"([0-9a-f]{{64}}) [ *]({NAME.pattern})", re.ASCII)
POINTER = b"version https://git-lfs"  # first bytes of a file that Git LFS has not fetched


@dataclass(frozen=True)
class Entry:
    """A model of the zoo."""

    name: str  # such as "chest-mcu"
    path: Path  # of its checkpoint
    task: str  # such as "chest"; empty if its file cannot be read
    source: str  # the domain it was trained on, such as "chest/mcu"
    images: int | None  # number of training images, if its card has it
    dice: float | None  # on held-out images of its source, if its card has it
    size: int  # of the file, in bytes
    sha256: str  # as recorded beside it; empty if it is not
    shipped: bool  # whether it is part of the package
    problem: str = ""  # why its file cannot be read

    @property
    def page(self) -> Path:
        """Its model card; not every model has one."""
        return self.path.with_suffix(".md")


def folders() -> list[Path]:
    """Folders of models in order of lookup: ``SITTA_ZOO`` if set, then the package's own."""
    own = os.environ.get(VARIABLE)
    if own and not Path(own).is_dir():
        raise InvalidSetting(f"{VARIABLE} names no folder.", got=own, fix="correct it, or unset it")
    return [Path(own), SHIPPED] if own else [SHIPPED]


def entries() -> list[Entry]:
    """Every model of the zoo, folder by folder, by name; the first of two with one name."""
    return [_entry(name, *place) for name, place in _places().items()]


def lookup(name: str) -> Entry | None:
    """The model of that name, or None; a path is no name."""
    if not NAME.fullmatch(name) or name.endswith(SUFFIX):
        return None
    place = _places().get(name)
    return _entry(name, *place) if place else None


def _places() -> dict[str, tuple[Path, str]]:
    """The folder of each model and its recorded checksum, by name."""
    places: dict[str, tuple[Path, str]] = {}
    for folder in folders():
        sums = recorded(folder)
        files = {path.stem for path in folder.glob(f"*{SUFFIX}") if NAME.fullmatch(path.stem)}
        for name in sorted((files | sums.keys()) - places.keys()):
            places[name] = folder, sums.get(name, "")
    return places


def verify(entry: Entry) -> None:
    """Refuse a file that is missing, damaged or changed, or has no recorded checksum."""
    if entry.problem:
        raise SittaError(entry.problem)
    if not entry.sha256:
        raise SittaError(
            f"{entry.path} is not in {SUMS} beside it, so its contents cannot be checked.",
            fix=f"give its path instead of its name, or record it: sha256sum *{SUFFIX} > {SUMS}",
        )
    if (actual := digest(entry.path)) != entry.sha256:
        raise SittaError(
            f"{entry.path} is damaged or was changed: its SHA-256 is not the one in {SUMS}.",
            allowed=entry.sha256,
            got=actual,
            fix=_restore(entry.path),
        )


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def recorded(folder: Path) -> dict[str, str]:
    """SHA-256 of each model of a folder by name, from its ``SHA256SUMS``."""
    path, sums = folder / SUMS, {}
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        parts = SUM.fullmatch(line.strip())
        if parts is None and line.strip():
            raise SittaError(
                f"Line {number} of {path} is no checksum of a file beside it.",
                allowed="lines as sha256sum writes them",
                got=repr(line),
                fix=_restore(path),
            )
        if parts is not None and parts[2].endswith(SUFFIX):
            sums[parts[2].removesuffix(SUFFIX)] = parts[1]
    return sums


def card(path: str | Path) -> dict[str, Any]:
    """The metadata of a checkpoint, without its weights."""
    metadata = _metadata(Path(path))
    if "sitta" not in metadata:
        raise UnsupportedModel(
            f"{path} does not say which network its weights belong to.",
            fix="build the network yourself, load the weights into it, and pass it to sitta.InTEnt",
        )
    return read_card(metadata["sitta"], path)


def _metadata(path: Path) -> Mapping[str, str]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise SittaError(f"{path} is not there.", fix=_restore(path))
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
            fix=_restore(path),
        ) from error


def _restore(path: Path) -> str:
    if path.parent == SHIPPED:
        return "install Sitta again; in a clone: git checkout src/sitta/models/weights"
    return "copy the file here again"


def _entry(name: str, folder: Path, sha256: str) -> Entry:
    path = folder / f"{name}{SUFFIX}"
    try:
        about, problem = card(path), ""
    except SittaError as error:
        about, problem = {}, str(error)
    source = str(about.get("source", ""))
    task, _, domain = source.partition("/")
    dice = _number(about, "training", "validation_dice")
    return Entry(
        name=name,
        path=path,
        task=str(about.get("task", task)),
        source=source,
        images=_number(about, "images", "train"),
        dice=_number(about, "dice", domain) if dice is None else dice,
        size=path.stat().st_size if path.is_file() else 0,
        sha256=sha256,
        shipped=folder == SHIPPED,
        problem=problem,
    )


def _number(about: dict[str, Any], table: str, name: str) -> Any:
    """A number of a card; None for anything else, since a card may come from anyone."""
    values = about.get(table)
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, int | float) else None
