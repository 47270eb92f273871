"""What a run leaves on disk. Every file is whole at any moment, and a record says what is done."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sitta.data.images import stem, suffix, write_map, write_mask
from sitta.notes import NOTES
from sitta.runs.inputs import Item
from sitta.runs.one import Done
from sitta.storage import finished

PLAIN = (
    "file",
    "slice",
    "agreement",
    "uncertainty",
    "disagreement",
    "change",
    "distance",
    "area_source",
    "area",
    "notes",
    "seconds",
)


@dataclass(frozen=True)
class Outputs:
    """The folder of a run.

    Attributes:
        folder: Where everything goes.
        classes: Names of the foreground classes, for formats that hold them.
    """

    folder: Path
    classes: tuple[str, ...] = ("foreground",)

    def write(self, item: Item, done: Done, key: Mapping[str, str]) -> dict[str, Any]:
        """Masks and maps of a file first, then the record that says they are done."""
        names = done.names(self.classes)
        masks = {f"masks/{item.output}": (done.mask, names)}
        if done.mask.ndim == done.image.pixels.ndim:  # several labels: a file each
            pairs = enumerate(zip(done.mask, names, strict=True), start=1)
            masks = {
                f"masks/{_numbered(item.output, n)}": (one, (name,)) for n, (one, name) in pairs
            }
        for name, (mask, labels) in masks.items():
            write_mask(mask, self.folder / name, done.image, labels)
        maps = {f"{name}/{item.output}": values for name, values in done.maps.items()}
        for name, values in maps.items():
            write_map(values, self.folder / name, done.image)
        written = [*masks, *maps]
        record = {**done.record, "output": written[0], "outputs": written, "key": dict(key)}
        with finished(self._record(item.name)) as draft:
            draft.write_text(json.dumps(record))
        return record

    def done(self, item: Item, key: Mapping[str, str]) -> dict[str, Any] | None:
        """The record of a file that is done already, with the same bytes and settings."""
        try:
            record = json.loads(self._record(item.name).read_text())
        except (OSError, json.JSONDecodeError):
            return None
        there = all((self.folder / name).exists() for name in record["outputs"])
        return record if there and record.get("key") == dict(key) else None

    def full(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """A record with its picture."""
        found: dict[str, Any] = json.loads(self._record(str(record["name"])).read_text())
        return found

    def summary(self, records: Sequence[Mapping[str, Any]]) -> None:
        """``summary.csv``: a row for each image or slice."""
        lambdas: list[float] = next((r["lambdas"] for r in records), [])
        parts = ("weight", "entropy", "area")
        with (
            finished(self.folder / "summary.csv") as draft,
            open(draft, "w", encoding="utf-8", newline="") as file,
        ):
            table = csv.writer(file)
            table.writerow([*PLAIN, *(f"{part}@{lam:.2f}" for part in parts for lam in lambdas)])
            for row in (row for record in records for row in record["rows"]):
                plain = [" ".join(v) if isinstance(v := row[k], list) else v for k in PLAIN]
                table.writerow([*plain, *row["weights"], *row["entropies"], *row["areas"]])

    def manifest(self, run: Mapping[str, Any]) -> None:
        """``run.json``."""
        self._text("run.json", json.dumps(run, indent=2) + "\n")

    def report(self, run: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> None:
        """``report.html``."""
        from sitta.report.page import write

        write(self.folder / "report.html", run, records, NOTES)

    def _text(self, name: str, text: str) -> None:
        with finished(self.folder / name) as draft:
            draft.write_text(text, encoding="utf-8")

    def _record(self, name: str) -> Path:
        short = hashlib.sha256(name.encode()).hexdigest()[:24]
        return self.folder / ".sitta" / f"{short}.json"


def _numbered(output: str, number: int) -> str:
    path = Path(output)
    return (path.parent / f"{stem(path)}-{number}{suffix(path)}").as_posix()
