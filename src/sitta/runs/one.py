"""One file: read, adapt each of its slices, and bring the masks back to its geometry."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sitta.data.images import Image, read
from sitta.data.picture import Array
from sitta.data.preprocess import Placement, Preprocess
from sitta.runs.answer import Answer, labels
from sitta.runs.inputs import Item

Adapt = Callable[[Array], Answer]
SERIOUS = frozenset(
    {
        "no-foreground",
        "empty-mask",
        "foreground-in-some-members",
        "all-foreground",
        "members-disagree",
        "far-from-source",
        "constant-image",
        "member-overflow",
        "unstable-update",
    }
)  # notes for which a person should look


@dataclass(frozen=True, eq=False)
class Done:
    """What one file came to.

    Attributes:
        image: As read.
        mask: In the geometry of the file, ``(*S)``, or ``(C, *S)`` if there are several labels.
        maps: More maps in that geometry, by name.
        record: Everything for the summary and the report, in plain types.
        placement: Where the model's inputs lie in the file.
        classes: How many foreground classes or labels the model tells apart.
    """

    image: Image
    mask: Array
    maps: dict[str, Array]
    record: dict[str, Any]
    placement: Placement
    classes: int = 1

    def names(self, known: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the classes: those that are known if there is one for each, else numbers."""
        if len(known) == self.classes:
            return known
        return tuple(f"class {n}" for n in range(1, self.classes + 1))


@dataclass(frozen=True, eq=False)
class Opened:
    """A file that is read and ready for the model.

    Attributes:
        item: Which file.
        image: As read.
        values: What the model takes, ``(N, C, *S)``.
        placement: The way back.
        seconds: What that took.
    """

    item: Item
    image: Image
    values: Array
    placement: Placement
    seconds: float

    def goes_with(self, other: Opened) -> bool:
        """Whether both are one image of the same size, so that one pass can do both."""
        return len(self.values) == 1 and self.values.shape == other.values.shape


def open_file(item: Item, preprocess: Preprocess, reader: Callable[[Path], Image] = read) -> Opened:
    """Read a file and bring it to what the model takes."""
    start = time.perf_counter()
    image = reader(item.path)
    ready = preprocess.apply(image)
    return Opened(item, image, ready.values, ready.placement, time.perf_counter() - start)


def predict_file(
    item: Item,
    adapt: Adapt,
    preprocess: Preprocess,
    save: frozenset[str],
    at_once: int = 8,
    reader: Callable[[Path], Image] = read,
) -> Done:
    """Adapt to a file: an image, or each slice of a volume by itself.

    Args:
        item: Which file.
        adapt: A method on a model.
        preprocess: What the model takes.
        save: Maps to keep: ``probability``, ``uncertainty``, ``disagreement``, ``members``; and
            ``labels``, the mask of each member ``(K, *S)``.
        at_once: Slices in one pass.
        reader: Reads the file.
    """
    return predict_opened(open_file(item, preprocess, reader), adapt, save, at_once)


def predict_opened(opened: Opened, adapt: Adapt, save: frozenset[str], at_once: int = 8) -> Done:
    """As ``predict_file``, for a file that is open."""
    start = time.perf_counter()
    starts = range(0, len(opened.values), at_once)
    parts = [adapt(opened.values[start : start + at_once]) for start in starts]
    return conclude(opened, parts, save, time.perf_counter() - start)


def conclude(opened: Opened, parts: list[Answer], save: frozenset[str], seconds: float) -> Done:
    """What is written about a file.

    Args:
        opened: The file.
        parts: The answers to its slices, in their order.
        save: Maps to keep.
        seconds: What the answers took; of files in one pass, their share.
    """
    item, image = opened.item, opened.image
    rows = [_row(item, p, n, opened.seconds + seconds) for n, p in _slices(parts)]
    shown = max(range(len(rows)), key=lambda n: (rows[n]["doubt"], rows[n]["area"]))
    if len(rows) == 1:
        rows[0]["slice"] = None
    mask, maps = _restored(parts, opened.placement, save)
    record = {
        "name": item.name,
        "kind": image.kind,
        "shape": list(image.geometry.shape),
        "slices": len(rows),
        "shown": shown,
        "doubt": rows[shown]["doubt"],
        "lambdas": parts[0].lambdas.tolist(),
        "source_member": parts[0].source_member,
        "activation": parts[0].activation,
        "rows": rows,
        "picture": _picture(parts, shown),
    }
    channels = parts[0].probability.shape[1]
    classes = channels if parts[0].activation == "sigmoid" else channels - 1
    return Done(image, mask, maps, record, opened.placement, classes)


