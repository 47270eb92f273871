"""All files of a review as one zip, made while it is sent."""

from __future__ import annotations

import io
import itertools
import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from sitta._version import __version__
from sitta.data.detect import stem
from sitta.inference.inputs import alike
from sitta.inference.outputs import summary_csv
from sitta.inference.title import method_title, titled
from sitta.prediction.decisions import CORRECTED, FILE, to_csv
from sitta.report.page import render
from sitta.serve.choice import Choice
from sitta.serve.render import Rendering
from sitta.serve.review import all_rows, plain
from sitta.serve.store import Entry

RECORD = "record.json"  # what the report needs of a result, beside its arrays


class _Sink(io.RawIOBase):
    """What a zip is written to: bytes that wait to be sent."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.parts.append(bytes(data))
        return len(self.parts[-1])

    def taken(self) -> bytes:
        content = b"".join(self.parts)
        self.parts.clear()
        return content


def packed(entries: Sequence[Entry]) -> Iterator[bytes]:
    """The bytes of the archive, file by file."""
    sink, records = _Sink(), list[dict[str, Any]]()
    taken = _folders(entry.answer["path"] for entry in entries)
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:  # masks are packed already
        for entry in entries:
            rendering = Rendering(entry)
            name = _free(entry.answer["path"], rendering.ending, taken)
            with entry.lock:
                archive.write(rendering.chosen(entry.review), f"masks/{name}")
                if entry.is_corrected:
                    corrected = rendering.written(Choice(CORRECTED), {})
                    archive.write(corrected, f"corrected/{name}")
            records.append(_record(entry, f"masks/{name}"))
            yield sink.taken()
        for name, text in _tables(entries, records):
            archive.writestr(name, text.encode("utf-8", "replace"), zipfile.ZIP_DEFLATED)
            yield sink.taken()
    yield sink.taken()


def _folders(paths: Iterable[str]) -> set[str]:
    """The folders of all files, whose names no file may have."""
    return {alike(parent.as_posix()) for path in paths for parent in PurePosixPath(path).parents}


def _free(path: str, ending: str, taken: set[str]) -> str:
    """A name that no file before has, nor any folder, on file systems of every kind."""
    base = PurePosixPath(path).with_name(stem(Path(path))).as_posix()
    numbered = (f"{base}-{number}{ending}" for number in itertools.count(2))
    names = itertools.chain([base + ending], numbered)
    name = next(name for name in names if alike(name) not in taken)
    taken.add(alike(name))
    return name


def _record(entry: Entry, output: str) -> dict[str, Any]:
    answer = entry.answer
    path = entry.folder / RECORD
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    named = {"name": answer["path"], "output": output, "classes": answer["classes"]}
    rows = [{"file": answer["path"], "seconds": answer["seconds"], **row} for row in answer["rows"]]
    return {**record, **named, "rows": rows}


def _tables(
    entries: Sequence[Entry], records: Sequence[dict[str, Any]]
) -> Iterator[tuple[str, str]]:
    decisions = list(all_rows(entries))
    yield "summary.csv", summary_csv(records)
    yield FILE, to_csv(decisions)
    drawn = [record for record in records if "picture" in record]
    if drawn:
        yield "report.html", render(_run(entries, drawn), drawn, plain(decisions))


def _run(entries: Sequence[Entry], records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the report says above its images."""
    answers = [entry.answer for entry in entries]
    models, methods = ({answer[name] for answer in answers} for name in ("model", "method"))
    slices = [answer["slices"] for answer in answers]
    settings = answers[0]["settings"] if len(methods) == 1 else {}
    names = ", ".join(sorted(models)), ", ".join(sorted(map(method_title, methods)))
    return {
        "title": titled(answers[0]["classes"], slices, models, methods),
        "model": names[0],
        "model_hash": answers[0]["id"],
        "method": names[1],
        "settings": settings,
        "started": "",
        "seconds": sum(answer["seconds"] for answer in answers),
        "counts": {"done": len(records), "skipped": 0, "failed": 0},
        "failures": [],
        "versions": {"sitta": __version__},
        "machine": "",
    }
