"""What is said of an image as soon as it is read: sides, units, marks, and what the model sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sitta.data.image import Array, Image
from sitta.data.preprocess import InverseTransform

SAMPLE = 2**20  # pixels from which the window is chosen


def shown_channels(image: Image) -> Array:
    """The pixels that are shown: three channels in colour, else the first."""
    return image.pixels[: 3 if len(image.pixels) == 3 else 1]


def described(
    job: Mapping[str, Any], image: Image, placement: InverseTransform, seen: InverseTransform
) -> dict[str, Any]:
    """What is known of an image before a model saw it, in plain types.

    ``placement`` says how it is shown, ``seen`` where the inputs of the model lie; they differ in
    an image that is turned for the model alone.
    """
    sides = placement.orientation.sides
    single = sides[0] == 1
    spacing = placement.orientation.spacing(image.geometry)
    ways = _ways(image, placement)
    pixels = shown_channels(image)
    return {
        **{name: job[name] for name in ("model", "method", "settings")},
        **{"invert": job.get("invert", False), "rotate": job.get("rotate", 0)},
        "kind": image.kind.lower(),
        "shape": list(sides[1:] if single else sides),
        "spacing": spacing and list(spacing[1:] if single else spacing),
        "marks": ways and [*ways[2], *ways[1]],
        "ends": ways and list(ways[0]),
        "channels": len(pixels),
        "slices": sides[0],
        "dims": len(placement.native),
        "region": region(seen, job.get("rotate", 0)),
        "intensity": intensity(pixels),
    }


def region(seen: InverseTransform, rotate: int = 0) -> list[list[float]] | None:
    """First and last edge of what the model sees, by rows and columns; None if it sees all."""
    edges = []
    for native, resized, size in zip(seen.native, seen.resized, seen.size, strict=True):
        start = (resized - min(resized, size)) // 2
        stop = start + min(resized, size)
        edges.append([start * native / resized, stop * native / resized])
    if all(low == 0 and high == side for (low, high), side in zip(edges, seen.native, strict=True)):
        return None
    return edges[-2:] if rotate % 180 == 0 else edges[-2:][::-1]


def _ways(image: Image, placement: InverseTransform) -> list[tuple[str, str]] | None:
    """What lies at both ends of slices, rows and columns: R, L, A, P, S, I; None if unknown."""
    affine, turn = image.geometry.affine, placement.orientation
    if affine is None:
        return None
    ends_of_axes: list[tuple[str, str]] = []
    for side in range(3):
        way = np.asarray(affine)[:3, turn.axes[side]] * (-1 if side in turn.flips else 1)
        at = int(np.abs(way).argmax())
        ends = "LPI"[at], "RAS"[at]
        ends_of_axes.append(ends if way[at] > 0 else ends[::-1])
    return ends_of_axes


def intensity(image: Array) -> dict[str, Any]:
    """Its own values, and a range to show them in."""
    flat = image.reshape(-1)
    sample = flat[:: max(1, len(flat) // SAMPLE)]
    window = [float(v) for v in np.percentile(sample, (0.5, 99.5))]
    low, high = float(flat.min()), float(flat.max())
    return {"low": low, "high": high, "window": window if window[1] > window[0] else [low, high]}
