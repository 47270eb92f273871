"""What a run leaves on disk. Every file is whole at any moment, and a record says what is done."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sitta._util.files import atomic_write
from sitta._util.text import cell
from sitta.data.image import Array, Image
from sitta.data.images import shareable, stem, suffix, write_map, write_mask
from sitta.inference.inputs import InputFile
from sitta.inference.pipeline import FileResult
from sitta.prediction.scores import SCORES

# What a run makes below its folder begins so: ``masks``, and folders of maps.
FOLDERS = ("masks", "probability", "uncertainty", "member-")
CLAIM = ".claim"
COLUMNS = ("file", "slice", *SCORES, "notes", "seconds")
RECORDED = {"outputs", "rows", "name", "slices", "doubt", "member_names"}  # what a summary reads
PARTS = {"weight": "weights", "entropy": "entropies", "area": "areas"}  # of members, in a row


@dataclass(frozen=True)
class Outputs:
    """The folder of a run."""

    folder: Path
    settings: str  # a fingerprint of those of the run
    classes: tuple[str, ...]  # names of the foreground classes, for formats that hold them
    keep_header: bool = False  # whether masks carry free text and extensions of their image's

    def write(self, file: InputFile, result: FileResult, digest: str) -> dict[str, Any]:
        """Masks and maps of a file, then the record that they are done; without its picture.

        First a claim says whose they are: a run that is killed in between leaves no mask of
        unknown origin, and no record of other settings beside it.
        """
        path = record_path(self.folder, file.name)
        source = {"source": str(file.path)}
        claim = {**source, "output": f"masks/{file.output}", "key": {"input": digest}}
        _keep(path.with_suffix(CLAIM), claim)
        if self.done(file, digest) is None:  # else another process has just written the same
            path.unlink(missing_ok=True)
        names = result.names(self.classes)
        masks = {f"masks/{file.output}": (result.mask, names)}
        if result.mask.ndim == result.image.pixels.ndim:  # several labels: a file each
            masks = {
                f"masks/{_numbered(file.output, n)}": (result.mask[n - 1], (name,))
                for n, name in enumerate(names, start=1)
            }
        like = result.image if self.keep_header else shareable(result.image)
        for name, (mask, labels) in masks.items():
            self.write_mask(mask, self.folder / name, like, labels)
        maps = {f"{name}/{file.output}": values for name, values in result.maps.items()}
        for name, values in maps.items():
            write_map(values, self.folder / name, like)
        written = [*masks, *maps]
        about = {"output": written[0], "outputs": written, "key": self._key(digest)}
        with open(self.folder / written[0], "rb") as stream:  # by which a decision names its mask
            about["mask_sha256"] = hashlib.file_digest(stream, "sha256").hexdigest()
        about["classes"] = list(names)
        record = {**result.record, **source, **about}
        _keep(path, record)
        path.with_suffix(CLAIM).unlink(missing_ok=True)
        del record["picture"]
        return record

    def write_mask(self, mask: Array, path: Path, like: Image, labels: tuple[str, ...]) -> None:
        """One mask, in the geometry and the format of its image."""
        write_mask(mask, path, like, labels)

    def done(self, file: InputFile, digest: str) -> dict[str, Any] | None:
        """The record of a file that is done already, with the same bytes and settings."""
        record = _kept(record_path(self.folder, file.name))
        if record is None or not record.keys() >= RECORDED:
            return None
        there = all((self.folder / name).exists() for name in record["outputs"])
        record.pop("picture", None)
        return record if there and record["key"] == self._key(digest) else None

    def summary(self, records: Sequence[Mapping[str, Any]]) -> None:
        """``summary.csv``: a row for each image or slice."""
        with atomic_write(self.folder / "summary.csv") as draft:
            draft.write_bytes(summary_csv(records).encode())

    def sources(self, records: Sequence[Mapping[str, Any]]) -> None:
        """``outputs.csv``: from which input each mask and map came."""
        with (
            atomic_write(self.folder / "outputs.csv") as draft,
            open(draft, "w", encoding="utf-8", newline="") as stream,
        ):
            table = csv.writer(stream)
            table.writerow(["output", "input", "sha256"])
            for record in records:
                came_from = record.get("source", ""), record["key"]["input"]
                table.writerows(map(cell, (name, *came_from)) for name in record["outputs"])

    def report(self, run: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> None:
        """``run.json``; and ``report.html``, with pictures, which the records on the disk hold."""
        from sitta.report.page import write

        with atomic_write(self.folder / "run.json") as draft:
            draft.write_text(json.dumps(run, indent=2) + "\n", encoding="utf-8")
        kept = (record_path(self.folder, record["name"]) for record in records)
        full = [json.loads(path.read_text()) for path in kept]
        write(self.folder / "report.html", run, full)

    def _key(self, digest: str) -> dict[str, str]:
        """A record counts as long as neither file nor settings change."""
        return {"input": digest, "settings": self.settings}


def summary_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """The text of ``summary.csv``; records may differ in their members."""
    longest: list[str] = max((r["member_names"] for r in records), key=len, default=[])
    others = dict.fromkeys(name for record in records for name in record["member_names"])
    members = [*longest, *(name for name in others if name not in longest)]
    stream = io.StringIO(newline="")
    table = csv.writer(stream)
    table.writerow([*COLUMNS, *(f"{part}@{name}" for part in PARTS for name in members)])
    for record in records:
        own = record["member_names"]
        for row in record["rows"]:
            plain = (" ".join(v) if isinstance(v := row.get(k), list) else v for k in COLUMNS)
            parts = (_placed(row[part], own, members) for part in PARTS.values())
            table.writerow([*map(cell, plain), *(v for part in parts for v in part)])
    return stream.getvalue()


def origin(folder: Path, name: str) -> dict[str, Any] | None:
    """The record of an input of this name, or the claim of a run that was stopped."""
    path = record_path(folder, name)
    claims = (_kept(place) for place in (path, path.with_suffix(CLAIM)))
    return next((claim for claim in claims if claim is not None), None)


def _kept(path: Path) -> dict[str, Any] | None:
    """A record or a claim; None if there is none, or if it is damaged."""
    with suppress(OSError, ValueError, RecursionError):
        kept = json.loads(path.read_text(encoding="utf-8"))
        key = kept.get("key") if isinstance(kept, dict) else None
        whole = isinstance(key, dict) and isinstance(key.get("input"), str)
        return kept if whole and isinstance(kept.get("output"), str) else None
    return None


def record_path(folder: Path, name: str) -> Path:
    """Where a run keeps what it found out about an input."""
    short = hashlib.sha256(os.fsencode(name)).hexdigest()[:24]
    return folder / ".sitta" / f"{short}.json"


def written_bytes(folder: Path, record: Mapping[str, Any]) -> int:
    """Bytes on the disk of what a run wrote about an input."""
    paths = [record_path(folder, record["name"]), *(folder / name for name in record["outputs"])]
    return sum(path.stat().st_size for path in paths)


def _placed(values: Sequence[Any], own: Sequence[str], members: Sequence[str]) -> list[Any]:
    """Values of the members of one file under the names of all; None for one that did not run."""
    if list(own) == list(members):
        return list(values)
    by_member = dict(zip(own, values, strict=True))
    return [by_member.get(name) for name in members]


def _keep(path: Path, record: Mapping[str, Any]) -> None:
    content = json.dumps(record).encode()
    with atomic_write(path, len(content)) as draft:
        draft.write_bytes(content)


def _numbered(output: str, number: int) -> str:
    path = Path(output)
    return (path.parent / f"{stem(path)}-{number}{suffix(path)}").as_posix()
