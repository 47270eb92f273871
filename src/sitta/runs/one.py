"""One file: read, adapt each of its slices, and bring the masks back to its geometry."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sitta.data.images import Image, read
from sitta.data.picture import Array
from sitta.data.preprocess import Placement, Preprocess
from sitta.entropy import labels
from sitta.prediction import Prediction
from sitta.runs.inputs import Item

Adapt = Callable[[Tensor], Prediction]
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
    """

    image: Image
    mask: Array
    maps: dict[str, Array]
    record: dict[str, Any]


def predict_file(
    item: Item, adapt: Adapt, preprocess: Preprocess, save: frozenset[str], at_once: int = 8
) -> Done:
    """Adapt to a file: an image, or each slice of a volume by itself.

    Args:
        item: Which file.
        adapt: A method on a model.
        preprocess: What the model takes.
        save: Maps to keep: ``probability``, ``uncertainty``, ``members``.
        at_once: Slices in one pass.
    """
    start = time.perf_counter()
    image = read(item.path)
    ready = preprocess.apply(image)
    parts = [adapt(part) for part in torch.from_numpy(ready.values).split(at_once)]
    seconds = time.perf_counter() - start
    rows = [_row(item, p, n, seconds) for n, p in _slices(parts)]
    shown = max(range(len(rows)), key=lambda n: (rows[n]["doubt"], rows[n]["area"]))
    if len(rows) == 1:
        rows[0]["slice"] = None
    mask, maps = _restored(parts, ready.placement, save)
    record = {
        "name": item.name,
        "kind": image.kind,
        "shape": list(image.geometry.shape),
        "slices": len(rows),
        "shown": shown,
        "doubt": rows[shown]["doubt"],
        "lambdas": parts[0].lambdas.tolist(),
        "source_member": parts[0].source_member,
        "rows": rows,
        "picture": _picture(parts, shown),
    }
    return Done(image, mask, maps, record)


def _slices(parts: list[Prediction]) -> Iterator[tuple[int, Prediction]]:
    yield from enumerate(p for part in parts for p in part)


def _row(item: Item, p: Prediction, number: int, seconds: float) -> dict[str, Any]:
    """The figures of one slice, in plain types."""
    at, change = p.source_member, p.change
    uncertainty = float(p.uncertainty.mean())
    notes = [str(code) for code in p.notes]
    agreement = float(p.agreement)
    return {
        "file": item.name,
        "slice": number,
        "agreement": agreement,
        "uncertainty": uncertainty,
        "disagreement": float(p.disagreement.mean()),
        "change": None if change is None else float(change),
        "distance": None if math.isnan(float(p.distance)) else float(p.distance),
        "area_source": None if at is None else float(p.areas[at]),
        "area": float(p.area),
        "notes": notes,
        "doubt": bool(SERIOUS & set(notes)) + max(1 - agreement, uncertainty),
        "seconds": round(seconds, 4),
        "weights": p.weights.tolist(),
        "entropies": p.entropies.tolist(),
        "areas": p.areas.tolist(),
    }


def _restored(
    parts: list[Prediction], placement: Placement, save: frozenset[str]
) -> tuple[Array, dict[str, Array]]:
    """The mask and the maps that are asked for, in the geometry of the file."""
    probability = placement.restore(
        torch.cat([p.probability for p in parts]).cpu().numpy()
    )  # (C, *S)
    decided = labels(torch.from_numpy(np.ascontiguousarray(probability))[None], parts[0].activation)
    maps: dict[str, Array] = {}
    if "probability" in save:
        maps |= _channels("probability", probability, parts[0].activation)
    if "uncertainty" in save:
        whole = torch.cat([p.uncertainty for p in parts])[:, None]
        maps["uncertainty"] = placement.restore(whole.cpu().numpy())[0]
    if "members" in save:
        for k, lam in enumerate(parts[0].lambdas.tolist()):
            member = placement.restore(torch.cat([p.members[k] for p in parts]).cpu().numpy())
            maps |= _channels(f"member-{lam:.2f}", member, parts[0].activation)
    return decided[0].numpy().astype(np.uint8), maps


def _channels(name: str, maps: Array, activation: str) -> dict[str, Array]:
    """One map as it is; of several classes or labels, one each but the background."""
    if len(maps) == 1:
        return {name: maps[0]}
    first = 1 if activation == "softmax" else 0
    return {f"{name}-{c}": maps[c] for c in range(first, len(maps))}


def _picture(parts: list[Prediction], shown: int) -> dict[str, Any]:
    """What the report shows of one slice; of a volume, its slice with most foreground."""
    from sitta.report.picture import picture

    p = next(one for n, one in _slices(parts) if n == shown)
    flat = _flat_maps(p)
    return picture(
        flat["image"], flat["source"], flat["mask"], flat["members"], flat["uncertainty"]
    )


def _flat_maps(p: Prediction) -> dict[str, Any]:
    volume = p.image.dim() == 4
    classes = _classes(p.mask, p.image.dim() - 1)
    at = int((classes > 0).flatten(1).sum(dim=1).argmax()) if volume else 0

    def cut(values: Tensor) -> Array:
        return np.asarray((values[..., at, :, :] if volume else values).cpu().numpy())

    source = p.source_mask
    members = torch.stack([_classes(m, p.image.dim() - 1) for m in p.member_masks])
    return {
        "image": cut(p.image),
        "source": None if source is None else cut(_classes(source, p.image.dim() - 1)),
        "mask": cut(classes),
        "members": cut(members),
        "uncertainty": cut(p.uncertainty),
    }


def _classes(mask: Tensor, sides: int) -> Tensor:
    """One class a pixel; of several labels, whether any is set."""
    return mask if mask.dim() == sides else mask.amax(dim=0)
