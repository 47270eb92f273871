"""Which files to predict: files, folders and patterns, each with the name of its output."""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sitta.data.detect import named_format, stem, suffix, suffixes
from sitta.data.formats import FORMATS
from sitta.errors import InvalidImage, InvalidSetting

SERIES = "SeriesInstanceUID"


@dataclass(frozen=True)
class InputFile:
    """One input."""

    path: Path  # a file, or the folder of a DICOM series
    name: str  # what it is called in the summary: its path below what all inputs share
    output: str  # where its mask goes, below the folder of masks

    def files(self) -> list[Path]:
        """Its file; of a series, all of its files."""
        series = sorted(filter(Path.is_file, self.path.iterdir())) if self.path.is_dir() else []
        return series or [self.path]

    def digest(self) -> str:
        """SHA-256 of its bytes; of a series, of all its files."""
        if self.path.is_symlink() and not self.path.exists():
            raise InvalidImage(
                f"{self.path} is a link to {os.readlink(self.path)}, which is not there.",
                fix="fetch it first, such as with git annex get or dvc pull",
            )
        digest = hashlib.sha256()
        for path in self.files():
            digest.update(os.fsencode(path.name))
            with open(path, "rb") as file:
                hashlib.file_digest(file, lambda: digest)
        return digest.hexdigest()


def find_inputs(given: Sequence[str | Path], out: Path) -> list[InputFile]:
    """Expand files, folders (at any depth) and patterns, without what lies in ``out``.

    A folder counts files with the ending of an image, and files without any ending that are DICOM;
    a folder of DICOM files of one series is one input. What is named itself always counts.
    """
    paths: dict[Path, None] = {}
    homes: list[Path] = []
    for text in given:
        for path in map(_absolute, _expanded(str(text))):
            inputs = list(_below(path, {out.resolve()})) if path.is_dir() else [path]
            paths.update(dict.fromkeys(inputs))
            homes.append(path.parent if path in inputs else path)
    if not paths:
        places = ", ".join(f"'{place}'" for place in given)
        raise InvalidSetting(
            f"There is no image in {places}.",
            allowed=", ".join(suffixes()),
        )
    return _named(sorted(paths), Path(os.path.commonpath(homes)))


def _expanded(text: str) -> list[Path]:
    if Path(text).exists():
        return [Path(text)]
    matches = sorted(glob.glob(text, recursive=True)) if glob.has_magic(text) else []
    if not matches:
        raise InvalidSetting(f"There is no file or folder {text!r}.")
    return [Path(match) for match in matches]


def _absolute(path: Path) -> Path:
    """The path as given, symbolic links under their own names; only ``..`` is resolved."""
    if ".." not in path.parts:
        return path.absolute()
    return path.resolve() if path.name == ".." else path.parent.resolve() / path.name


def _below(top: Path, seen: set[Path]) -> Iterator[Path]:
    """Images and series of a folder and of those below it, each folder once.

    Links to folders come last: what they lead to is listed under its own name if it has one below
    ``top``, and a circle of links ends.
    """
    folders, links = [top], list[Path]()
    while folders or links:
        folder = folders.pop() if folders else links.pop()
        home = folder.resolve()
        if home in seen:
            continue
        seen.add(home)
        inside = [p for p in sorted(folder.iterdir()) if not p.name.startswith(".")]
        yield from _inputs_of(folder, inside)
        below = [p for p in reversed(inside) if p.is_dir()]
        folders += [p for p in below if not p.is_symlink()]
        links = [*(p for p in below if p.is_symlink()), *links]


def _inputs_of(folder: Path, inside: Sequence[Path]) -> Iterator[Path]:
    """Images of one folder, or the folder if it is a series.

    A link to an image that is not there counts, so that it fails by name: an archive that keeps
    its files elsewhere may not have fetched it.
    """
    files = [p for p in inside if p.is_file() or (p.is_symlink() and not p.exists())]
    slices = [p for p in files if p.is_file() and p.name.upper() != "DICOMDIR" and _is_dicom(p)]
    yield from [folder] if _is_series(slices) else slices
    yield from (p for p in files if suffix(p) and p not in slices)


def _is_dicom(path: Path) -> bool:
    """By its name, or by its first bytes if it has none that tells."""
    if suffix(path):
        return named_format(path) == "DICOM"
    with open(path, "rb") as file:
        return FORMATS["DICOM"].matches(file.read(132))


def _is_series(slices: Sequence[Path]) -> bool:
    """Whether several files are slices of one volume: one series, or one that repeats."""
    if len(slices) < 2:
        return False
    from sitta.data.formats.dicom_parse import parse_tags  # loads pydicom
    from sitta.data.formats.errors import QUIET

    series: Counter[str] = Counter()
    with QUIET:
        for path in slices:
            try:
                series[str(parse_tags(path, [SERIES]).get(SERIES, path))] += 1
            except Exception:  # a broken slice among others
                break
    return max(series.values(), default=0) > 1


def _named(paths: Sequence[Path], shared: Path) -> list[InputFile]:
    """Names below the folder that all inputs share, and outputs that do not collide.

    An output that several inputs would have, or that is the name of a folder, keeps the ending of
    its input, and gets a number if that is taken too.
    """
    names = [p.relative_to(shared) for p in paths]
    wanted = [_output(p, n) for p, n in zip(paths, names, strict=True)]
    folders = {alike(parent.as_posix()) for name in names for parent in name.parents}
    often = Counter([*map(alike, wanted), *folders])
    taken = set(often)
    files = []
    for path, name, output in zip(paths, names, wanted, strict=True):
        if often[alike(output)] > 1:
            output = _free(name.as_posix(), suffix(Path(output)), taken)
            taken.add(alike(output))
        files.append(InputFile(path, name.as_posix(), output))
    return files


def _free(name: str, ending: str, taken: set[str]) -> str:
    """A name that is not taken: with the ending, and a number if need be."""
    numbered = (f"{name}-{n}{ending}" for n in itertools.count(2))
    return next(n for n in itertools.chain([name + ending], numbered) if alike(n) not in taken)


def alike(name: str) -> str:
    """Names that some file systems take for one, in capitals or another form of Unicode."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _output(path: Path, name: Path) -> str:
    kind = "DICOM" if path.is_dir() else named_format(path) or "DICOM"
    ending = FORMATS[kind].mask_suffix or suffix(path)
    return (name.parent / f"{stem(name)}{ending}").as_posix()
