"""One clear error for whatever decoders raise, warn and log."""

from __future__ import annotations

import errno
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sitta.data.image import TooLarge
from sitta.errors import InvalidImage, SittaError

TALKATIVE = ("tifffile", "nibabel.global", "pydicom")
DAMAGE = {errno.EINVAL, None}  # what decoders raise for bad bytes; other numbers are the disk's
TOO_LARGE = ("MemoryError", "DecompressionBombError")  # by name: Pillow need not be loaded for it
CUT_SHORT = ("truncat", "less than expected", "end of file", "eof", "end-of-stream", "incomplete")


@contextmanager
def decoding(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a decoder raises for bad bytes into one clear error.

    The decoder's own message is left out: it may quote the header, and with it the patient.
    """
    try:
        with QUIET:
            yield
    except Exception as error:
        of_disk = isinstance(error, OSError) and error.errno not in DAMAGE
        if of_disk or isinstance(error, SittaError):
            raise
        if type(error).__name__ in TOO_LARGE:
            raise TooLarge(
                f"{path} is too large to be decoded here.",
                fix="check that the file is what it seems; cut a real one into pieces",
            ) from error
        message = str(error).lower()
        cut = isinstance(error, EOFError) or any(word in message for word in CUT_SHORT)
        raise InvalidImage(
            f"{path} is {'cut short' if cut else 'damaged'}: it cannot be read as {kind} "
            f"({type(error).__name__}).",
            fix="copy, download or export it again",
        ) from (None if kind == "DICOM" else error)


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
