"""Results to publish: every row and every split's means, without the names of files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from sitta.benchmark import rows
from sitta.errors import SittaError

MOST = 8_000_000  # bytes of rows.csv.gz: it goes into the repository
MEANS = (*rows.QUALITY, *(name for name in rows.TRUST if name != "notes"), "seconds")


def collect(found: pd.DataFrame, out: Path) -> None:
    """Write ``rows.csv.gz`` and ``splits.csv``.

    Args:
        found: As loaded from a results folder.
        out: Folder to write to.

    Raises:
        SittaError: The rows are too many for a repository.
    """
    unnamed = anonymous(found).sort_values([*rows.SPLIT, *rows.VARIANT, "image", "slice"])
    path = out / "rows.csv.gz"
    rows.write(unnamed, path, digits=4)
    if path.stat().st_size > MOST:
        size = f"{path.stat().st_size / 1e6:.1f} MB"
        path.unlink()
        raise SittaError(f"{path} is too large.", allowed=f"{MOST / 1e6:g} MB", got=size)
    rows.write(splits(unnamed), out / "splits.csv", digits=6)


def anonymous(found: pd.DataFrame) -> pd.DataFrame:
    """Images by number instead of name: names of files may identify people.

    The number is the image's place among the names of its domain, so that rows of different
    models on one image keep together. Numbers that were given so before stay.
    """
    names = found.groupby(["task", "target"])["image"]
    return found.assign(image=names.transform(_numbered))


def _numbered(names: pd.Series[str]) -> pd.Series[str]:
    known = names.unique()
    if set(known) == {str(n + 1) for n in range(len(known))}:
        return names
    return names.rank(method="dense").astype(int).astype(str)


def merge(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Rows of several runs of one plan, such as repeats on machines that share no disk.

    Of rows that several have, those of the first count.

    Args:
        parts: Each as loaded from a results folder, or from a ``rows.csv.gz`` of before.

    Raises:
        SittaError: Runs on other images: their numbers would not mean the same.
    """
    if len(parts) == 1:
        return parts[0]
    unnamed = [anonymous(part) for part in parts]
    sizes = [part.groupby(["task", "target"])["image"].nunique() for part in unnamed]
    counts = pd.concat(sizes).groupby(level=[0, 1]).nunique()
    if (counts > 1).any():
        where = ", ".join("/".join(domain) for domain in counts.index[counts > 1])
        raise SittaError(
            f"These results are of different images: {where}.",
            fix="collect runs of one plan on the same data, with the members of each target done",
        )
    return rows.distinct(pd.concat(unnamed, ignore_index=True))


def splits(found: pd.DataFrame) -> pd.DataFrame:
    """Means of every split, repeat and variant, over all images and over the draw (``scope``)."""
    parts = {"all": found, "drawn": found[found["drawn"]]}
    return pd.concat(
        [_means(part).assign(scope=scope) for scope, part in parts.items() if len(part)],
        ignore_index=True,
    )


def _means(part: pd.DataFrame) -> pd.DataFrame:
    groups = part.groupby([*rows.SPLIT, *rows.VARIANT], dropna=False, sort=False)
    means = groups[list(MEANS)].mean()
    means.insert(0, "images", groups.size())
    return means.reset_index()
