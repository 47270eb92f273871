"""What is shown and downloaded of a result, from the arrays that its worker left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sitta.data.masks import write_map, write_mask
from sitta.data.orientation import Orientation
from sitta.data.picture import Array, Geometry, Image
from sitta.data.preprocess import Placement
from sitta.serve.refusal import Refusal
from sitta.serve.store import GONE

RAW = ("image", "mask", "source", "members", "uncertainty", "disagreement")
TYPES = {
    ".raw": "application/octet-stream",
    ".png": "image/png",
    ".nii.gz": "application/gzip",
    ".json": "application/json",
}


def kinds(answer: Mapping[str, Any]) -> list[str]:
    """What can be kept of a result: files for other programs."""
    several = len(answer["classes"]) > 1
    numbers = range(1, len(answer["classes"]) + 1)
    single = answer["slices"] == 1
    named = [f"probability-{n}" for n in numbers] if several else ["probability"]
    if several and answer["activation"] == "sigmoid":
        named += [f"mask-{n}" for n in numbers]
    maps = ["mask", *named, "uncertainty", "disagreement"]
    found = [f"{name}.nii.gz" for name in maps]
    return [*found, *(f"{name}.png" for name in maps if single), "figures.json"]


class Rendering:
    """A result that is asked for its pictures and files.

    Args:
        folder: As ``sitta.serve.job`` left it.
        answer: What was said about it.
    """

    def __init__(self, folder: Path, answer: Mapping[str, Any]) -> None:
        try:
            self._layout = json.loads((folder / "layout.json").read_text())
        except FileNotFoundError:
            raise GONE from None
        self.folder, self.answer = folder, answer

    def raw(self, name: str, number: int) -> tuple[bytes, tuple[int, int, int]]:
        """One slice to draw: its bytes, row by row, and its height, width and depth."""
        self._check_slice(number)
        if name == "image":
            values = np.moveaxis(self._cut("image", number), 0, -1).astype("<f4")  # (H, W, C)
            return values.tobytes(), values.shape
        if name in ("uncertainty", "disagreement"):
            values = np.round(np.clip(self._cut(name, number), 0, 1) * 255).astype(np.uint8)
        elif name == "source":
            at = self.answer["source_member"]
            if at is None:
                raise _absent("The unadapted model is not among the members of this result.")
            values = self._cut("members", number)[at : at + 1]
        else:
            values = self._cut(name, number)
        values = np.asarray(values, dtype=np.uint8)
        return values.tobytes(), (*values.shape[1:], len(values))

    def file(self, name: str, ending: str, number: int | None) -> Path:
        """A file to keep, made when it is first asked for."""
        if ending == ".png":
            number = self._png_slice(number)
        path = self.folder / f"{name}{'' if number is None else f'@{number}'}{ending}"
        if path.exists():
            return path
        values = self._values(name)
        classes = tuple(self.answer["classes"]) if name == "mask" else ("one",)
        like = self._whole()
        if ending == ".png":
            values = self._placement().slices(values[None])[0, number]
            like = self._slice(values.shape)
        try:
            if values.dtype == np.uint8:
                write_mask(values, path, like, classes)
            else:
                write_map(values, path, like)
        except FileNotFoundError:
            raise GONE from None
        return path

    def _values(self, name: str) -> Array:
        """``(*S)``, in the geometry of the file."""
        stem, _, number = name.partition("-")
        if number:
            found = self._load("labels" if stem == "mask" else stem)
            return np.asarray(found[int(number) - 1])
        return np.asarray(self._load(name)[0] if name == "probability" else self._load(name))

    def _load(self, name: str) -> Array:
        try:
            found: Array = np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            return found
        except FileNotFoundError:
            if not self.folder.exists():
                raise GONE from None
            raise _absent(f"This result has no {name}.") from None

    def _cut(self, name: str, number: int) -> Array:
        """``(C, H, W)`` of one slice, as it is shown."""
        values = self._load(name)
        sides = len(self._layout["shape"])
        return self._placement().slices(values if values.ndim > sides else values[None])[:, number]

    def _placement(self) -> Placement:
        known = self._layout
        turn = Orientation(*(tuple(known[name]) for name in ("sides", "axes", "flips")))
        return Placement(tuple(known["shape"]), turn, (), (), (), known["reverse"])

    def _whole(self) -> Image:
        """What a file in the geometry of the upload is written like."""
        known, nothing = self._layout, np.empty(0)
        affine = None if known["affine"] is None else np.array(known["affine"])
        spacing = None if known["spacing"] is None else tuple(known["spacing"])
        geometry = Geometry(tuple(known["shape"]), affine, spacing, known["column_major"])
        return Image(nothing, geometry, known["kind"], self.folder, self._header())

    def _header(self) -> Any:
        if self._layout["kind"] != "NIfTI":
            return None
        import nibabel as nib

        content = (self.folder / "header.bin").read_bytes()
        kind = nib.Nifti2Header if len(content) == nib.Nifti2Header.sizeof_hdr else nib.Nifti1Header
        return kind(content)

    def _slice(self, shape: tuple[int, ...]) -> Image:
        """What one slice is written like, as a picture."""
        dots = self._layout["dots"]
        header = None if dots is None else tuple(dots)
        return Image(np.empty(0), Geometry(shape), "PNG", self.folder, header)

    def _png_slice(self, number: int | None) -> int:
        if number is None and self.answer["slices"] > 1:
            raise Refusal(
                422,
                "bad-slice",
                "PNG holds no volume.",
                allowed=f"?slice=0 to {self.answer['slices'] - 1}",
                fix="ask for a slice, or for .nii.gz",
            )
        self._check_slice(number or 0)
        return number or 0

    def _check_slice(self, number: int) -> None:
        if not 0 <= number < self.answer["slices"]:
            raise Refusal(
                422,
                "bad-slice",
                "There is no such slice.",
                allowed=f"0 to {self.answer['slices'] - 1}",
            )


def _absent(message: str) -> Refusal:
    return Refusal(404, "no-such-kind", message)
