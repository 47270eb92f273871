"""Which files to predict: files, folders and patterns, each with the name of its output."""

from __future__ import annotations

import glob
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sitta.data.sniff import SUFFIXES, stem, suffix
from sitta.errors import InvalidSetting

MASK_SUFFIX = {"PNG": ".png", "TIFF": ".tif", "NIfTI": ".nii.gz", "DICOM": ".nii.gz"}


@dataclass(frozen=True)
class Item:
    """One input.

    Attributes:
        path: A file, or the folder of a DICOM series.
        name: What it is called in the summary: its path below what all inputs share.
        output: Where its mask goes, below the folder of masks.
    """

    path: Path
    name: str
    output: str

    def digest(self) -> str:
        """SHA-256 of its bytes; of a series, of all its files."""
        found = hashlib.sha256()
        for path in _files(self.path):
            found.update(path.name.encode())
            with open(path, "rb") as file:
                while part := file.read(1 << 20):
                    found.update(part)
        return found.hexdigest()


def find_inputs(given: Sequence[str | Path], out: Path) -> list[Item]:
    """Expand files, folders (at any depth) and patterns, without what lies in ``out``.

    A folder counts files with the ending of an image, and files without any ending that are DICOM;
    a folder of DICOM files of one series is one input. What is named itself always counts.

    Raises:
        InvalidSetting: Something is not there, or nothing is found.
    """
    paths: dict[Path, None] = {}
    homes: list[Path] = []
    for text in given:
        for path in _expanded(str(text)):
            found = list(_below(path, out.resolve())) if path.is_dir() else [path]
            paths.update(dict.fromkeys(p.resolve() for p in found))
            homes.append((path.parent if path in found else path).resolve())
    if not paths:
        raise InvalidSetting(
            f"There is no image in {', '.join(map(str, given))}.", allowed=", ".join(SUFFIXES)
        )
    return _named(sorted(paths), Path(os.path.commonpath(homes)))


def _expanded(text: str) -> list[Path]:
    if Path(text).exists():
        return [Path(text)]
    found = sorted(glob.glob(text, recursive=True)) if glob.has_magic(text) else []
    if not found:
        raise InvalidSetting(f"There is no file or folder {text!r}.")
    return [Path(p) for p in found]


def _below(folder: Path, out: Path) -> Iterable[Path]:
    """Images and series of a folder and of those below it."""
    if folder.resolve() == out or folder.name.startswith("."):
        return
    inside = [p for p in sorted(folder.iterdir()) if not p.name.startswith(".")]
    files = [p for p in inside if p.is_file() and p.name.upper() != "DICOMDIR"]
    slices = [p for p in files if _is_dicom(p)]
    if _is_series(slices):
        yield folder
    else:
        yield from slices
    yield from (p for p in files if suffix(p) and p not in slices)
    for path in inside:
        if path.is_dir():
            yield from _below(path, out)


def _is_dicom(path: Path) -> bool:
    """By its name, or by its first bytes if it has none that tells."""
    if suffix(path):
        return SUFFIXES[suffix(path)] == "DICOM"
    with open(path, "rb") as file:
        return file.read(132)[128:] == b"DICM"


def _is_series(slices: Sequence[Path]) -> bool:
    """Whether several files are slices of one volume: one series, or one that repeats."""
    if len(slices) < 2:
        return False
    import pydicom

    from sitta.data.formats.guard import QUIET

    series: Counter[str] = Counter()
    with QUIET:
        for path in slices:
            try:
                head = pydicom.dcmread(
                    path, specific_tags=["SeriesInstanceUID"], stop_before_pixels=True
                )
                series[str(head.get("SeriesInstanceUID", path))] += 1
            except Exception:
                return bool(series) and max(series.values()) > 1  # a broken slice among others
    return max(series.values()) > 1


def _files(path: Path) -> list[Path]:
    return sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]


def _named(paths: Sequence[Path], shared: Path) -> list[Item]:
    """Names below the folder that all inputs share, and outputs that do not collide."""
    names = [p.relative_to(shared) for p in paths]
    wanted = [_output(p, n) for p, n in zip(paths, names, strict=True)]
    often = Counter(wanted)
    return [
        Item(p, n.as_posix(), w if often[w] == 1 else n.as_posix() + suffix(Path(w)))
        for p, n, w in zip(paths, names, wanted, strict=True)
    ]


def _output(path: Path, name: Path) -> str:
    ending = suffix(path)
    kind = "DICOM" if path.is_dir() or not ending else SUFFIXES[ending]
    kept = ending if kind == "NIfTI" or kind == "TIFF" else MASK_SUFFIX.get(kind, ".png")
    return (name.parent / f"{stem(name)}{kept}").as_posix()
