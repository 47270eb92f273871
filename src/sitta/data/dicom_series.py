"""A folder that is a DICOM series: its files are the slices of one volume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sitta.data.detect import detect, named_format
from sitta.data.formats.dicom_file import Origin, has_size, load, take_values
from sitta.data.formats.dicom_file import read as read_file
from sitta.data.formats.dicom_geometry import arrange, place_of
from sitta.data.formats.errors import decoding
from sitta.data.image import Geometry, Image, check_size
from sitta.errors import InvalidImage


def read(folder: Path, limit: int) -> Image:
    """All DICOM files of a folder as one volume, sorted by position."""
    heads = _heads(folder, limit)
    _check_series(folder, list(heads.values()))
    slices = list(heads)
    if len(slices) == 1:
        return replace(read_file(slices[0], limit), path=folder)
    first = heads[slices[0]]
    check_size(folder, (len(slices), int(first.Rows), int(first.Columns)), limit)
    order, affine, spacing = arrange(folder, [place_of(p, head) for p, head in heads.items()])
    datasets, planes = [], []
    for path in (slices[i] for i in order):
        with decoding(path, "DICOM"):
            datasets.append(load(path, limit))
            planes.append(take_values(path, datasets[-1])[0])
    if any(p.shape != planes[0].shape or p.ndim != 3 for p in planes):
        raise InvalidImage(f"{folder} mixes files of different numbers of frames or colours.")
    pixels = np.stack(planes, axis=1)  # (C, D, H, W)
    geometry = Geometry(pixels.shape[1:], affine, spacing)
    return Image(pixels, geometry, "DICOM", folder, Origin(datasets))


def _heads(folder: Path, limit: int) -> dict[Path, Any]:
    """The headers of all images of a folder, by name."""
    heads = {}
    for path in sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith(".")):
        if path.name.upper() != "DICOMDIR" and _is_slice(path):
            with decoding(path, "DICOM"):
                heads[path] = load(path, limit, pixels=False)
    return {path: head for path, head in heads.items() if has_size(head)}


def _is_slice(path: Path) -> bool:
    """Whether this is DICOM; refuses a broken slice, passes over what lies beside the slices."""
    ending = path.suffix.lower()
    promised = named_format(path) == "DICOM" or not ending or ending[1:].isdigit()
    try:
        return detect(path) == "DICOM"
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
