"""Read an image of any format, with clear words for what is none."""

from __future__ import annotations

import errno
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path

import numpy as np
from PIL.Image import DecompressionBombError

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
TALKATIVE = ("tifffile", "nibabel.global", "pydicom")
DAMAGE = {errno.EINVAL, None}  # what decoders raise for bad bytes; other numbers are the disk's
CUT_SHORT = ("truncat", "less than expected", "end of file", "eof", "end-of-stream", "incomplete")


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

        with _decoding(path, "DICOM"):
            return _checked(series.read(path, limit))
    kind = _sniffed(path)
    with _decoding(path, kind):
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


@contextmanager
def _decoding(path: Path, kind: str) -> Iterator[None]:
    """Whatever a decoder raises for bad bytes becomes one clear error.

    The decoders' own words are left out: they may quote the header, and with it the patient.
    """
    try:
        with QUIET:
            yield
    except SittaError:
        raise
    except (MemoryError, DecompressionBombError) as error:
        raise InvalidImage(
            f"{path} is too large to be decoded here.",
            fix="check that the file is what it seems; cut a real one into pieces",
        ) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in DAMAGE:
            raise
        damaged = _damaged(path, kind, error)
        raise damaged from (None if kind == "DICOM" else error)


def _damaged(path: Path, kind: str, error: Exception) -> InvalidImage:
    said = str(error).lower()
    cut = isinstance(error, EOFError) or any(word in said for word in CUT_SHORT)
    state = "cut short" if cut else "damaged"
    return InvalidImage(
        f"{path} is {state}: it cannot be read as {kind} ({type(error).__name__}).",
        fix="copy, download or export it again",
    )


class _Quiet:
    """Silences the decoders while at least one thread is decoding.

    Warning filters are common to all threads: if each thread saved and restored them by itself,
    one could restore what another had set, and leave warnings off for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._undo = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._undo.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
                for log in map(logging.getLogger, TALKATIVE):
                    self._undo.callback(setattr, log, "disabled", log.disabled)
                    log.disabled = True

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._undo.close()


QUIET = _Quiet()
