"""One file: read, adapt each of its slices, and bring the masks back to its geometry."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sitta.core.masks import labels
from sitta.data.image import Array
from sitta.data.images import Image, read
from sitta.data.preprocess import InverseTransform, Preprocess
from sitta.inference.inputs import InputFile
from sitta.inference.postprocess import cleaned
from sitta.models.profile import Profile
from sitta.prediction.input_check import saturations
from sitta.prediction.record import PredictionRecord

Adapt = Callable[[Array], PredictionRecord]
Clean = Callable[..., Array]
STEPPED = 64  # slices of a volume at most that a report holds a picture of, each


@dataclass(frozen=True, eq=False)
class FileResult:
    """The result of one file."""

    image: Image  # as read
    mask: Array  # in the geometry of the file, (*S), or (C, *S) if there are several labels
    maps: dict[str, Array]  # more maps in that geometry, by name
    record: dict[str, Any]  # everything for the summary and the report, in plain types
    placement: InverseTransform  # where the model's inputs lie in the file
    classes: int = 1  # how many foreground classes or labels the model tells apart

    def names(self, classes: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the classes: those of the model if there is one for each, else numbers."""
        if len(classes) == self.classes:
            return classes
        return tuple(f"class {n}" for n in range(1, self.classes + 1))


@dataclass(frozen=True, eq=False)
class PreparedFile:
    """A file that is read and ready for the model."""

    file: InputFile
    image: Image
    values: Array  # what the model takes, (N, C, *S)
    inverse: InverseTransform
    seconds: float  # that reading took
    digest: str  # of its bytes, if its record is kept
    saturation: float | None = None  # of a file whose colours the model does not see

    def goes_with(self, other: PreparedFile) -> bool:
        """Whether both are one image of the same size, so that one pass can do both."""
        return len(self.values) == 1 and self.values.shape == other.values.shape


def prepare_file(
    file: InputFile,
    preprocess: Preprocess,
    pixel_size: tuple[float, ...] | None = None,
    digest: str = "",
    reader: Callable[[Path], Image] = read,
    *,
    invert: bool = False,
    rotate: int = 0,
) -> PreparedFile:
    """Read a file and bring it to what the model takes, inverted or turned if that is asked for."""
    start = time.perf_counter()
    image = reader(file.path)
    ready = preprocess.apply(_inverted(image) if invert else image, pixel_size, rotate)
    hidden = preprocess.channels == 1 and len(image.pixels) == 3
    colours = float(saturations(image.pixels[None])[0]) if hidden else None
    seconds = time.perf_counter() - start
    return PreparedFile(file, image, ready.values, ready.inverse, seconds, digest, colours)


def _inverted(image: Image) -> Image:
    """The same file with its grey values the other way round."""
    pixels = image.pixels.astype(np.float64)
    return replace(image, pixels=pixels.max() + pixels.min() - pixels)


def predict_prepared(
    files: Sequence[PreparedFile],
    adapt: Adapt,
    save: frozenset[str],
    at_once: int = 8,
    profile: Profile | None = None,
    min_dice: float | None = None,
    each: Callable[[int, PredictionRecord], None] | None = None,
) -> list[FileResult]:
    """Adapt to a file, ``at_once`` slices in one pass; or to several images of one size at once.

    With ``each``, slices of a file come one by one, and it is told of each as it is done.

    Maps to save: ``probability``, ``uncertainty``, ``disagreement``, ``members``; and ``labels``,
    the mask of each member ``(K, *S)``. The post-processing is that of the profile.
    """
    clean = partial(cleaned, profile or Profile())
    start, first = time.perf_counter(), files[0].values
    if len(files) > 1:
        parts = [[p] for p in adapt(np.concatenate([file.values for file in files]))]
    else:
        parts = [_slices(first, adapt, at_once, each)]
    parts = [
        [_judged(p, file.saturation, min_dice) for p in of_file]
        for file, of_file in zip(files, parts, strict=True)
    ]
    share = (time.perf_counter() - start) / len(files)
    return [_result(file, p, save, share, clean) for file, p in zip(files, parts, strict=True)]


