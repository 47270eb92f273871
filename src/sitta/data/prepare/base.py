"""The description of a data set: its images, its labels, and how labels become masks."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sitta.data.image import Array
from sitta.data.images import Image, read
from sitta.errors import InvalidImage

Masks = dict[str, Array]  # by the folder they go to


@dataclass(frozen=True)
class Part:
    """Files of one kind, recognised by their owners' names."""

    what: str  # such as "left lung mask"
    example: str  # the end of such a file's path, as the owners have it
    # A regular expression for that end, in any case. Its group ``key`` says which files belong
    # together, its group ``name`` what the pair is called, if that is not the key.
    pattern: str

    def match(self, path: str) -> re.Match[str] | None:
        """The groups of a path below the source; None for other files."""
        return re.search(rf"(?:^|/){self.pattern}$", path, re.IGNORECASE)


@dataclass(frozen=True)
class Report:
    """The result of preparing a distribution."""

    task: str
    domain: str
    written: list[str]  # names of pairs
    left_out: list[tuple[str, str]]  # names of pairs, each with the reason
    notes: list[str] = field(default_factory=list)  # such as which of several labels was taken


def foreground(path: Path, shape: tuple[int, ...], scale: int = 1) -> Array:
    """All pixels of a label that are not black, colours included.

    Each pixel of the label covers ``scale`` pixels of its image along each side. Refuses a label
    of another size than its image, or of more than two values: it was smoothed.
    """
    pixels = read(path).pixels
    values = np.unique(pixels)
    if len(values) > 2 or (len(values) == 2 and values[0] != 0):
        raise InvalidImage(
            f"{path} is no label: it holds {len(values)} values from {values[0]} to {values[-1]}.",
            allowed="0 and one other value",
            fix="take the owners' file, which was never scaled nor saved as JPEG",
        )
    label = (pixels != 0).any(axis=0).repeat(scale, axis=0).repeat(scale, axis=1)
    check_size(path, label.shape, shape, scale)
    return np.asarray(label)


def check_size(
    path: Path, shape: tuple[int, ...], expected: tuple[int, ...], scale: int = 1
) -> None:
    """Refuse a label that does not cover its image."""
    if shape != expected:
        raise InvalidImage(
            f"{path} has another size than its image asks for.",
            allowed=" x ".join(str(n // scale) for n in expected),
            got=" x ".join(str(n // scale) for n in shape),
        )


def union(image: Image, labels: Sequence[Path], scale: int = 1) -> Masks:
    """One mask of everything that any of the labels shows."""
    drawn = [foreground(path, image.geometry.shape, scale) for path in labels]
    return {"masks": np.logical_or.reduce(drawn)}


def copy(image: Image, path: Path) -> None:
    """The owners' file, byte for byte."""
    shutil.copyfile(image.path, path)


@dataclass(frozen=True)
class Preparer:
    """A data set: its files, and what is done to them."""

    title: str  # what its owners call it
    image: Part
    # Of several kinds of labels, the first that is present serves for all images; the parts of a
    # kind go into one mask.
    labels: tuple[tuple[Part, ...], ...]
    fewest: int = 0  # parts of a kind that an image must have; 0 for all
    load: Callable[[Path], Image] = read
    masks: Callable[[Image, Sequence[Path]], Masks] = union
    store: Callable[[Image, Path], None] = copy
    ending: str = ""  # of the image that is written; empty for the owners'

    def enough(self, kind: tuple[Part, ...], count: int) -> bool:
        """Whether that many parts of a kind of label make a mask."""
        return count >= (self.fewest or len(kind))
