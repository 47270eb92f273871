"""Read an image of any format."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from sitta.data.detect import detect
from sitta.data.formats import FORMATS
from sitta.data.formats.errors import decoding
from sitta.data.image import MOST_VALUES, Array, Image
from sitta.errors import InvalidImage


def read(path: str | Path, limit: int = MOST_VALUES) -> Image:
    """Read an image or a volume, with its geometry and what is needed to write a mask back.

    Alpha channels are left out, EXIF orientation is followed, palettes become colours, a
    ``MONOCHROME1`` film is inverted, and values are rescaled as the header says.

    Args:
        path: A file of any format of ``sitta.data.formats``, or a folder that is a DICOM series.
        limit: Most values that a header may announce.

    Raises:
        InvalidImage: Not an image, damaged, cut short, mislabelled, encrypted, too large, or with
            pixels that are not finite numbers.
        OSError: The file does not exist or cannot be opened.
    """
    path = Path(path)
    kind = "DICOM" if path.is_dir() else detect(path)  # only a DICOM series is a folder
    with decoding(path, kind):
        image = _series(path, limit) if path.is_dir() else FORMATS[kind].read(path, limit)
        if image.pixels.dtype.kind == "f":
            bad = image.pixels.size - int(np.isfinite(image.pixels).sum())
            if bad:
                raise InvalidImage(
                    f"{path} has {bad:,} pixels that are not finite numbers.",
                    fix="replace NaN and infinity, e.g. by numpy.nan_to_num, and save it again",
                )
        indices = None if image.indices is None else _native(image.indices)
        return replace(image, pixels=_native(image.pixels), indices=indices)


def _series(folder: Path, limit: int) -> Image:
    from sitta.data import dicom_series  # loads pydicom

    return dicom_series.read(folder, limit)


def _native(values: Array) -> Array:
    """Contiguous and writeable, of a type and byte order that PyTorch can take over."""
    kind = values.dtype.newbyteorder("=")
    wide = kind.kind == "f" and kind.itemsize > 8
    return np.require(values, np.float64 if wide else kind, ["C_CONTIGUOUS", "WRITEABLE"])
