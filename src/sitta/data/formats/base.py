"""The base class of a file format: its names, its first bytes, how it is read and written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from sitta.data.image import Array, Image


class Format(ABC):
    """One file format. Add it to ``sitta.data.formats.FORMATS``; nothing else lists formats.

    Import decoders inside ``read`` and ``write``: naming a format must not load its package.
    """

    name: ClassVar[str]  # in messages and Image.kind
    suffixes: ClassVar[tuple[str, ...]]  # endings of file names, in lower case
    magic: ClassVar[tuple[bytes, ...]] = ()  # first bytes, any of these
    gzipped: ClassVar[bool] = False  # whether gzip may compress files as a whole
    decoders: ClassVar[tuple[str, ...]] = ()  # modules that reading needs; a service loads them
    masks: ClassVar[bool] = False  # whether it can hold masks
    maps: ClassVar[bool] = False  # whether it can hold maps of real numbers
    volumes: ClassVar[bool] = False  # whether the masks and maps it holds may be volumes
    foreground: ClassVar[int] = 1  # value of the foreground in a mask of two classes
    mask_suffix: ClassVar[str] = ".png"  # of the mask of such an image; '' for the image's own

    def matches(self, head: bytes) -> bool:
        """Whether a file that starts like this is of this format."""
        return head.startswith(self.magic)

    def may_match(self, head: bytes) -> bool:
        """Whether a file that starts like this can be of this format, if its name says so."""
        return False

    def refuse_relative(self, path: Path, head: bytes) -> None:
        """Raise ``InvalidImage`` for a related format that cannot be read, and say why."""
        return

    @abstractmethod
    def read(self, path: Path, limit: int) -> Image:
        """Read a file. Check its size with ``check_size`` before decoding any pixel."""

    def write(self, path: Path, values: Array, like: Image, labels: Sequence[str]) -> None:
        """Write a mask (whole numbers) or a map (float32) ``(*S)`` in the geometry of ``like``."""
        raise NotImplementedError

    def shareable_header(self, image: Image) -> Any:
        """The part of an image's header that ``write`` needs and that names no person."""
        return None


def rows_first(values: Array, like: Image) -> Array:
    """Values ``(*S)`` of an image as slices of rows, whichever way its file orders them."""
    return np.ascontiguousarray(values.T if like.geometry.column_major else values)


def inverted(values: Array, bits: int) -> Array:
    """Values of a file in which the lowest is white, with white as the highest."""
    if values.dtype.kind == "u":
        return np.asarray(values.dtype.type(2**bits - 1) - values)
    return np.asarray(~values if values.dtype.kind == "i" else -values)
