"""A folder that is a DICOM series: its files are the slices of one volume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sitta.data.formats.dicom import Origin, has_size, load, take_values
from sitta.data.formats.dicom import read as read_file
from sitta.data.formats.guard import decoding
from sitta.data.formats.positions import arrange, place_of
from sitta.data.picture import Array, Geometry, Image, check_size
from sitta.data.sniff import SUFFIXES, sniff, suffix
from sitta.errors import InvalidImage


def read(folder: Path, limit: int) -> Image:
    """All DICOM files of a folder as one volume, sorted by position."""
    names = sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    found = [p for p in names if p.name.upper() != "DICOMDIR" and _is_slice(p)]
    slices = [(p, head) for p in found if has_size(head := _head(p, limit))]
    _check_series(folder, [head for _, head in slices])
    if len(slices) == 1:
        return replace(read_file(slices[0][0], limit), path=folder)
    first = slices[0][1]
    check_size(folder, (len(slices), int(first.Rows), int(first.Columns)), limit)
    order, affine, spacing = arrange(folder, [place_of(p, head) for p, head in slices])
    loaded = [_plane(slices[i][0], limit) for i in order]
    datasets, planes = [dataset for dataset, _ in loaded], [plane for _, plane in loaded]
    if any(p.shape != planes[0].shape or p.ndim != 3 for p in planes):
        raise InvalidImage(f"{folder} mixes files of different numbers of frames or colours.")
    pixels = np.stack(planes, axis=1)  # (C, D, H, W)
    geometry = Geometry(pixels.shape[1:], affine, spacing)
    return Image(pixels, geometry, "DICOM", folder, Origin(datasets))


def _head(path: Path, limit: int) -> Any:
    with decoding(path, "DICOM"):
        return load(path, limit, pixels=False)


def _plane(path: Path, limit: int) -> tuple[Any, Array]:
    """A slice (C, H, W), and its dataset without it."""
    with decoding(path, "DICOM"):
        dataset = load(path, limit)
        return dataset, take_values(path, dataset)[0]


def _is_slice(path: Path) -> bool:
    """Whether this is DICOM; refuses a broken slice, passes over what lies beside the slices."""
    ending = path.suffix.lower()
    promised = SUFFIXES.get(suffix(path)) == "DICOM" or not ending or ending[1:].isdigit()
    try:
        return sniff(path) == "DICOM"
    except InvalidImage as error:
        if promised:
            raise InvalidImage(
                f"{error.what} It lies among the slices of a series.",
                fix="copy or export it again if it is a slice, else move it away",
            ) from None
        return False


def _check_series(folder: Path, heads: Sequence[Any]) -> None:
    if not heads:
        raise InvalidImage(
            f"{folder} is a folder that holds no DICOM image.",
            allowed="the folder that holds the files of one series",
        )
    counts = Counter(str(h.get("SeriesInstanceUID", "")) for h in heads)
    if len(counts) > 1:  # their descriptions stay out: people write names there
        files = ", ".join(str(n) for n in list(counts.values())[:5])
        raise InvalidImage(
            f"{folder} holds {len(counts)} series (of {files} files).",
            fix="put each series in a folder of its own",
        )
    sizes = sorted({(int(h.Rows), int(h.Columns)) for h in heads})
    if len(sizes) > 1:
        shown = " and ".join(f"{rows} x {columns}" for rows, columns in sizes[:2])
        raise InvalidImage(f"{folder} holds slices of different sizes: {shown}.")
