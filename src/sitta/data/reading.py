"""Read an image of any format, with clear words for what is none."""

from __future__ import annotations

import errno
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import numpy as np

from sitta.data.picture import MOST_VALUES, Image
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
TALKATIVE = ("tifffile", "nibabel.global", "pydicom")
DAMAGE = {errno.EINVAL, None}  # what decoders raise for bad bytes; other numbers are the disk's
CUT_SHORT = ("truncat", "less than expected", "end of file", "eof")


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
        from sitta.data.formats import dicom

        with _decoding(path, "DICOM"):
            return _finite(dicom.read_series(path, limit))
    kind = sniff(path)
    with _decoding(path, kind):
        reader = import_module(f"sitta.data.formats.{READERS[kind]}")
        image: Image = reader.read(path, limit)
    return _finite(image)


def _finite(image: Image) -> Image:
    """Refuse pixels that are not numbers."""
    if image.pixels.dtype.kind == "f":
        bad = int((~np.isfinite(image.pixels)).sum())
        if bad:
            raise InvalidImage(
                f"{image.path} has {bad:,} pixels that are not finite numbers.",
                fix="replace NaN and infinity, e.g. by numpy.nan_to_num, and save it again",
            )
    return image


@contextmanager
def _decoding(path: Path, kind: str) -> Iterator[None]:
    """Whatever a decoder raises for bad bytes becomes one clear error."""
    loggers = [log for name in TALKATIVE if not (log := logging.getLogger(name)).disabled]
    try:
        for log in loggers:
            log.disabled = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except SittaError:
        raise
    except MemoryError as error:
        raise InvalidImage(f"{path} is too large for the memory of this machine.") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in DAMAGE:
            raise
        said = str(error).lower()
        cut = isinstance(error, EOFError) or any(word in said for word in CUT_SHORT)
        state = "cut short" if cut else "damaged"
        raise InvalidImage(
            f"{path} is {state}: it cannot be read as {kind} ({_brief(error)}).",
            fix="copy, download or export it again",
        ) from error
    finally:
        for log in loggers:
            log.disabled = False


def _brief(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:120]}" if text else type(error).__name__