def _slices(
    values: Array, adapt: Adapt, at_once: int, each: Callable[[int, PredictionRecord], None] | None
) -> list[PredictionRecord]:
    """Records of all slices in their order; those in the middle are made first if told one by one.

    The middle of a volume most often shows the structure, and is what a person looks at first.
    """
    if each is None:
        return [adapt(values[n : n + at_once]) for n in range(0, len(values), at_once)]
    made: dict[int, PredictionRecord] = {}
    for n in sorted(range(len(values)), key=lambda n: abs(n - len(values) // 2)):
        made[n] = adapt(values[n : n + 1])
        each(n, made[n])
    return [made[n] for n in range(len(values))]


def _judged(p: PredictionRecord, saturation: float | None, least: float | None) -> PredictionRecord:
    """A record that knows the colours of its file, and from which Dice on it is not flagged."""
    limits = p.limits if least is None else replace(p.limits, dice=least, usual=math.inf)
    return replace(p, saturation=saturation, limits=limits)


def _result(
    prepared: PreparedFile,
    parts: list[PredictionRecord],
    save: frozenset[str],
    seconds: float,
    clean: Clean,
) -> FileResult:
    """What is written about a file, from the predictions of its slices in their order."""
    parts = _with_members_that_ran(parts)
    first = parts[0]
    record = described(prepared, parts, seconds)
    mask, maps = _restored(parts, prepared.inverse, save)
    classes = first.probability.shape[1] - (first.activation == "softmax")
    mask = clean(mask, labels=first.activation != "softmax" and classes > 1)
    return FileResult(prepared.image, mask, maps, record, prepared.inverse, classes)


def described(
    prepared: PreparedFile, parts: list[PredictionRecord], seconds: float
) -> dict[str, Any]:
    """The record of a file: its scores, notes and members, slice by slice, and a picture."""
    image, first = prepared.image, parts[0]
    took = {"seconds": round(prepared.seconds + seconds, 4)}
    slices = (row for part in parts for row in part.rows())
    rows = [{"file": prepared.file.name, "slice": n, **r, **took} for n, r in enumerate(slices)]
    shown = max(range(len(rows)), key=lambda n: (rows[n]["doubt"], rows[n]["area"]))
    if len(rows) == 1:
        rows[0]["slice"] = None
    record = {
        "name": prepared.file.name,
        "kind": image.kind,
        "shape": list(image.geometry.shape),
        "slices": len(rows),
        "shown": shown,
        "doubt": rows[shown]["doubt"],
        "lambdas": first.lambdas.tolist(),
        "member_names": list(first.names),
        "source_member": first.anchor,
        "activation": first.activation,
        "limits": first.limits.describe(),
        "rows": rows,
        "picture": _picture([one for part in parts for one in part][shown]),
    }
    if prepared.digest and 1 < len(rows) <= STEPPED:  # its record is kept, for a report
        record["picture"]["slices"] = [_slice(one) for part in parts for one in part]
    return record


def _with_members_that_ran(parts: list[PredictionRecord]) -> list[PredictionRecord]:
    """The same records without members that no slice needed."""
    ran = np.any([part.ran.any(axis=1) for part in parts], axis=0)
    return parts if ran.all() else [part.with_members(np.flatnonzero(ran)) for part in parts]


def _restored(
    parts: list[PredictionRecord], inverse: InverseTransform, save: frozenset[str]
) -> tuple[Array, dict[str, Array]]:
    """The mask and the maps that are asked for, in the geometry of the file."""
    first = parts[0]

    def restore(values: Iterable[Array]) -> Array:
        return inverse.restore(np.concatenate(list(values)))  # (C, *S)

    def mask_of(maps: Array) -> Array:
        mask = labels(maps[None], first.activation, first.thresholds)
        return np.asarray(mask[0], dtype=np.uint8)

    probability = restore(p.probability for p in parts)
    maps: dict[str, Array] = {}
    if "probability" in save:
        maps |= _channels("probability", probability, first.activation)
    for name in sorted(save & {"uncertainty", "disagreement"}, reverse=True):
        maps[name] = restore(p.computed[name][:, None] for p in parts)[0]
    masks: list[Array] = []
    several = [p.members for p in parts if p.members is not None]
    if several and save & {"members", "labels"}:
        for k, name in enumerate(first.names):  # one by one: a volume's maps may be large
            member = restore(m[k] for m in several)
            masks.append(mask_of(member))
            if "members" in save:
                maps |= _channels(f"member-{name}", member, first.activation)
    if "labels" in save and masks:
        maps["labels"] = np.stack(masks)
    return mask_of(probability), maps


def _channels(name: str, maps: Array, activation: str) -> dict[str, Array]:
    """One map as it is; of several classes or labels, one each but the background."""
    if len(maps) == 1:
        return {name: maps[0]}
    first = 1 if activation == "softmax" else 0
    return {f"{name}-{c}": maps[c] for c in range(first, len(maps))}


def _slice(p: PredictionRecord) -> dict[str, Any]:
    """What the report shows of a slice that is stepped to."""
    picture = _picture(p, members=False)
    return {name: picture[name] for name in ("image", "mask", "source", "uncertainty")}


def _picture(p: PredictionRecord, members: bool = True) -> dict[str, Any]:
    """What the report shows of one slice; of a volume, its slice with most foreground."""
    from sitta.report.card_image import card_image

    sides = p.images.ndim - 2

    def classes(mask: Array) -> Array:
        """One class per pixel; of several labels, whether any is set."""
        return mask if mask.ndim == sides else np.asarray(mask.max(axis=0))

    mask = classes(p.mask[0])
    at = int((mask > 0).sum(axis=(1, 2)).argmax()) if sides == 3 else 0

    def cut(values: Array) -> Array:
        return values[..., at, :, :] if sides == 3 else values

    source, masks = p.source_mask, p.member_masks
    return card_image(
        cut(p.images[0]),
        None if source is None else cut(classes(source[0])),
        cut(mask),
        [cut(classes(member[0])) for member in masks] if members and masks is not None else [],
        cut(p.computed["uncertainty"][0]),
    )
