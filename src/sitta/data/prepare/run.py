"""Prepare a data set: find its files, make the masks, write what is whole."""

from __future__ import annotations

import filecmp
import shutil
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from sitta._util.files import atomic_write
from sitta.data.domains import Track
from sitta.data.images import Image, suffix, write_mask
from sitta.data.prepare.base import Masks, Part, Preparer, Report
from sitta.data.prepare.sets import PREPARERS
from sitta.errors import InvalidImage, InvalidSetting, SittaError

FOLDERS = ("images", "masks", "masks_cord")
ARCHIVES = (".zip", ".rar", ".7z", ".tar", ".tar.gz", ".tgz")
Files = dict[str, list[Path]]  # by key; several paths are copies of one file


@dataclass(frozen=True)
class Case:
    """An image and its labels, each with its paths: none, one, or those of copies."""

    name: str
    image: list[Path]
    labels: dict[Part, list[Path]]


def prepare(
    domain: str,
    source: str | Path,
    target: str | Path,
    *,
    progress: Track | None = None,
    overwrite: bool = False,
) -> Report:
    """Bring a data set, as distributed, into ``target/<task>/<domain>/{images,masks}``.

    A file that is broken, or has no partner, is left out with its reason; the rest is written.
    Images are copied byte for byte, except JSRT's, whose format no reader supports. Refuses an
    unknown domain, a source that does not hold it, and a target that is not empty.

    Args:
        domain: Such as ``chest/mcu`` or ``mcu``.
        source: Where it was unpacked; files may lie at any depth below.
        target: The root of the project's data.
        progress: Wraps the loop over the images, with their number, to show how far it is.
        overwrite: Whether to replace what was prepared before.
    """
    place = _place(domain)
    preparer, source, home = PREPARERS[place], Path(source), Path(target) / place
    if source.resolve().is_relative_to(home.resolve()):
        raise InvalidSetting(f"{source} is where the result goes.", fix="give another target")
    kind, cases = _find(preparer, source, home)
    _require_room(home, overwrite)
    notes = [f"labels: {', '.join(p.what for p in kind)}"] if len(preparer.labels) > 1 else []
    report = Report(home.parent.name, home.name, [], [], notes)
    for case in progress(cases, len(cases)) if progress else cases:
        try:
            image, masks = _loaded(preparer, case)
        except (SittaError, OSError) as error:
            report.left_out.append((case.name, str(error)))
            continue
        if not report.written:  # with nothing to put in its place, what was there stays
            _remove(home)
        _write(preparer, home, case.name, image, masks)
        report.written.append(case.name)
        if absent := [part.what for part, paths in case.labels.items() if not paths]:
            report.notes.append(f"{case.name}: without {', '.join(absent)}")
    return report


def _place(domain: str) -> str:
    """The task and domain of a data set that may be called by its domain alone."""
    wanted = domain.lower().strip("/")
    for place in PREPARERS:
        if wanted in (place, place.split("/")[1]):
            return place
    raise InvalidSetting(
        f"There is no data set {domain!r} to prepare.", allowed=", ".join(PREPARERS)
    )


def _find(preparer: Preparer, source: Path, skip: Path) -> tuple[tuple[Part, ...], list[Case]]:
    """The kind of label to take, and every image and label by name.

    Files below ``skip`` do not count. Refuses a folder that is missing or empty, or does not hold
    this data set.
    """
    paths = _listed(source, skip)
    image = preparer.image
    parts = (image, *(part for kind in preparer.labels for part in kind))
    files: dict[Part, Files] = {part: {} for part in parts}
    names: dict[str, str] = {}
    for part, path in product(files, paths):
        if match := part.match(path.relative_to(source).as_posix()):
            key = match["key"].lower()
            files[part].setdefault(key, []).append(path)
            names.setdefault(key, match.groupdict().get("name") or match["key"])
    for kind in preparer.labels:
        if files[image] and preparer.enough(kind, sum(bool(files[part]) for part in kind)):
            break
    else:
        raise _wrong_contents(preparer, source, paths, files)
    return kind, [
        Case(names[key], files[image].get(key, []), {p: files[p].get(key, []) for p in kind})
        for key in sorted({key for part in (image, *kind) for key in files[part]})
    ]


