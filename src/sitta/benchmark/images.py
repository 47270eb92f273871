"""Which images some results are of: their number and a digest for each target, and no name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from sitta.errors import SittaError
from sitta.storage import finished

FILE = "images.csv"
TARGET = ["task", "target"]
COLUMNS = (*TARGET, "images", "digest")
UNKNOWN = ""  # rows that were published without a digest


def survey(rows: pd.DataFrame) -> pd.DataFrame:
    """The images of each target: task, target, how many, and a digest of their names and slices.

    Args:
        rows: Results in which images go by the names of their files.

    Example:
        >>> row = {"task": "chest", "target": "mcu", "image": "a", "slice": 0}
        >>> found = survey(pd.DataFrame([row, row, {**row, "image": "b"}]))
        >>> found["images"].tolist(), len(found["digest"][0])
        ([2], 64)
    """
    found = []
    for (task, target), part in rows.groupby(TARGET, sort=True):
        pairs = set(zip(part["image"], part["slice"].fillna(0).astype(int), strict=True))
        found.append((task, target, len(pairs), _digest(pairs)))
    return pd.DataFrame(found, columns=list(COLUMNS))


def _digest(pairs: Iterable[tuple[str, int]]) -> str:
    """The same for the same names and slices in any order; nobody can read a name from it."""
    listed = sorted((str(name), int(number)) for name, number in pairs)
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()


def published(path: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """As ``survey``, of published rows: with the digests that stand beside them, if they do.

    Args:
        path: The ``rows.csv.gz``.
        rows: What it holds.

    Raises:
        SittaError: The file beside them is no such table, or is of other rows.
    """
    counted = survey(rows).assign(digest=UNKNOWN)  # theirs are numbers, and tell nothing
    beside = path.with_name(FILE)
    if path.name != "rows.csv.gz" or not beside.is_file():
        return counted
    try:
        kinds = dict.fromkeys((*TARGET, "digest"), "str")
        kept = pd.read_csv(beside, dtype=kinds, keep_default_na=False)  # "NA" may name a target
        kept = kept[list(COLUMNS)]
        fits = kept.sort_values(TARGET, ignore_index=True).drop(columns="digest")
    except (OSError, ValueError, KeyError) as error:
        raise SittaError(
            f"{beside} cannot be read ({type(error).__name__}).", allowed=",".join(COLUMNS)
        ) from error
    if not fits.equals(counted.drop(columns="digest")):
        raise SittaError(f"{beside} is not of the rows beside it.", fix="collect them again")
    return kept


def write(found: pd.DataFrame, out: Path) -> None:
    """Write ``images.csv`` into a folder, whole or not at all."""
    with finished(out / FILE) as draft:
        draft.write_text(found.to_csv(index=False, lineterminator="\n"), encoding="utf-8")


def agreed(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One survey for several results of the same images; no digest where some have none.

    Raises:
        SittaError: Their images are others, by number or by digest.
    """
    every = pd.concat(parts)
    known = every["digest"].where(every["digest"] != UNKNOWN)
    groups = every.assign(known=known).groupby(TARGET, sort=True)
    differ = (groups["images"].nunique() > 1) | (groups["known"].nunique() > 1)
    if differ.any():
        where = ", ".join("/".join(target) for target in differ.index[differ])
        raise SittaError(
            f"These results are of different images: {where}.",
            fix="collect runs of one plan on the same data, with the members of each target done",
        )
    first = groups[["images", "digest"]].first()
    first["digest"] = first["digest"].where(groups["known"].count() == groups.size(), UNKNOWN)
    return first.reset_index()
