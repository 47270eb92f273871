"""What is shown and downloaded of a result, from the arrays that its worker left."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sitta._util.files import atomic_write
from sitta.data.detect import suffix
from sitta.data.formats import FORMATS
from sitta.data.image import Array, Geometry, Image
from sitta.data.masks import write_map, write_mask
from sitta.data.preprocess import InverseTransform
from sitta.prediction.decisions import CORRECTED, Decision
from sitta.serve.choice import ADAPTED_MASK, Choice, above, member_number
from sitta.serve.draft import DRAFT, SOURCE
from sitta.serve.errors import ApiError
from sitta.serve.store import Entry, gone

DRAWN = ("image", "mask", "source", "members", "uncertainty", "disagreement")
FINAL = {DRAFT: "mask", SOURCE: "source"}  # what takes the place of these, of a result that is made
RAW = (*DRAWN, *FINAL)
TYPES = {
    ".raw": "application/octet-stream",
    ".png": "image/png",
    ".nii.gz": "application/gzip",
}

# How the arrays of a result lie: the image without its pixels, and the way to its slices.
Layout = tuple[Image, InverseTransform]


WIRE = ("uint8", "uint16", "float32")  # what a page takes as it is


def wire_type(values: Array) -> np.dtype[Any]:
    """The type in which an image is sent: its own if a page knows it."""
    return np.dtype(values.dtype.name if values.dtype.name in WIRE else "float32")


def thinned(values: Array, step: int) -> Array:
    """An image ``(C, H, W)`` of every ``step``-th pixel, each the mean of those up to the next."""
    kind = wire_type(values)
    if step == 1:
        return values.astype(kind.newbyteorder("<"))
    rows, columns = (np.arange(0, side, step) for side in values.shape[1:])
    sums = np.add.reduceat(np.add.reduceat(values, rows, 1, np.float64), columns, 2)
    tall, wide = (
        np.diff([*at, side]) for at, side in zip((rows, columns), values.shape[1:], strict=True)
    )
    means = sums / (tall[:, None] * wide)
    means = np.rint(means) if kind.kind == "u" else means
    return np.asarray(means.astype(kind.newbyteorder("<")))


def choices(review: Mapping[int | None, Decision]) -> tuple[Choice, dict[int, Choice]]:
    """The mask of the whole image, and of the slices that have their own."""
    single = {n: Choice.of(one) for n, one in review.items() if n is not None}
    return (Choice.of(review[None]) if None in review else ADAPTED_MASK), single


def kinds(answer: Mapping[str, Any]) -> list[str]:
    """What can be kept of a result: files for other programs."""
    several = len(answer["classes"]) > 1
    numbers = range(1, len(answer["classes"]) + 1)
    named = [f"probability-{n}" for n in numbers] if several else ["probability"]
    if several and answer["activation"] == "sigmoid":
        named += [f"mask-{n}" for n in numbers]
    maps = ["mask", *named, "uncertainty", "disagreement"]
    pictures = [f"{name}.png" for name in maps if answer["slices"] == 1]
    volumes = [f"{name}.nii.gz" for name in (*maps, "image")]
    return [*volumes, *pictures, "figures.json"]


class Rendering:
    """A result that is asked for its slices and files."""

    def __init__(self, entry: Entry, side: int = 0) -> None:
        self.folder, self.answer = entry.folder, entry.answer
        self._side = side  # along which slices are counted: slices, rows or columns
        layout: Layout = entry.opened()
        self._image, self._placement = layout

    def raw(
        self, name: str, number: int, choice: Choice = ADAPTED_MASK, step: int = 1
    ) -> tuple[bytes, tuple[int, ...]]:
        """One slice to draw, of every ``step``-th pixel; of an image, the mean of those between."""
        self._slice(number)
        if name == "image":
            values = np.moveaxis(thinned(self._cut("image", number), step), 0, -1)  # (H, W, C)
            return values.tobytes(), values.shape
        if name == "mask":
            values = self.plane(choice, number)[None]
        elif name in FINAL:
            try:
                values = self._at(self._load(name)[None], number)
            except ApiError:  # it has just been done
                return self.raw(FINAL[name], number, choice, step)
        elif name in ("uncertainty", "disagreement"):
            values = np.round(np.clip(self._cut(name, number), 0, 1) * 255)
        elif name == "source":
            at = self.answer["source_member"]
            if at is None:
                message = "The unadapted model is not among the members of this result."
                raise ApiError(404, "no-such-kind", message)
            values = self._cut("members", number)[at : at + 1]
        else:
            values = self._cut(name, number)
        values = values[:, ::step, ::step].astype(np.uint8)
        return values.tobytes(), (*values.shape[1:], len(values))

    def values_of(self, name: str) -> str:
        """Of which type the values to draw are."""
        return wire_type(self._load(name)).name if name == "image" else "uint8"

    def plane(self, choice: Choice, number: int) -> Array:
        """``(H, W)`` of a mask in one slice."""
        if choice.mask == CORRECTED:
            return np.asarray(self._at(self._load(CORRECTED)[None], number)[0])
        if choice.threshold is not None:
            return above(self._cut("probability", number), choice.threshold)
        if choice == ADAPTED_MASK:
            return np.asarray(self._cut("mask", number)[0])
        at = member_number(self.answer, choice.mask)
        volume = self._placement.slices(self._load("members")[at][None])
        return np.asarray(self._at(volume, number)[0])

    def mask(self, whole: Choice, single: Mapping[int, Choice]) -> Array:
        """``(*S)`` of a mask in the geometry of the file; ``single`` slices have their own."""
        if whole == ADAPTED_MASK and not single:
            return self._load("mask")
        numbers = range(self.answer["slices"])
        planes = np.stack([self.plane(single.get(n, whole), n) for n in numbers])
        native = self._placement.orientation.undo(planes[None].astype(np.uint8))
        return np.ascontiguousarray(native.reshape(self._image.geometry.shape))

    def chosen(self, review: Mapping[int | None, Decision]) -> Path:
        """The file of the mask that a review chose, in the format that masks of such files have."""
        whole, single = choices(review)
        return self.written(whole, single)

    @property
    def ending(self) -> str:
        """Of the files of masks: as sitta predict names those of such images."""
        return FORMATS[self._image.kind].mask_suffix or suffix(self._image.path)

    def written(self, whole: Choice, single: Mapping[int, Choice]) -> Path:
        """The file of a mask, in the format that masks of such files have."""
        parts = "+".join([whole.key, *(f"{n}-{single[n].key}" for n in sorted(single))])
        digest = hashlib.sha256(parts.encode()).hexdigest()[:16]
        path = self.folder / f"chosen-{digest}{self.ending}"
        corrected = CORRECTED in {choice.mask for choice in (whole, *single.values())}
        if not path.exists() or corrected:
            write_mask(self.mask(whole, single), path, self._image, self.answer["classes"])
        return path

    def correct(self, number: int, plane: Array, review: Mapping[int | None, Decision]) -> None:
        """Keep a mask that a person drew in one slice; the others begin as chosen."""
        path = self.folder / f"{CORRECTED}.npy"
        if path.exists():
            planes = np.array(self._load(CORRECTED))
        else:
            whole, single = choices(review)
            numbers = range(self.answer["slices"])
            planes = np.stack([self.plane(single.get(n, whole), n) for n in numbers])
        planes[number] = plane
        with atomic_write(path, planes.nbytes) as draft, open(draft, "wb") as file:
            np.save(file, planes.astype(np.uint8))

    def file(
        self, name: str, ending: str, number: int | None, choice: Choice = ADAPTED_MASK
    ) -> Path:
        """A file to keep, made when it is first asked for."""
        if ending == ".png":
            number = self._slice(number)
        own = name == "mask" and choice != ADAPTED_MASK
        stem = f"{name}-of-{choice.key}" if own else name
        path = self.folder / f"{stem}{'' if number is None else f'@{number}'}{ending}"
        if path.exists() and choice.mask != CORRECTED:
            return path
        values, like = self.mask(choice, {}) if own else self._values(name), self._image
        if ending == ".png":
            values = self._placement.slices(values[None])[0, number]
            like = replace(like, geometry=Geometry(values.shape))
        try:
            if values.dtype == np.uint8 and name != "image":
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
        first = name in ("probability", "image")
        return np.asarray(self._load(name)[0] if first else self._load(name))

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
        return self._at(self._placement.slices(channels), number)

    def _at(self, volume: Array, number: int) -> Array:
        """``(C, H, W)`` of a volume ``(C, slices, rows, columns)``, cut across its side."""
        return np.asarray(np.moveaxis(volume, 1 + self._side, 0)[number])

    def require_slice(self, number: int) -> None:
        """422 if there is no such slice."""
        self._slice(number)

    def _slice(self, number: int | None) -> int:
        """The slice that is asked for, which a volume must name."""
        sides = (self.answer["slices"], *self.answer["shape"][-2:])
        last = sides[self._side] - 1
        allowed, fix = f"?slice=0 to {last}", "ask for a slice, or for .nii.gz"
        if number is None and last > 0:
            raise ApiError(422, "bad-slice", "PNG holds no volume.", allowed, fix)
        if not 0 <= (number or 0) <= last:
            raise ApiError(422, "bad-slice", "There is no such slice.", allowed)
        return number or 0
