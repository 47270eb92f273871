"""What a file is, by its first bytes; and what its name says it is."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

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
    b"GIF8": "GIF",
    b"BM": "BMP",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"II+\0": "TIFF",  # BigTIFF
    b"MM\0+": "TIFF",
}
ENCRYPTED = (
    b"Salted__",  # OpenSSL
    b"age-encryption.org",
    b"-----BEGIN PGP MESSAGE",
    b"\x85\x01",  # PGP, a session key packet
    b"\x85\x02",
    b"LUKS\xba\xbe",
    b"SQLite format 3\0enc",
)
ENVELOPED = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x03"  # CMS, as on DICOM's secure media
HEAD = 540 + 4


def suffix(path: Path) -> str:
    """The ending of a name that tells its format, in small letters; '' if there is none.

    Example:
        >>> suffix(Path("T2w.NII.GZ")), suffix(Path("IM0001")), suffix(Path("a.b.png"))
        ('.nii.gz', '', '.png')
    """
    name = path.name.lower()
    return next((s for s in sorted(SUFFIXES, key=len, reverse=True) if name.endswith(s)), "")


def stem(path: Path) -> str:
    """The name without the ending that tells its format.

    Example:
        >>> stem(Path("scan.v2.nii.gz")), stem(Path("IM0001")), stem(Path("a.b.png"))
        ('scan.v2', 'IM0001', 'a.b')
    """
    return path.name[: len(path.name) - len(suffix(path))]


def sniff(path: Path) -> str:
    """The format of a file by its content; refuses what is none, or what its name denies."""
    with open(path, "rb") as file:
        head = file.read(HEAD)
    if not head:
        raise InvalidImage(f"{path} is empty (0 bytes).", fix="copy or export it again")
    found, promised = _kind(path, head), SUFFIXES.get(suffix(path))
    if found is None and promised == "DICOM" and _looks_bare(head):
        return "DICOM"
    if found is None:
        _refuse(path, head, promised)
    if promised and found != promised:
        raise InvalidImage(
            f"{path} is named as {promised}, but its content is {found}.",
            fix=f"give it the ending of a {found} file",
        )
    return str(found)


def _kind(path: Path, head: bytes) -> str | None:
    if head[128:132] == b"DICM":
        return "DICOM"
    if head[:2] == b"\x1f\x8b":
        return "NIfTI" if _is_nifti(_unzipped(path, head)) else None
    if _is_nifti(head):
        return "NIfTI"
    return next((kind for opening, kind in OPENINGS.items() if head.startswith(opening)), None)


def _is_nifti(head: bytes) -> bool:
    return head[344:348] == b"n+1\0" or head[4:8] == b"n+2\0"


def _looks_bare(head: bytes) -> bool:
    """A DICOM file without preamble starts with a low group number."""
    return len(head) > 8 and head[0] in (2, 8) and head[1] == 0


def _unzipped(path: Path, head: bytes) -> bytes:
    try:
        with gzip.open(path) as file:
            return file.read(HEAD)
    except (EOFError, OSError, zlib.error) as error:
        raise InvalidImage(
            f"{path} is cut short or damaged: it cannot be unzipped ({error}).",
            fix="copy or download it again",
        ) from error


def _refuse(path: Path, head: bytes, promised: str | None) -> None:
    zipped_secret = head[:4] == b"PK\x03\x04" and bool(head[6] & 1)
    if head.startswith(ENCRYPTED) or ENVELOPED in head[:64] or zipped_secret:
        raise InvalidImage(f"{path} is encrypted.", fix="decrypt it first")
    if head[344:348] == b"ni1\0":
        raise InvalidImage(
            f"{path} is one half of a NIfTI pair (.hdr and .img).", fix="save it as one .nii file"
        )
    if promised:
        raise InvalidImage(
            f"{path} is named as {promised}, but its content is not.",
            fix="check that it is complete and not an archive, a web page or a pointer to a file",
        )
    raise InvalidImage(f"{path} is not an image that can be read.", allowed=READABLE)
