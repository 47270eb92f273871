"""What is shown and downloaded of a result, from the arrays that its worker left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sitta.data.image import Array, Geometry, Image
from sitta.data.masks import write_map, write_mask
from sitta.data.preprocess import InverseTransform
from sitta.serve.errors import ApiError
from sitta.serve.store import Entry, gone

RAW = ("image", "mask", "source", "members", "uncertainty", "disagreement")
TYPES = {
    ".raw": "application/octet-stream",
    ".png": "image/png",
    ".nii.gz": "application/gzip",
}

# How the arrays of a result lie: the image without its pixels, and the way to its slices.
Layout = tuple[Image, InverseTransform]


def kinds(answer: Mapping[str, Any]) -> list[str]:
    """What can be kept of a result: files for other programs."""
    several = len(answer["classes"]) > 1
    numbers = range(1, len(answer["classes"]) + 1)
    named = [f"probability-{n}" for n in numbers] if several else ["probability"]
    if several and answer["activation"] == "sigmoid":
        named += [f"mask-{n}" for n in numbers]
    maps = ["mask", *named, "uncertainty", "disagreement"]
    pictures = [f"{name}.png" for name in maps if answer["slices"] == 1]
    return [*(f"{name}.nii.gz" for name in maps), *pictures, "figures.json"]


class Rendering:
    """A result that is asked for its slices and files."""

    def __init__(self, entry: Entry) -> None:
        self.folder, self.answer = entry.folder, entry.answer
        layout: Layout = entry.layout
        self._image, self._placement = layout

    def raw(self, name: str, number: int) -> tuple[bytes, tuple[int, int, int]]:
        """One slice to draw: its bytes, row by row, and its height, width and depth."""
        self._slice(number)
        if name == "image":
            values = np.moveaxis(self._cut("image", number), 0, -1).astype("<f4")  # (H, W, C)
            return values.tobytes(), values.shape
        if name in ("uncertainty", "disagreement"):
            values = np.round(np.clip(self._cut(name, number), 0, 1) * 255)
        elif name == "source":
            at = self.answer["source_member"]
            if at is None:
                message = "The unadapted model is not among the members of this result."
                raise ApiError(404, "no-such-kind", message)
            values = self._cut("members", number)[at : at + 1]
        else:
            values = self._cut(name, number)
        return values.astype(np.uint8).tobytes(), (*values.shape[1:], len(values))

    def file(self, name: str, ending: str, number: int | None) -> Path:
        """A file to keep, made when it is first asked for."""
        if ending == ".png":
            number = self._slice(number)
        path = self.folder / f"{name}{'' if number is None else f'@{number}'}{ending}"
        if path.exists():
            return path
        values, like = self._values(name), self._image
        if ending == ".png":
            values = self._placement.slices(values[None])[0, number]
            like = replace(like, geometry=Geometry(values.shape))
        try:
            if values.dtype == np.uint8:
                classes = tuple(self.answer["classes"]) if name == "mask" else ("one",)
                write_mask(values, path, like, classes)
            else:
                write_map(values, path, like)
        except FileNotFoundError:
            raise gone() from None
        return path

    def _values(self, name: str) -> Array:
        """``(*S)``, in the geometry of the file."""
        stem, _, number = name.partition("-")
        if number:
            return np.asarray(self._load("labels" if stem == "mask" else stem)[int(number) - 1])
        return np.asarray(self._load(name)[0] if name == "probability" else self._load(name))

    def _load(self, name: str) -> Array:
        try:
            array: Array = np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            return array
        except FileNotFoundError:
            if not self.folder.exists():
                raise gone() from None
            raise ApiError(404, "no-such-kind", f"This result has no {name}.") from None

    def _cut(self, name: str, number: int) -> Array:
        """``(C, H, W)`` of one slice, as it is shown."""
        values, sides = self._load(name), len(self._image.geometry.shape)
        channels = values if values.ndim > sides else values[None]
        return self._placement.slices(channels)[:, number]

    def _slice(self, number: int | None) -> int:
        """The slice that is asked for, which a volume must name."""
        last = self.answer["slices"] - 1
        allowed, fix = f"?slice=0 to {last}", "ask for a slice, or for .nii.gz"
        if number is None and last > 0:
            raise ApiError(422, "bad-slice", "PNG holds no volume.", allowed, fix)
        if not 0 <= (number or 0) <= last:
            raise ApiError(422, "bad-slice", "There is no such slice.", allowed)
        return number or 0
