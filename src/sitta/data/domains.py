"""Data on disk: ``ROOT/<task>/<domain>/{images,masks}``, a mask of the same name for each image."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sitta.data.sniff import stem
from sitta.errors import InvalidImage, InvalidSetting

SUBJECTS = "subjects.csv"  # optional, in a domain's folder: name,subject
# Names that tell whose image it is: BIDS's sub-..., SCGM's site1-sc01, and left and right eyes.
NAMED_SUBJECT = (
    re.compile(r"(sub-[A-Za-z0-9]+?)(?=Ses|_|-|$)"),
    re.compile(r"(site\d-sc\d+)"),
    re.compile(r"^(Image_\d+)[LR]$"),
)


@dataclass(frozen=True)
class Pair:
    """An image and its mask.

    Attributes:
        name: What both files are called, without the ending.
        subject: Whose they are: pairs of one subject stay together in a split.
        image: The file, or the folder of a DICOM series.
        mask: Its mask.
    """

    name: str
    subject: str
    image: Path
    mask: Path


@dataclass(frozen=True)
class Domain:
    """One site or data set of a task.

    Attributes:
        task: Such as ``chest``.
        name: Such as ``mcu``.
        folder: Where its images are.
        masks: The folder of its masks, beside ``images``.
    """

    task: str
    name: str
    folder: Path
    masks: str = "masks"

    def __str__(self) -> str:
        return f"{self.task}/{self.name}"

    def pairs(self) -> list[Pair]:
        """Every image with its mask, by name.

        Raises:
            InvalidImage: There is no image, or some have no mask.
        """
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
        known = self.subjects()
        return [Pair(n, known.get(n, subject_of(n)), images[n], masks[n]) for n in sorted(images)]

    def files(self) -> tuple[dict[str, Path], dict[str, Path]]:
        """Images and masks by name; refuses two of one name."""
        return _listed(self.folder / "images"), _listed(self.folder / self.masks)

    def subjects(self) -> dict[str, str]:
        """Whose image each is, where the domain says so in ``subjects.csv``."""
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
    """Whose image this is, by its name; the name itself if it does not tell.

    Example:
        >>> subject_of("Image_03L"), subject_of("Milan_sub-9709Ses2_run-1"), subject_of("01_dr")
        ('Image_03', 'sub-9709', '01_dr')
    """
    found = (match for rule in NAMED_SUBJECT if (match := rule.search(name)))
    return next((str(match.group(1)) for match in found), name)


def find_domains(root: str | Path, masks: str = "masks", task: str | None = None) -> list[Domain]:
    """Every domain below a root, or those of one task.

    Raises:
        InvalidSetting: There is none.
    """
    root = Path(root)
    if not root.is_dir():
        raise InvalidSetting(f"There is no folder {root}.", allowed=LAYOUT)
    found = [
        Domain(above.name, place.name, place, masks)
        for above in _folders(root)
        for place in _folders(above)
        if (place / "images").is_dir() and task in (None, above.name)
    ]
    if not found:
        of_task = f" of task {task}" if task else ""
        raise InvalidSetting(f"{root} holds no domain{of_task}.", allowed=LAYOUT)
    return found


def find_domain(root: str | Path, task: str, name: str, masks: str = "masks") -> Domain:
    """One domain by its task and name.

    Raises:
        InvalidSetting: It is not there; the message names those that are.
    """
    domains = find_domains(root, masks)
    for domain in domains:
        if (domain.task, domain.name) == (task, name):
            return domain
    raise InvalidSetting(
        f"There is no domain {task}/{name} in {root}.", allowed=", ".join(map(str, domains))
    )


def _folders(root: Path) -> Iterator[Path]:
    return (p for p in sorted(root.iterdir()) if p.is_dir() and not p.name.startswith("."))


def _listed(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        return {}
    found: dict[str, Path] = {}
    for path in sorted(p for p in folder.iterdir() if not p.name.startswith(".")):
        name = stem(path)
        if name in found:
            raise InvalidImage(
                f"{folder} holds two files of the name {name}: {found[name].name}, {path.name}.",
                fix="keep one of them",
            )
        found[name] = path
    return found
