"""Prepare a data set: find its files, make the masks, write what is whole."""

from __future__ import annotations

import filecmp
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from sitta.data.images import Image, suffix, write_mask
from sitta.data.prepare import chest, retina, spinal
from sitta.data.prepare.base import Masks, Preparer, Report
from sitta.data.prepare.search import Case, find
from sitta.errors import InvalidImage, InvalidSetting, SittaError
from sitta.storage import finished

PREPARERS: dict[str, Preparer] = {
    str(preparer): preparer for preparer in (*chest.SETS, *retina.SETS, *spinal.SETS)
}
FOLDERS = ("images", "masks", "masks_cord")
Progress = Callable[[Iterable[Case], int], Iterable[Case]]


def prepare(
    domain: str,
    source: str | Path,
    target: str | Path,
    *,
    progress: Progress | None = None,
    overwrite: bool = False,
) -> Report:
    """Bring a data set, as its owners give it, into ``target/<task>/<domain>/{images,masks}``.

    A file that is broken, or has no partner, is left out with its reason; the rest is written.
    Images are copied byte for byte, except for JSRT's, which no reader knows.

    Args:
        domain: Such as ``chest/mcu`` or ``mcu``.
        source: Where it was unpacked; files may lie at any depth below.
        target: The root of the project's data.
        progress: Wraps the loop over the images, with their number, to show how far it is.
        overwrite: Whether to replace what was prepared before.

    Raises:
        SittaError: There is no such domain, the source does not hold it, or the target is taken.
        OSError: The target cannot be written.
    """
    preparer = _preparer(domain)
    source, home = Path(source), Path(target) / preparer.task / preparer.domain
    if source.resolve().is_relative_to(home.resolve()):
        raise InvalidSetting(f"{source} is where the result goes.", fix="give another target")
    kind, cases = find(preparer, source, home)
    _make_room(home, overwrite)
    notes = [f"labels: {', '.join(p.what for p in kind)}"] if len(preparer.labels) > 1 else []
    report = Report(preparer.task, preparer.domain, [], [], notes)
    for case in progress(cases, len(cases)) if progress else cases:
        try:
            image, masks = _ready(preparer, case)
        except (SittaError, OSError) as error:
            report.left_out.append((case.name, str(error)))
            continue
        _write(preparer, home, case.name, image, masks)
        report.written.append(case.name)
        if absent := [part.what for part, paths in case.labels.items() if not paths]:
            report.notes.append(f"{case.name}: without {', '.join(absent)}")
    return report


def _preparer(domain: str) -> Preparer:
    wanted = domain.lower().strip("/")
    for place, preparer in PREPARERS.items():
        if wanted in (place, preparer.domain):
            return preparer
    raise InvalidSetting(
        f"There is no data set {domain!r} to prepare.", allowed=", ".join(PREPARERS)
    )


def _make_room(home: Path, overwrite: bool) -> None:
    taken = [home / name for name in FOLDERS if (home / name).exists()]
    if any(any(folder.iterdir()) for folder in taken) and not overwrite:
        raise InvalidSetting(
            f"{home} is not empty.", fix="give another target, or overwrite what is there"
        )
    for folder in taken:
        shutil.rmtree(folder)


def _ready(preparer: Preparer, case: Case) -> tuple[Image, Masks]:
    """An image and its masks in memory, so that nothing is written of a broken pair."""
    if not case.image:
        raise InvalidImage("There is a label, but no image.")
    there = {part: paths for part, paths in case.labels.items() if paths}
    if not preparer.enough(tuple(case.labels), len(there)):
        absent = " and no ".join(part.what for part in case.labels if part not in there)
        raise InvalidImage(f"There is no {absent}.")
    image = preparer.load(_only(case.image))
    return image, preparer.masks(image, [_only(paths) for paths in there.values()])


def _only(paths: list[Path]) -> Path:
    """The one file, also if copies of it are there."""
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
    with finished(home / "images" / f"{name}{preparer.ending or suffix(image.path)}") as draft:
        preparer.store(image, draft)
