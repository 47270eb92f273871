"""The format of a file, by its first bytes and by its name."""

from __future__ import annotations

import gzip
import stat
import zlib
from pathlib import Path
from typing import NoReturn

from sitta.data.formats import FORMATS, Format
from sitta.errors import InvalidImage

ENCRYPTED = (
    b"Salted__",  # OpenSSL
    b"age-encryption.org",
    b"-----BEGIN AGE ENCRYPTED FILE",
    b"-----BEGIN PGP MESSAGE",
    b"\x84",  # PGP, packets of session keys
    b"\x85",
    b"\x8c\x0d\x04",
    b"LUKS\xba\xbe",
)
ENVELOPED = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x03"  # CMS, as on DICOM's secure media
GZIP = b"\x1f\x8b"
HEAD = 540 + 4


def suffixes() -> dict[str, str]:
    """The format that each ending of a file name stands for."""
    return {ending: each.name for each in FORMATS.values() for ending in each.suffixes}


def named_format(path: Path) -> str | None:
    """The format that a file's name stands for."""
    return suffixes().get(suffix(path))


def suffix(path: Path) -> str:
    """The ending of a name that stands for a format, in lower case; '' if there is none.

    Example:
        >>> suffix(Path("T2w.NII.GZ")), suffix(Path("IM0001")), stem(Path("scan.v2.nii.gz"))
        ('.nii.gz', '', 'scan.v2')
    """
    name = path.name.lower()
    fitting = (s for s in suffixes() if name.endswith(s) and name != s)
    return max(fitting, key=len, default="")


def stem(path: Path) -> str:
    """The name without the ending that stands for its format."""
    return path.name[: len(path.name) - len(suffix(path))]


def detect(path: Path) -> str:
    """The format of a file by its content; refuses other files, and names of another format."""
    try:
        mode = path.stat().st_mode
    except ValueError as error:
        raise InvalidImage(f"{str(path)!r} cannot be the name of a file.") from error
    if not stat.S_ISREG(mode):  # reading a pipe or a device may never end
        raise InvalidImage(f"{path} is neither a file nor a folder.")
    with open(path, "rb") as file:
        head = file.read(HEAD)
    if not head:
        raise InvalidImage(f"{path} is empty (0 bytes).", fix="copy or export it again")
    content, promised = _matching(path, head), named_format(path)
    if content is None and promised and FORMATS[promised].may_match(head):
        return promised
    if content is None:
        _refuse(path, head, promised)
    if promised and content.name != promised:
        raise InvalidImage(
            f"{path} is named as {promised}, but its content is {content.name}.",
            fix=f"give it the ending of a {content.name} file",
        )
    return content.name


def _matching(path: Path, head: bytes) -> Format | None:
    formats = list(reversed(FORMATS.values()))
    content = next((each for each in formats if each.matches(head)), None)
    if content is None and head[:2] == GZIP:
        head = _unzipped(path)
        content = next((each for each in formats if each.gzipped and each.matches(head)), None)
    return content


def _unzipped(path: Path) -> bytes:
    try:
        with gzip.open(path) as file:
            return file.read(HEAD)
    except (EOFError, OSError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the disk
            raise
        raise InvalidImage(
            f"{path} is cut short or damaged: it cannot be unzipped.",
            fix="copy or download it again",
        ) from error


def _refuse(path: Path, head: bytes, promised: str | None) -> NoReturn:
    zipped_secret = head[:4] == b"PK\x03\x04" and len(head) > 6 and bool(head[6] & 1)
    if head.startswith(ENCRYPTED) or ENVELOPED in head[:64] or zipped_secret:
        raise InvalidImage(f"{path} is encrypted.", fix="decrypt it first")
    for each in FORMATS.values():
        each.refuse_relative(path, head)
    if promised:
        raise InvalidImage(
            f"{path} is named as {promised}, but its content is not.",
            fix="check that it is complete and not an archive, a web page or a pointer to a file",
        )
    readable = (f"{each.name} ({', '.join(each.suffixes)})" for each in FORMATS.values())
    raise InvalidImage(
        f"{path} is not an image that can be read.",
        allowed=f"{', '.join(readable)}, or the folder of a DICOM series",
    )
