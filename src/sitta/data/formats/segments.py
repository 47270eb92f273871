"""The frames of a DICOM SEG, one for each segment and slice, as one mask."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sitta.data.formats.positions import Place, frame_groups
from sitta.data.picture import Array
from sitta.errors import InvalidImage


def is_segmentation(dataset: Any) -> bool:
    """Whether each frame holds one segment, 0 or 1."""
    return bool(dataset.get("SegmentationType") == "BINARY")


def merged(
    path: Path, dataset: Any, values: Array, places: Sequence[Place]
) -> tuple[Array, list[Place]]:
    """One frame a place, (1, D, H, W), with the numbers of the segments."""
    groups = frame_groups(path, dataset, "SegmentIdentificationSequence", len(places))
    numbers = [int(group.get("ReferencedSegmentNumber") or 0) for group in groups]
    keys = [None if p.position is None else tuple(np.round(p.position, 3)) for p in places]
    slices = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    labels = np.zeros((len(slices), *values.shape[2:]), np.uint16)
    for frame, (key, number) in enumerate(zip(keys, numbers, strict=True)):
        here, there = labels[slices[key]], values[0, frame] != 0
        if (here[there] != 0).any():
            raise InvalidImage(f"{path} is no mask of classes: its segments overlap.")
        here[there] = number
    return labels[None], [places[keys.index(key)] for key in slices]
