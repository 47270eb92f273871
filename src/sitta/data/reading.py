"""Read an image of any format, with clear words for what is none."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np

from sitta.data.formats.guard import decoding
from sitta.data.picture import MOST_VALUES, Array, Image
from sitta.data.sniff import sniff
from sitta.errors import InvalidImage, SittaError

READERS = {
    "PNG": "raster",
    "JPEG": "raster",
    "GIF": "raster",
    "BMP": "raster",
    "TIFF": "tiff",
    "NIfTI": "nifti",
    "DICOM": "dicom",
}


def read(path: str | Path, limit: int = MOST_VALUES) -> Image:
    """Read an image or a volume, with what is needed to write a mask back.

    Alpha channels are left out, EXIF orientation is followed, palettes become colours, a
    ``MONOCHROME1`` film is inverted, and values are rescaled as the header says.

    Args:
        path: PNG, JPEG, GIF, BMP, TIFF, NIfTI, DICOM, or a folder that is a DICOM series.
        limit: Most values that a header may announce.

    Raises:
        InvalidImage: Not an image, damaged, cut short, mislabelled, encrypted, absurdly large, or
            with pixels that are not numbers.
        OSError: Not there, or not to be read.

    Example:
        >>> import numpy as np, tempfile
        >>> from PIL import Image as Pillow
        >>> path = Path(tempfile.mkdtemp()) / "film.png"
        >>> Pillow.fromarray(np.arange(12, dtype=np.uint16).reshape(3, 4)).save(path)
        >>> image = read(path)
        >>> image.pixels.shape, image.pixels.dtype, image.kind
        ((1, 3, 4), dtype('uint16'), 'PNG')
    """
    path = Path(path)
    if path.is_dir():
        from sitta.data.formats import series

        with decoding(path, "DICOM"):
            return _checked(series.read(path, limit))
    kind = _sniffed(path)
    with decoding(path, kind):
        reader = import_module(f"sitta.data.formats.{READERS[kind]}")
        image: Image = reader.read(path, limit)
        return _checked(image)


def _sniffed(path: Path) -> str:
    try:
        return sniff(path)
    except ValueError as error:
        if isinstance(error, SittaError):
            raise
        raise InvalidImage(f"{str(path)!r} cannot be the name of a file.") from error


def _checked(image: Image) -> Image:
    """Refuse pixels that are not numbers, and put the others in this machine's order of bytes."""
    if image.pixels.dtype.kind == "f":
        bad = image.pixels.size - int(np.isfinite(image.pixels).sum())
        if bad:
            raise InvalidImage(
                f"{image.path} has {bad:,} pixels that are not finite numbers.",
                fix="replace NaN and infinity, e.g. by numpy.nan_to_num, and save it again",
            )
    indices = None if image.indices is None else _native(image.indices)
    return Image(
        _native(image.pixels), image.geometry, image.kind, image.path, image.header, indices
    )


def _native(values: Array) -> Array:
    """Contiguous and writeable, of a type that PyTorch can take over."""
    kind = values.dtype.newbyteorder("=")
    wide = kind.kind == "f" and kind.itemsize > 8
    return np.require(values, np.float64 if wide else kind, ["C_CONTIGUOUS", "WRITEABLE"])
