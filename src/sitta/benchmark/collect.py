"""Results to publish: every row and every split's means, without the names of files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from sitta.benchmark import images, rows
from sitta.errors import SittaError
from sitta.storage import finished

MOST = 8.0  # megabytes of rows.csv.gz that a repository can hold
ALIKE = 6e-4  # Dice that differ by less are the same, with four digits
MEANS = (*rows.QUALITY, *(name for name in rows.TRUST if name != "notes"), "seconds")


@dataclass(frozen=True, eq=False)
class Part:
    """Results of one run, or of several that were put together.

    Attributes:
        rows: One for each image under each variant, images by number.
        images: Which images they are of, as ``images.survey`` tells it.
        settings: What all its cells have in common; published rows do not say.
    """

    rows: pd.DataFrame
    images: pd.DataFrame
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, path: str | Path) -> Part:
        """From the folder of a run, or from a ``rows.csv.gz`` of before."""
        path, found = Path(path), rows.load(path)
        if not rows.cells(path):
            return cls(found, images.published(rows.collected(path), found))
        kept = path / "settings.json"
        return cls.of_run(found, json.loads(kept.read_text()) if kept.is_file() else {})

    @classmethod
    def of_run(cls, found: pd.DataFrame, settings: Mapping[str, Any] | None = None) -> Part:
        """From rows in which images go by the names of their files."""
        return cls(anonymous(found), images.survey(found), settings or {})

    @property
    def known(self) -> bool:
        """Whether there is a digest of all its images."""
        return bool((self.images["digest"] != images.UNKNOWN).all())


def collect(part: Part, out: Path, most: float = MOST) -> None:
    """Write ``rows.csv.gz``, ``images.csv`` and ``splits.csv``.

    Args:
        part: What to publish.
        out: Folder to write to.
        most: Megabytes that the rows may have.

    Raises:
        SittaError: The rows have more. What is in the folder stays as it is.
    """
    ordered = part.rows.sort_values([*rows.SPLIT, *rows.VARIANT, "image", "slice"])
    path = out / "rows.csv.gz"
    with TemporaryDirectory() as place:
        draft = Path(place) / path.name
        rows.write(ordered, draft, digits=4)
        if (size := draft.stat().st_size / 1e6) > most:
            raise SittaError(
                f"{path} would be too large for most repositories.",
                allowed=f"{most:g} MB",
                got=f"{size:.1f} MB",
                fix="give another --limit, or leave rows out",
            )
        with finished(path) as kept:
            shutil.copyfile(draft, kept)
    images.write(part.images, out)
    rows.write(splits(ordered), out / "splits.csv", digits=6)


def anonymous(found: pd.DataFrame) -> pd.DataFrame:
    """Images by number instead of name: names of files may identify people.

    The number is the image's place among the names of its domain, so that rows of different
    models on one image keep together.
    """
    names = found.groupby(["task", "target"])["image"]
    return found.assign(image=names.rank(method="dense").astype(int).astype(str))


def merge(parts: Sequence[Part]) -> Part:
    """Rows of several runs of one plan, such as repeats on machines that share no disk.

    Of rows that several have, those of the first count.

    Args:
        parts: Of each run.

    Raises:
        SittaError: Runs on other images or with other settings: their numbers would not mean the
            same.
    """
    if len(parts) == 1:
        return parts[0]
    agreed = images.agreed([part.images for part in parts])
    every = pd.concat([part.rows for part in parts], ignore_index=True)
    return Part(rows.distinct(every), agreed, _agreed_settings(parts))


def _agreed_settings(parts: Sequence[Part]) -> dict[str, Any]:
    """The settings of all of them; images are compared by their digests, not by sizes of files."""
    found: dict[str, Any] = {}
    for part in parts:
        known = {k: v for k, v in part.settings.items() if not k.startswith("images of ")}
        if other := sorted(k for k in known if found.setdefault(k, known[k]) != known[k]):
            raise SittaError(
                f"These results have other settings: {', '.join(other)}.",
                allowed="; ".join(f"{k} = {found[k]}" for k in other),
                fix="collect runs of one plan",
            )
    return found


def contradictions(parts: Sequence[Part]) -> int:
    """How many rows several of them have, with another Dice."""
    every = pd.concat([part.rows for part in parts], ignore_index=True)
    alike = every.groupby([*rows.SPLIT, *rows.VARIANT, "image", "slice"], dropna=False)["dice"]
    return int((alike.max() - alike.min() > ALIKE).sum())


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
