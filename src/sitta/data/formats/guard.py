"""Whatever decoders raise, warn and log becomes one clear error."""

from __future__ import annotations

import errno
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sitta.data.picture import TooLarge
from sitta.errors import InvalidImage, SittaError

TALKATIVE = ("tifffile", "nibabel.global", "pydicom")
DAMAGE = {errno.EINVAL, None}  # what decoders raise for bad bytes; other numbers are the disk's
TOO_LARGE = ("MemoryError", "DecompressionBombError")  # by name: Pillow need not be loaded for it
CUT_SHORT = ("truncat", "less than expected", "end of file", "eof", "end-of-stream", "incomplete")


@contextmanager
def decoding(path: Path, kind: str) -> Iterator[None]:
    """Whatever a decoder raises for bad bytes becomes one clear error.

    The decoders' own words are left out: they may quote the header, and with it the patient.
    """
    try:
        with QUIET:
            yield
    except SittaError:
        raise
    except Exception as error:
        if type(error).__name__ in TOO_LARGE:
            raise TooLarge(
                f"{path} is too large to be decoded here.",
                fix="check that the file is what it seems; cut a real one into pieces",
            ) from error
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
