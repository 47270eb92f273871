"""Results to publish: every row and every split's means, without the names of files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from sitta.benchmark import images, rows
from sitta.errors import SittaError

MOST = 8_000_000  # bytes of rows.csv.gz: it goes into the repository
MEANS = (*rows.QUALITY, *(name for name in rows.TRUST if name != "notes"), "seconds")


@dataclass(frozen=True, eq=False)
class Part:
    """Results of one run, or of several that were put together.

    Attributes:
        rows: One for each image under each variant.
        images: Which images they are of, as ``images.survey`` tells it.
    """

    rows: pd.DataFrame
    images: pd.DataFrame

    @classmethod
    def load(cls, path: str | Path) -> Part:
        """From the folder of a run, or from a ``rows.csv.gz`` of before."""
        path, found = Path(path), rows.load(path)
        if rows.cells(path):
            return cls(found, images.survey(found))
        return cls(found, images.published(rows.collected(path), found))

    @property
    def known(self) -> bool:
        """Whether there is a digest of all its images."""
        return bool((self.images["digest"] != images.UNKNOWN).all())


def collect(part: Part, out: Path) -> None:
    """Write ``rows.csv.gz``, ``images.csv`` and ``splits.csv``.

    Args:
        part: What to publish.
        out: Folder to write to.

    Raises:
        SittaError: The rows are too many for a repository.
    """
    unnamed = anonymous(part.rows).sort_values([*rows.SPLIT, *rows.VARIANT, "image", "slice"])
    path = out / "rows.csv.gz"
    rows.write(unnamed, path, digits=4)
    if path.stat().st_size > MOST:
        size = f"{path.stat().st_size / 1e6:.1f} MB"
        path.unlink()
        raise SittaError(f"{path} is too large.", allowed=f"{MOST / 1e6:g} MB", got=size)
    images.write(part.images, out)
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


def merge(parts: Sequence[Part]) -> Part:
    """Rows of several runs of one plan, such as repeats on machines that share no disk.

    Of rows that several have, those of the first count.

    Args:
        parts: Of each run.

    Raises:
        SittaError: Runs on other images: their numbers would not mean the same.
    """
    if len(parts) == 1:
        return parts[0]
    agreed = images.agreed([part.images for part in parts])
    unnamed = [anonymous(part.rows) for part in parts]
    return Part(rows.distinct(pd.concat(unnamed, ignore_index=True)), agreed)


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
