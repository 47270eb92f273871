"""Data on disk: ``ROOT/<task>/<domain>/{images,masks}``, a mask of the same name for each image."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sitta.data.detect import stem
from sitta.errors import InvalidImage, InvalidSetting

Track = Callable[[Iterable[Any], int], Iterable[Any]]  # wraps a loop of so many to show progress
SUBJECTS = "subjects.csv"  # optional, in a domain's folder: name,subject
# Names that tell whose image it is: BIDS's sub-..., SCGM's site1-sc01, and left and right eyes.
NAMED_SUBJECT = (
    re.compile(r"(sub-[A-Za-z0-9]+?)(?=Ses|_|-|$)"),
    re.compile(r"(site\d-sc\d+)"),
    re.compile(r"^(Image_\d+)[LR]$"),
)


@dataclass(frozen=True)
class Pair:
    """An image and its mask."""

    name: str  # of both files, without the ending
    subject: str  # pairs of one subject stay together in a split
    image: Path  # a file, or the folder of a DICOM series
    mask: Path


@dataclass(frozen=True)
class Domain:
    """One site or data set of a task."""

    task: str  # such as "chest"
    name: str  # such as "mcu"
    folder: Path  # which holds images/ and the masks
    masks: str = "masks"  # the folder of its masks, beside images/

    def __str__(self) -> str:
        return f"{self.task}/{self.name}"

    def pairs(self) -> list[Pair]:
        """Every image with its mask, by name; refuses empty folders and files without a partner."""
        images, masks = self.files()
        alone = sorted(images.keys() ^ masks.keys())
        if not images or not masks:
            empty = self.folder / ("images" if not images else self.masks)
            raise InvalidImage(f"{empty} holds no files.", fix=f"see: {LAYOUT}")
        if alone:
            sides = [f"{n} (no {'mask' if n in images else 'image'})" for n in alone[:3]]
            raise InvalidImage(
                f"{len(alone)} files of {self} have no partner: {', '.join(sides)}"
                f"{', ...' if len(alone) > 3 else ''}.",
                fix=f"give both the same name in images/ and {self.masks}/, or remove them",
            )
        subjects = self.subjects()
        return [
            Pair(n, subjects.get(n, subject_of(n)), images[n], masks[n]) for n in sorted(images)
        ]

    def files(self) -> tuple[dict[str, Path], dict[str, Path]]:
        """Images and masks by name; refuses two of one name."""
        return listed(self.folder / "images"), listed(self.folder / self.masks)

    def subjects(self) -> dict[str, str]:
        """The subject of each image that is listed in ``subjects.csv``."""
        path = self.folder / SUBJECTS
        if not path.is_file():
            return {}
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        if not rows or not {"name", "subject"} <= rows[0].keys():
            raise InvalidImage(f"{path} has no columns 'name' and 'subject'.")
        return {row["name"]: row["subject"] for row in rows}


LAYOUT = "ROOT/<task>/<domain>/images and masks, with the same name for an image and its mask"


def subject_of(name: str) -> str:
    """The subject in the name of an image; the name itself if there is none."""
    matches = (match for rule in NAMED_SUBJECT if (match := rule.search(name)))
    return next((str(match.group(1)) for match in matches), name)


def find_domains(root: str | Path, masks: str = "masks", task: str | None = None) -> list[Domain]:
    """Every domain below a root, or those of one task; refuses a root without any."""
    root = Path(root)
    if not root.is_dir():
        raise InvalidSetting(f"There is no folder {root}.", allowed=LAYOUT)
    domains = [
        Domain(above.name, place.name, place, masks)
        for above in _visible(root)
        for place in _visible(above)
        if (place / "images").is_dir() and task in (None, above.name)
    ]
    if not domains:
        of_task = f" of task {task}" if task else ""
        raise InvalidSetting(f"{root} holds no domain{of_task}.", allowed=LAYOUT)
    return domains


def find_domain(root: str | Path, task: str, name: str, masks: str = "masks") -> Domain:
    """One domain by its task and name; the error for a missing one names those that exist."""
    domains = find_domains(root, masks)
    for domain in domains:
        if (domain.task, domain.name) == (task, name):
            return domain
    raise InvalidSetting(
        f"There is no domain {task}/{name} in {root}.", allowed=", ".join(map(str, domains))
    )


def _visible(folder: Path) -> list[Path]:
    """What a folder holds, by name, without hidden files."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return sorted(p for p in paths if not p.name.startswith("."))


def listed(folder: Path) -> dict[str, Path]:
    """The files of a folder by name, without hidden ones; refuses two of one name."""
    files: dict[str, Path] = {}
    for path in _visible(folder):
        name = stem(path)
        if name in files:
            raise InvalidImage(
                f"{folder} holds two files of the name {name}: {files[name].name}, {path.name}.",
                fix="keep one of them",
            )
        files[name] = path
    return files
