"""How a data set is described: which files play which part, and how they become a mask."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sitta.data.images import Image, read
from sitta.data.picture import Array
from sitta.errors import InvalidImage

Masks = dict[str, Array]  # by the folder they go to


@dataclass(frozen=True)
class Part:
    """Files of one kind, known by their owners' names.

    Attributes:
        what: Such as ``left lung mask``.
        example: The end of such a file's path, as the owners have it.
        pattern: A regular expression of that end, in any case. Its group ``key`` tells which files
            belong together, its group ``name`` what the pair is called, if that is not the key.

    Example:
        >>> photograph = Part("image", "images/01_h.jpg", "images/(?P<key>[0-9]+_h)[.]jpg")
        >>> photograph.names("HRF/images/01_H.JPG"), photograph.names("HRF/mask/01_h_mask.tif")
        (('01_h', '01_H'), None)
    """

    what: str
    example: str
    pattern: str

    def names(self, path: str) -> tuple[str, str] | None:
        """The key in small letters, and the name as the file spells it; None for other files."""
        found = re.search(rf"(?:^|/){self.pattern}$", path, re.IGNORECASE)
        if not found:
            return None
        return found["key"].lower(), found.groupdict().get("name") or found["key"]


@dataclass(frozen=True)
class Report:
    """What became of a distribution.

    Attributes:
        task: Such as ``chest``.
        domain: Such as ``mcu``.
        written: Names of the pairs that were written.
        left_out: Names of those that were not, each with the reason.
        notes: What else is worth knowing, such as which of several labels was taken.
    """

    task: str
    domain: str
    written: list[str]
    left_out: list[tuple[str, str]]
    notes: list[str] = field(default_factory=list)


def foreground(path: Path, shape: tuple[int, ...], scale: int = 1) -> Array:
    """Whatever is not black in a label, colours included.

    Args:
        path: A picture in which each channel is black or one other value.
        shape: The size of its image.
        scale: How many pixels of the image each pixel of the label covers, along each side.

    Raises:
        InvalidImage: More values than that, which tells of smoothing, or another size.
    """
    pixels = read(path).pixels
    found = np.unique(pixels)
    if len(found) > 2 or (len(found) == 2 and found[0] != 0):
        raise InvalidImage(
            f"{path} is no label: it holds {len(found)} values from {found[0]} to {found[-1]}.",
            allowed="0 and one other value",
            fix="take the owners' file, which was never scaled nor saved as JPEG",
        )
    label = (pixels != 0).any(axis=0)
    label = label.repeat(scale, axis=0).repeat(scale, axis=1) if scale > 1 else label
    check_size(path, label.shape, shape, scale)
    return np.asarray(label)


def check_size(
    path: Path, found: tuple[int, ...], expected: tuple[int, ...], scale: int = 1
) -> None:
    """Refuse a label that does not cover its image."""
    if found != expected:
        raise InvalidImage(
            f"{path} has another size than its image asks for.",
            allowed=" x ".join(str(n // scale) for n in expected),
            got=" x ".join(str(n // scale) for n in found),
        )


def union(image: Image, labels: Sequence[Path]) -> Masks:
    """One mask of everything that any of the labels shows."""
    shape = image.geometry.shape
    return {"masks": np.logical_or.reduce([foreground(path, shape) for path in labels])}


def copy(image: Image, path: Path) -> None:
    """The owners' file, byte for byte."""
    shutil.copyfile(image.path, path)


@dataclass(frozen=True)
class Preparer:
    """A data set: where its files are, and what is done to them.

    Attributes:
        task: Such as ``chest``.
        domain: Such as ``mcu``.
        title: What its owners call it.
        image: Its images.
        labels: Its labels. Of several kinds, the first that is there serves for all images; the
            parts of a kind go into one mask.
        fewest: How many parts of a kind an image must have; 0 for all.
        load: Reads an image.
        masks: Makes the masks of an image from its labels.
        store: Writes the image, as loaded, to a path.
        ending: Of the file that is written; empty for that of the owners.
    """

    task: str
    domain: str
    title: str
    image: Part
    labels: tuple[tuple[Part, ...], ...]
    fewest: int = 0
    load: Callable[[Path], Image] = read
    masks: Callable[[Image, Sequence[Path]], Masks] = union
    store: Callable[[Image, Path], None] = copy
    ending: str = ""

    def __str__(self) -> str:
        return f"{self.task}/{self.domain}"

    def enough(self, kind: tuple[Part, ...], there: int) -> bool:
        """Whether that many parts of a kind of label make a mask."""
        return there >= (self.fewest or len(kind))
