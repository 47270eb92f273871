"""Results as one table: a row for each image under each variant of each method."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from sitta._util.files import atomic_write
from sitta.bench import variant
from sitta.errors import SittaError
from sitta.prediction.scores import DOUBT, SCORES, every


class Metric(NamedTuple):
    """What tables need to know of a metric against the truth."""

    title: str
    higher_is_better: bool = True
    scale: float = 100.0


METRICS = {
    "dice": Metric("Dice"),
    "iou": Metric("IoU"),
    "hd95": Metric("HD95", higher_is_better=False, scale=1.0),  # pixels
    "surface_dice": Metric("Surface Dice"),
    "ece": Metric("ECE", higher_is_better=False),
}
SPLIT = ["task", "training", "source", "target"]
CELL = (*SPLIT, "repeat")  # what a run computes at once
VARIANT = variant.COLUMNS
# Which image, and whether it is in the seeded draw that gradient methods are run on.
IMAGE = ("image", "slice", "drawn")
_BEFORE = {score.before for score in SCORES.values()}
_SCORES = [score.name for score in every() if score is not DOUBT and score.name not in _BEFORE]
# The change stays last, as in the results that are published.
TRUST = (*sorted(_SCORES, key="change".__eq__), "notes")
BY_CLASS = "classes"  # Dice of each class of a task with several, as text
COLUMNS = (*CELL, *VARIANT, *IMAGE, *METRICS, *TRUST, "seconds", BY_CLASS)

TEXT: Any = dict.fromkeys(
    (*SPLIT, "method", "strategy", "settings", "image", "notes", BY_CLASS), "str"
)
OPTIONAL = {BY_CLASS, *SCORES}  # columns that rows of before may lack
PLAIN = "plain"  # training as the plan says; others are named in its [[retrained]]


def load(path: str | Path) -> pd.DataFrame:
    """The rows of a results folder, or of a ``rows.csv.gz`` that was collected from one."""
    files = cells(Path(path)) or [collected(Path(path))]
    return distinct(pd.concat([read(file) for file in files], ignore_index=True))


def cells(path: Path) -> list[Path]:
    """The files of a run, in which images have their names; none if this is no folder of a run."""
    return sorted(path.glob("cells/**/[!.]*.csv")) if path.is_dir() else []  # no drafts


def collected(path: Path) -> Path:
    """The one file of rows that were collected: this one, or that in this folder."""
    file = path / "rows.csv.gz" if path.is_dir() else path
    if not file.is_file():
        missing = f"There is no file or folder '{path}'."
        what = f"{path} holds no results." if path.is_dir() else missing
        raise SittaError(what, allowed="the folder of a benchmark run, or its rows.csv.gz")
    return file


def distinct(rows: pd.DataFrame) -> pd.DataFrame:
    """Each image under each variant once: of several rows the first."""
    return rows.drop_duplicates([*CELL, *VARIANT, "image", "slice"], ignore_index=True)


def read(path: Path) -> pd.DataFrame:
    """One file of rows."""
    missing = {name: [""] for name in COLUMNS if name not in TEXT}  # "NA" may name an image
    try:
        rows = pd.read_csv(path, dtype=TEXT, keep_default_na=False, na_values=missing)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        said = f"{path} is cut or damaged ({type(error).__name__})."
        raise SittaError(said, fix="copy or collect it again") from error
    except (OSError, ValueError, UnicodeDecodeError) as error:
        raise SittaError(f"{path} is not a table of results ({type(error).__name__}).") from error
    lacking = [name for name in COLUMNS if name not in rows and name not in OPTIONAL]
    if lacking:
        raise SittaError(f"{path} is not a table of results: no column {', '.join(lacking)}.")
    rows = rows.reindex(columns=list(COLUMNS))  # a score that is newer than the rows is not known
    return rows.assign(**{BY_CLASS: text_of(rows)})


def text_of(rows: pd.DataFrame) -> pd.Series:
    """The column of classes as text, empty where there is none."""
    return rows[BY_CLASS].astype("str").fillna("")


def by_class(dice: Mapping[str, float]) -> str:
    """The Dice of each class, as rows have it.

    Example:
        >>> by_class({"cord": 0.91, "grey matter": 0.5})
        'cord=0.91; grey matter=0.5'
    """
    return "; ".join(f"{name}={value:.6g}" for name, value in dice.items())


def each_class(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of several classes as rows of each, whose task is ``task: class``; others are left out.

    The Dice is that of the class; other metrics and scores stay those of the whole mask.
    """
    several = rows[text_of(rows) != ""]
    if several.empty:
        return several
    listed = several.assign(pair=several[BY_CLASS].str.split("; ")).explode("pair")
    names = listed["pair"].str.rpartition("=")
    task = listed["task"] + ": " + names[0]
    apart = listed.assign(task=task, dice=names[2].astype(float), **{BY_CLASS: ""})
    return apart.drop(columns="pair").reset_index(drop=True)


def write(rows: pd.DataFrame, path: Path, digits: int = 9) -> None:
    """Write rows whole or not at all, by default with all digits of float32; ``.gz`` compressed."""
    text = rows.to_csv(index=False, float_format=f"%.{digits}g").encode()
    with atomic_write(path) as draft:  # no time and no name in it: equal rows give equal bytes
        draft.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
