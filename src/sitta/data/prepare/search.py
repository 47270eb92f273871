"""Find a data set's files below a folder, however its archives were unpacked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sitta.data.prepare.base import Part, Preparer
from sitta.errors import InvalidImage, InvalidSetting, SittaError

ARCHIVES = (".zip", ".rar", ".7z", ".tar", ".tar.gz", ".tgz")


@dataclass(frozen=True)
class Same:
    """Files of one part and key: more than one if copies are there."""

    name: str
    paths: list[Path]


Files = dict[str, Same]  # by key


@dataclass(frozen=True)
class Case:
    """An image and its labels, each with its paths: none, one, or those of copies."""

    name: str
    image: list[Path]
    labels: dict[Part, list[Path]]


def find(preparer: Preparer, source: Path, skip: Path) -> tuple[tuple[Part, ...], list[Case]]:
    """The kind of label to take, and every image and label by name.

    Args:
        preparer: The data set.
        source: Where it was unpacked.
        skip: A folder whose files do not count.

    Raises:
        SittaError: The folder is not there, is empty, or does not hold this data set.
    """
    paths = _listed(source, skip)
    parts = dict.fromkeys([preparer.image, *(p for kind in preparer.labels for p in kind)])
    found = {part: _of(part, source, paths) for part in parts}
    there = (k for k in preparer.labels if preparer.enough(k, sum(bool(found[p]) for p in k)))
    kind = next(there, None)
    if kind is None or not found[preparer.image]:
        raise _refusal(preparer, source, paths, found)
    keys = sorted({key for part in (preparer.image, *kind) for key in found[part]})
    return kind, [_case(preparer.image, kind, found, key) for key in keys]


def _case(image: Part, kind: tuple[Part, ...], found: dict[Part, Files], key: str) -> Case:
    there = {part: found[part][key] for part in (image, *kind) if key in found[part]}
    paths = {part: there[part].paths if part in there else [] for part in (image, *kind)}
    return Case(next(iter(there.values())).name, paths.pop(image), paths)


def _listed(source: Path, skip: Path) -> list[Path]:
    if not source.is_dir():
        is_file = source.exists()
        raise InvalidSetting(
            f"{source} is a file, not a folder." if is_file else f"There is no folder {source}.",
            allowed="the folder into which the data set was unpacked",
            fix="unpack it, and give the folder" if is_file else "check the path",
        )
    skip = skip.resolve()
    found = (p for p in source.rglob("*") if p.is_file() and _counts(p.relative_to(source)))
    paths = sorted(p for p in found if not p.resolve().is_relative_to(skip))
    if not paths:
        raise InvalidImage(f"{source} holds no files.", fix="unpack the data set into it")
    return paths


def _counts(path: Path) -> bool:
    return not any(part.startswith(".") or part == "__MACOSX" for part in path.parts)


def _below(source: Path, path: Path) -> str:
    return path.relative_to(source).as_posix()


def _of(part: Part, source: Path, paths: Iterable[Path]) -> Files:
    found: Files = {}
    for path in paths:
        names = part.names(_below(source, path))
        if names:
            key, name = names
            found.setdefault(key, Same(name, [])).paths.append(path)
    return found


def _refusal(
    preparer: Preparer, source: Path, paths: list[Path], found: dict[Part, Files]
) -> SittaError:
    """What was looked for, and what is there."""
    taken = {path for files in found.values() for same in files.values() for path in same.paths}
    others = [path for path in paths if path not in taken]
    packed = [path.name for path in others if path.name.lower().endswith(ARCHIVES)]
    counts = [f"{len(files)} of {part.what}" for part, files in found.items()]
    if others:
        some = ", ".join(_below(source, path) for path in others[:3])
        counts.append(f"{len(others)} other files ({some}{', ...' if len(others) > 3 else ''})")
    return InvalidImage(
        f"{source} does not hold the images and labels of {preparer.title}.",
        allowed="; ".join(f"{part.what}: .../{part.example}" for part in found),
        got=", ".join(counts),
        fix=f"unpack {', '.join(packed[:3])} first"
        if packed
        else "give the folder into which all of it was unpacked, with its owners' file names",
    )
