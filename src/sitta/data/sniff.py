"""What a file is, by its first bytes; and what its name says it is."""

from __future__ import annotations

import gzip
import stat
import zlib
from pathlib import Path
from typing import NoReturn

from sitta.errors import InvalidImage

SUFFIXES = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".gif": "GIF",
    ".bmp": "BMP",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".nii": "NIfTI",
    ".nii.gz": "NIfTI",
    ".dcm": "DICOM",
    ".dicom": "DICOM",
    ".ima": "DICOM",
}
READABLE = (
    "PNG, JPEG, GIF, BMP, TIFF, NIfTI (.nii, .nii.gz), DICOM (a file or the folder of a series)"
)
OPENINGS = {
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"GIF87a": "GIF",
    b"GIF89a": "GIF",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"II+\0": "TIFF",  # BigTIFF
    b"MM\0+": "TIFF",
}
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
BITMAPS = {12, 40, 52, 56, 64, 108, 124}  # lengths of the second header of a BMP
ENVELOPED = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x03"  # CMS, as on DICOM's secure media
HEAD = 540 + 4


def suffix(path: Path) -> str:
    """The ending of a name that tells its format, in small letters; '' if there is none.

    Example:
        >>> suffix(Path("T2w.NII.GZ")), suffix(Path("IM0001")), suffix(Path("a.b.png"))
        ('.nii.gz', '', '.png')
    """
    name = path.name.lower()
    fitting = (s for s in SUFFIXES if name.endswith(s) and name != s)
    return max(fitting, key=len, default="")


def stem(path: Path) -> str:
    """The name without the ending that tells its format.

    Example:
        >>> stem(Path("scan.v2.nii.gz")), stem(Path("IM0001")), stem(Path("a.b.png"))
        ('scan.v2', 'IM0001', 'a.b')
    """
    return path.name[: len(path.name) - len(suffix(path))]


def sniff(path: Path) -> str:
    """The format of a file by its content; refuses what is none, or what its name denies."""
    head = _head(path)
    if not head:
        raise InvalidImage(f"{path} is empty (0 bytes).", fix="copy or export it again")
    found, promised = _kind(path, head), SUFFIXES.get(suffix(path))
    if found is None and promised == "DICOM" and is_bare(head):
        return "DICOM"
    if found is None:
        _refuse(path, head, promised)
    if promised and found != promised:
        raise InvalidImage(
            f"{path} is named as {promised}, but its content is {found}.",
            fix=f"give it the ending of a {found} file",
        )
    return found


def _head(path: Path) -> bytes:
    if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe or a device may never end
        raise InvalidImage(f"{path} is neither a file nor a folder.")
    with open(path, "rb") as file:
        return file.read(HEAD)


def _kind(path: Path, head: bytes) -> str | None:
    if head[128:132] == b"DICM":
        return "DICOM"
    if head[:2] == b"\x1f\x8b":
        return "NIfTI" if _is_nifti(_unzipped(path)) else None
    if _is_nifti(head):
        return "NIfTI"
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in BITMAPS:
        return "BMP"
    return next((kind for opening, kind in OPENINGS.items() if head.startswith(opening)), None)


def _is_nifti(head: bytes) -> bool:
    return head[344:348] == b"n+1\0" or head[4:8] == b"n+2\0"


def is_bare(head: bytes) -> bool:
    """Whether this looks like a DICOM file of old: no preamble, a low group number first."""
    return len(head) > 8 and (head[0] in (2, 8) and head[1] == 0)


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
    if head[344:348] == b"ni1\0" or head[4:8] == b"ni2\0":
        raise InvalidImage(
            f"{path} is one half of a NIfTI pair (.hdr and .img).", fix="save it as one .nii file"
        )
    if promised:
        raise InvalidImage(
            f"{path} is named as {promised}, but its content is not.",
            fix="check that it is complete and not an archive, a web page or a pointer to a file",
        )
    raise InvalidImage(f"{path} is not an image that can be read.", allowed=READABLE)