def _slices(parts: list[Answer]) -> Iterator[tuple[int, Answer]]:
    yield from enumerate(p for part in parts for p in part)


def _row(item: Item, p: Answer, number: int, seconds: float) -> dict[str, Any]:
    """The figures of one slice, in plain types."""
    at, change = p.source_member, p.change
    uncertainty = _mean(p.uncertainty)
    notes = list(p.notes[0])
    agreement = float(p.agreement[0])
    areas = [_known(area) for area in p.areas[:, 0]]
    return {
        "file": item.name,
        "slice": number,
        "agreement": agreement,
        "uncertainty": uncertainty,
        "disagreement": _mean(p.disagreement),
        "change": None if change is None else float(change[0]),
        "distance": _known(p.distance[0]),
        "area_source": None if at is None else areas[at],
        "area": float(p.area[0]),
        "notes": notes,
        "doubt": bool(SERIOUS & set(notes)) + max(1 - agreement, uncertainty),
        "seconds": round(seconds, 4),
        "weights": p.weights[:, 0].tolist(),
        "entropies": p.entropies[:, 0].tolist(),
        "areas": areas,
    }


def _mean(maps: Array) -> float:
    return float(maps.mean(dtype=np.float64))


def _known(figure: float) -> float | None:
    return None if math.isnan(figure) else float(figure)


def _restored(
    parts: list[Answer], placement: Placement, save: frozenset[str]
) -> tuple[Array, dict[str, Array]]:
    """The mask and the maps that are asked for, in the geometry of the file."""
    activation = parts[0].activation
    probability = placement.restore(np.concatenate([p.probability for p in parts]))  # (C, *S)
    maps: dict[str, Array] = {}
    if "probability" in save:
        maps |= _channels("probability", probability, activation)
    for name in ("uncertainty", "disagreement"):
        if name in save:
            whole = np.concatenate([getattr(p, name) for p in parts])[:, None]
            maps[name] = placement.restore(whole)[0]
    if "members" in save:
        for k, lam in enumerate(parts[0].lambdas):
            member = np.concatenate([p.members[k] for p in parts if p.members is not None])
            maps |= _channels(f"member-{lam:.2f}", placement.restore(member), activation)
    if "labels" in save and parts[0].members is not None:
        maps["labels"] = _member_labels(parts, placement)
    return labels(probability[None], activation)[0].astype(np.uint8), maps


def _member_labels(parts: list[Answer], placement: Placement) -> Array:
    """The mask of each member in the geometry of the file, ``(K, *S)`` or ``(K, C, *S)``."""
    activation, found = parts[0].activation, []
    for k in range(len(parts[0].lambdas)):
        member = np.concatenate([p.members[k] for p in parts if p.members is not None])
        found.append(labels(placement.restore(member)[None], activation)[0].astype(np.uint8))
    return np.stack(found)


def _channels(name: str, maps: Array, activation: str) -> dict[str, Array]:
    """One map as it is; of several classes or labels, one each but the background."""
    if len(maps) == 1:
        return {name: maps[0]}
    first = 1 if activation == "softmax" else 0
    return {f"{name}-{c}": maps[c] for c in range(first, len(maps))}


def _picture(parts: list[Answer], shown: int) -> dict[str, Any]:
    """What the report shows of one slice; of a volume, its slice with most foreground."""
    from sitta.report.picture import picture

    p = next(one for n, one in _slices(parts) if n == shown)
    image, sides = p.images[0], p.images.ndim - 2
    classes = _classes(p.mask[0], sides)
    at = int((classes > 0).sum(axis=(1, 2)).argmax()) if sides == 3 else 0

    def cut(values: Array) -> Array:
        return values[..., at, :, :] if sides == 3 else values

    source, members = p.source_mask, p.member_masks
    return picture(
        cut(image),
        None if source is None else cut(_classes(source[0], sides)),
        cut(classes),
        [] if members is None else [cut(_classes(m[0], sides)) for m in members],
        cut(p.uncertainty[0]),
    )


def _classes(mask: Array, sides: int) -> Array:
    """One class a pixel; of several labels, whether any is set."""
    return mask if mask.ndim == sides else np.asarray(mask.max(axis=0))