def _listed(source: Path, skip: Path) -> list[Path]:
    if not source.is_dir():
        is_file = source.exists()
        raise InvalidSetting(
            f"{source} is a file, not a folder." if is_file else f"There is no folder {source}.",
            allowed="the folder into which the data set was unpacked",
            fix="unpack it, and give the folder" if is_file else "check the path",
        )
    skip = skip.resolve()
    paths = sorted(
        path
        for path in source.rglob("*")
        if path.is_file()
        and not any(part[0] == "." or part == "__MACOSX" for part in path.relative_to(source).parts)
        and not path.resolve().is_relative_to(skip)
    )
    if not paths:
        raise InvalidImage(f"{source} holds no files.", fix="unpack the data set into it")
    return paths


def _wrong_contents(
    preparer: Preparer, source: Path, paths: list[Path], files: dict[Part, Files]
) -> SittaError:
    """An error that says what was looked for, and what is there."""
    taken = {path for by_key in files.values() for copies in by_key.values() for path in copies}
    others = [path for path in paths if path not in taken]
    packed = [path.name for path in others if path.name.lower().endswith(ARCHIVES)]
    counts = [f"{len(by_key)} of {part.what}" for part, by_key in files.items()]
    if others:
        shown = ", ".join(path.relative_to(source).as_posix() for path in others[:3])
        counts.append(f"{len(others)} other files ({shown}{', ...' if len(others) > 3 else ''})")
    return InvalidImage(
        f"{source} does not hold the images and labels of {preparer.title}.",
        allowed="; ".join(f"{part.what}: .../{part.example}" for part in files),
        got=", ".join(counts),
        fix=f"unpack {', '.join(packed[:3])} first"
        if packed
        else "give the folder into which all of it was unpacked, with its owners' file names",
    )


def _require_room(home: Path, overwrite: bool) -> None:
    if not overwrite and any(any(folder.iterdir()) for folder in _folders(home)):
        raise InvalidSetting(
            f"{home} is not empty.", fix="give another target, or overwrite what is there"
        )


def _remove(home: Path) -> None:
    for folder in _folders(home):
        shutil.rmtree(folder)


def _folders(home: Path) -> list[Path]:
    return [home / name for name in FOLDERS if (home / name).exists()]


def _loaded(preparer: Preparer, case: Case) -> tuple[Image, Masks]:
    """An image and its masks in memory, so that nothing is written of a broken pair."""
    if not case.image:
        raise InvalidImage("There is a label, but no image.")
    present = [paths for paths in case.labels.values() if paths]
    if not preparer.enough(tuple(case.labels), len(present)):
        absent = " and no ".join(part.what for part, paths in case.labels.items() if not paths)
        raise InvalidImage(f"There is no {absent}.")
    image = preparer.load(_only(case.image))
    return image, preparer.masks(image, [_only(paths) for paths in present])


def _only(paths: list[Path]) -> Path:
    """The first of equal copies of a file; refuses copies that differ."""
    first, *others = paths
    for other in others:
        if not filecmp.cmp(first, other, shallow=False):
            raise InvalidImage(
                f"There are two different files: {first} and {other}.", fix="keep one of them"
            )
    return first


def _write(preparer: Preparer, home: Path, name: str, image: Image, masks: Masks) -> None:
    """The image last: there is never one without its masks."""
    ending = ".nii.gz" if image.kind == "NIfTI" else ".png"
    for folder, mask in masks.items():
        write_mask(mask, home / folder / f"{name}{ending}", like=image)
    with atomic_write(home / "images" / f"{name}{preparer.ending or suffix(image.path)}") as draft:
        preparer.store(image, draft)
