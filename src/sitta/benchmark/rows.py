"""Results as one table: a row for each image under each variant of each method."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import pandas as pd

from sitta.errors import SittaError
from sitta.storage import finished

# Which cell a row belongs to.
SPLIT = ("task", "training", "source", "target", "repeat")
VARIANT = ("method", "lam", "strategy", "members", "settings")
# Which image, and whether it is in the seeded draw that gradient methods are run on.
IMAGE = ("image", "slice", "drawn")
QUALITY = ("dice", "iou", "hd95", "surface_dice", "ece")
TRUST = ("agreement", "uncertainty", "disagreement", "distance", "area", "change", "notes")
COLUMNS = (*SPLIT, *VARIANT, *IMAGE, *QUALITY, *TRUST, "seconds")

HIGHER_IS_BETTER = {"dice": True, "iou": True, "hd95": False, "surface_dice": True, "ece": False}
TEXT = ("task", "training", "source", "target", "method", "strategy", "settings", "image", "notes")
PLAIN = "plain"  # training as the plan says; others are named in its [[retrained]]
MEMBERS = 6  # of InTEnt at its default step


def load(path: str | Path) -> pd.DataFrame:
    """The rows of a results folder, or of a ``rows.csv.gz`` that was collected from one.

    Args:
        path: Either of them.

    Raises:
        SittaError: There is nothing to read.
    """
    found = cells(Path(path)) or [collected(Path(path))]
    return distinct(pd.concat([read(file) for file in found], ignore_index=True))


def cells(path: Path) -> list[Path]:
    """The files of a run, in which images have their names; none if this is no folder of a run."""
    return sorted(path.glob("cells/**/[!.]*.csv")) if path.is_dir() else []  # no drafts


def collected(path: Path) -> Path:
    """The one file of rows that were collected: this one, or that in this folder."""
    if not path.is_dir():
        return path
    if not (path / "rows.csv.gz").is_file():
        raise SittaError(
            f"{path} holds no results.", allowed="the folder of a benchmark run, or its rows.csv.gz"
        )
    return path / "rows.csv.gz"


def distinct(rows: pd.DataFrame) -> pd.DataFrame:
    """Each image under each variant once: of several rows the first."""
    return rows.drop_duplicates([*SPLIT, *VARIANT, "image", "slice"], ignore_index=True)


def read(path: Path) -> pd.DataFrame:
    """One file of rows."""
    kinds: dict[str, Any] = dict.fromkeys(TEXT, "str")
    missing = {name: [""] for name in COLUMNS if name not in TEXT}  # "NA" may name an image
    try:
        rows = pd.read_csv(path, dtype=kinds, keep_default_na=False, na_values=missing)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SittaError(
            f"{path} is cut or damaged ({type(error).__name__}).", fix="copy or collect it again"
        ) from error
    except (OSError, ValueError, UnicodeDecodeError) as error:
        raise SittaError(f"{path} is not a table of results ({type(error).__name__}).") from error
    lacking = [name for name in COLUMNS if name not in rows]
    if lacking:
        raise SittaError(f"{path} is not a table of results: no column {', '.join(lacking)}.")
    return rows[list(COLUMNS)]


def write(rows: pd.DataFrame, path: Path, digits: int = 9) -> None:
    """Write rows, whole or not at all; compressed if the name ends in ``.gz``.

    Args:
        rows: Any table.
        path: Where to.
        digits: That matter; 9 are all that float32 has.
    """
    text = rows.to_csv(index=False, float_format=f"%.{digits}g").encode()
    with finished(path) as draft:  # no time and no name in it: equal rows give equal bytes
        draft.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def label(row: Any) -> str:
    """What people call a variant.

    Args:
        row: Anything with the attributes or keys of ``VARIANT``.

    Example:
        >>> label({"method": "tent", "lam": 0.5, "strategy": "", "members": 1, "settings": ""})
        'Tent, lambda 0.5'
    """
    method, lam, strategy, members, settings = (_value(row, name) for name in VARIANT)
    name = NAMES.get(method, method)
    if method == "source":
        name = "Source (no adaptation)" if lam == 1 else f"Fixed lambda {lam:g}"
    elif method == "intent":
        usual = strategy == "ent-baln" and members == MEMBERS and not settings
        name = "InTEnt" if usual else f"InTEnt {strategy}"
        name += f", {members} members" if members != MEMBERS else ""
    elif method != "oracle" and lam == lam:  # not NaN
        name += f", lambda {lam:g}"
    return f"{name} ({settings})" if settings else name


NAMES = {
    "source": "Source",
    "intent": "InTEnt",
    "oracle": "Oracle lambda",
    "tent": "Tent",
    "sar": "SAR",
    "fseg": "FSeg",
    "sita": "SITA",
    "memo": "MEMO",
}


def _value(row: Any, name: str) -> Any:
    return row[name] if isinstance(row, dict | pd.Series) else getattr(row, name)
