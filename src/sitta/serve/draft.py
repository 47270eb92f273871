"""A result while it is made: the image at once, then the mask slice by slice.

A worker writes both beside the final arrays and tells the server; what is told is ``Event``. They
stay as long as the result: who asks for a slice just as it is done gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sitta._util.plain import plain
from sitta.core.masks import labels, one_class
from sitta.data.image import Array
from sitta.data.preprocess import InverseTransform
from sitta.data.resample import crop, resize
from sitta.inference.pipeline import PreparedFile
from sitta.prediction.notes import flagged
from sitta.prediction.record import PredictionRecord
from sitta.serve.described import described, shown_channels

DRAFT, SOURCE = "draft", "draft-source"  # arrays (slices, rows, columns), as they are shown
IMAGE_EVENT, SLICE_EVENT = "image", "slice"
Event = dict[str, Any]  # with "event", its kind


class Draft:
    """The arrays of a result that is being made."""

    def __init__(
        self,
        job: Mapping[str, Any],
        prepared: PreparedFile,
        placement: InverseTransform,
        classes: tuple[str, ...],
        tell: Callable[[Event], None],
    ) -> None:
        self._folder, self._tell = Path(job["out"]), tell
        self._inverse, self._placement = prepared.inverse, placement
        image = replace(prepared.image, pixels=np.empty(0))
        answer = described(job, prepared.image, placement, prepared.inverse)
        save(self._folder / "image.npy", shown_channels(prepared.image))
        sides = placement.orientation.sides
        for name in (DRAFT, SOURCE):
            save(self._folder / f"{name}.npy", np.zeros(sides, np.uint8))
        more = {"classes": list(classes), "shown": sides[0] // 2, "rows": [], "draft": True}
        more |= {"lambdas": [], "source_member": None, "activation": "sigmoid"}
        layout = (image, placement)
        tell({"event": IMAGE_EVENT, "answer": plain({**answer, **more}), "layout": layout})

    def slice(self, number: int, record: PredictionRecord) -> None:
        """Keep the mask of a slice, and tell its scores."""
        if len(self._inverse.native) != 2:
            return  # a volume in one piece is done when it is done
        self._write(DRAFT, number, record, record.probability)
        is_known = record.anchor is not None and record.members is not None
        if is_known and record.members is not None:
            self._write(SOURCE, number, record, record.members[record.anchor])
        row = record.rows()[0] | {"slice": number, "look": flagged(record.notes[0])}
        self._tell({"event": SLICE_EVENT, "row": plain(row), "source": is_known})

    def _write(self, name: str, number: int, record: PredictionRecord, maps: Array) -> None:
        inverse = self._inverse
        full = resize(crop(np.asarray(maps, np.float32), inverse.resized), inverse.native)
        mask = labels(full, record.activation, record.thresholds)[0]
        flat = one_class(mask) if mask.ndim == 3 else mask
        turns = _turns(inverse, self._placement)
        planes = np.load(self._folder / f"{name}.npy", mmap_mode="r+")
        planes[number] = np.rot90(flat, turns)


def _turns(inverse: InverseTransform, placement: InverseTransform) -> int:
    """Quarter turns to the left from a plane as the model saw it to one as it is shown."""
    orientation = placement.orientation
    turned = (orientation.turned(degrees) == inverse.orientation for degrees in (0, 90, 180, 270))
    return list(turned).index(True)


def save(path: Path, values: Array) -> None:
    """As ``np.save``, which does not say why it fails if a disk is full."""
    values = np.ascontiguousarray(values)
    with open(path, "wb") as file:
        np.lib.format.write_array_header_2_0(file, np.lib.format.header_data_from_array_1_0(values))
        file.write(values.data)
