"""Results to publish: every row and every split's means, without the names of files.

Which images they are of is told by their number and a digest for each target.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from sitta._util.files import atomic_write
from sitta.bench.run.results import settings_of
from sitta.bench.stats import rows
from sitta.errors import SittaError

ROWS_LIMIT_MB = 8.0  # of rows.csv.gz, that a repository can hold
SAME = 6e-4  # Dice that differ by less are the same, with four digits
MEANS = (*rows.METRICS, *(name for name in rows.TRUST if name != "notes"), "seconds")
IMAGES_FILE = "images.csv"
TARGET = ["task", "target"]
IMAGES_COLUMNS = [*TARGET, "images", "digest"]
UNKNOWN = ""  # digest of rows that were published without one


@dataclass(frozen=True, eq=False)
class Part:
    """Results of one run, or of several that were put together."""

    rows: pd.DataFrame  # one for each image under each variant, images by number
    images: pd.DataFrame  # which images they are of, see ``survey``
    settings: Mapping[str, Any] = field(default_factory=dict)  # published rows have none

    @classmethod
    def load(cls, path: str | Path) -> Part:
        """From the folder of a run, or from a ``rows.csv.gz`` of before."""
        path, loaded = Path(path), rows.load(path)
        if not rows.cells(path):
            return cls(loaded, _published(rows.collected(path), loaded))
        return cls.of_run(loaded, settings_of(path))

    @classmethod
    def of_run(cls, named: pd.DataFrame, settings: Mapping[str, Any] | None = None) -> Part:
        """From rows in which images go by the names of their files."""
        return cls(anonymous(named), survey(named), settings or {})

    @property
    def has_digests(self) -> bool:
        """Whether there is a digest of all its targets."""
        return bool((self.images["digest"] != UNKNOWN).all())


def require_all_kept(part: Part, out: Path) -> None:
    """Refuse to replace collected rows with some that do not hold them all."""
    if not (out / "rows.csv.gz").is_file():
        return
    fix = f"give {out} too, choose another --out, or replace them with --overwrite"
    before = Part.load(out / "rows.csv.gz")
    try:
        _agreed_images([part, before])
    except SittaError as error:
        raise SittaError(f"{out} holds results of other images.", fix=fix) from error
    names = [*rows.CELL, *rows.VARIANT, "image", "slice"]
    kept = pd.concat([part.rows[names], before.rows[names]]).drop_duplicates()
    if lost := len(kept) - len(part.rows[names].drop_duplicates()):
        raise SittaError(f"{out} holds {lost:,} rows that are in none of these results.", fix=fix)


def collect(part: Part, out: Path, limit_mb: float = ROWS_LIMIT_MB) -> None:
    """Write ``rows.csv.gz``, ``images.csv`` and ``splits.csv``; too many rows change no file."""
    ordered = part.rows.sort_values([*rows.CELL, *rows.VARIANT, "image", "slice"])
    path = out / "rows.csv.gz"
    with atomic_write(path) as draft:
        rows.write(ordered, draft, digits=4)
        if (size := draft.stat().st_size / 1e6) > limit_mb:
            raise SittaError(
                f"{path} would be too large for most repositories.",
                allowed=f"{limit_mb:g} MB",
                got=f"{size:.1f} MB",
                fix="give another --limit, or leave rows out",
            )
    rows.write(part.images, out / IMAGES_FILE)
    rows.write(splits(ordered), out / "splits.csv", digits=6)


def anonymous(named: pd.DataFrame) -> pd.DataFrame:
    """Images by number instead of name: names of files may identify people.

    The number is the image's place among the names of its domain, so that rows of different
    models on one image keep together.
    """
    names = named.groupby(["task", "target"])["image"]
    return named.assign(image=names.rank(method="dense").astype(int).astype(str))


def survey(named: pd.DataFrame) -> pd.DataFrame:
    """The images of each target: task, target, how many, and a digest of their names and slices.

    The digest is the same for the same images in any order, and no name can be read from it.
    """
    targets = []
    for (task, target), part in named.groupby(TARGET, sort=True):
        slices = part["slice"].fillna(0).astype(int).tolist()
        pairs = sorted({*zip(part["image"].astype(str), slices, strict=True)})
        digest = hashlib.sha256(json.dumps(pairs).encode()).hexdigest()
        targets.append((task, target, len(pairs), digest))
    return pd.DataFrame(targets, columns=IMAGES_COLUMNS)


def _published(path: Path, loaded: pd.DataFrame) -> pd.DataFrame:
    """As ``survey``, of published rows and with the digests in the file beside them, if any."""
    counted = survey(loaded).assign(digest=UNKNOWN)  # theirs are numbers, and tell nothing
    beside = path.with_name(IMAGES_FILE)
    if path.name != "rows.csv.gz" or not beside.is_file():
        return counted
    try:
        kinds = dict.fromkeys((*TARGET, "digest"), "str")
        kept = pd.read_csv(beside, dtype=kinds, keep_default_na=False)  # "NA" may name a target
        kept = kept[IMAGES_COLUMNS]
        fits = kept.sort_values(TARGET, ignore_index=True).drop(columns="digest")
    except (OSError, ValueError, KeyError) as error:
        raise SittaError(
            f"{beside} cannot be read ({type(error).__name__}).", allowed=",".join(IMAGES_COLUMNS)
        ) from error
    if not fits.equals(counted.drop(columns="digest")):
        raise SittaError(f"{beside} is not of the rows beside it.", fix="collect them again")
    return kept


def merge(parts: Sequence[Part]) -> Part:
    """Rows of several runs of one plan, such as repeats on machines that share no disk.

    Of rows that several have, those of the first count. Other images or settings are refused.
    """
    if len(parts) == 1:
        return parts[0]
    every = pd.concat([part.rows for part in parts], ignore_index=True)
    return Part(rows.distinct(every), _agreed_images(parts), _agreed_settings(parts))


def _agreed_images(parts: Sequence[Part]) -> pd.DataFrame:
    """One survey for several results of the same images; no digest where some have none."""
    every = pd.concat([part.images for part in parts])
    digests = every["digest"].where(every["digest"] != UNKNOWN)
    groups = every.assign(given=digests).groupby(TARGET, sort=True)
    differ = (groups["images"].nunique() > 1) | (groups["given"].nunique() > 1)
    if differ.any():
        where = ", ".join("/".join(target) for target in differ.index[differ])
        raise SittaError(
            f"These results are of different images: {where}.",
            fix="collect runs of one plan on the same data, with the members of each target done",
        )
    first = groups[["images", "digest"]].first()
    first["digest"] = first["digest"].where(groups["given"].count() == groups.size(), UNKNOWN)
    return first.reset_index()


def _agreed_settings(parts: Sequence[Part]) -> dict[str, Any]:
    """The settings of all of them; images are compared by their digests, not by sizes of files."""
    agreed: dict[str, Any] = {}
    for part in parts:
        own = {k: v for k, v in part.settings.items() if not k.startswith("images of ")}
        if other := sorted(k for k in own if agreed.setdefault(k, own[k]) != own[k]):
            raise SittaError(
                f"These results have other settings: {', '.join(other)}.",
                allowed="; ".join(f"{k} = {agreed[k]}" for k in other),
                fix="collect runs of one plan",
            )
    return agreed


def contradictions(parts: Sequence[Part]) -> int:
    """How many rows several of them have, with another Dice."""
    every = pd.concat([part.rows for part in parts], ignore_index=True)
    alike = every.groupby([*rows.CELL, *rows.VARIANT, "image", "slice"], dropna=False)["dice"]
    return int((alike.max() - alike.min() > SAME).sum())


def splits(every: pd.DataFrame) -> pd.DataFrame:
    """Means of every split, repeat and variant, over all images and over the draw (``scope``)."""
    parts = []
    for scope, part in (("all", every), ("drawn", every[every["drawn"]])):
        groups = part.groupby([*rows.CELL, *rows.VARIANT], dropna=False, sort=False)
        means = groups[list(MEANS)].mean()
        means.insert(0, "images", groups.size())
        parts += [means.reset_index().assign(scope=scope)] if len(part) else []
    return pd.concat(parts, ignore_index=True)
