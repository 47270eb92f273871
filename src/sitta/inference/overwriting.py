"""Before a run: nothing that it writes may replace an input, or the result of another input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sitta.errors import InvalidSetting
from sitta.inference.inputs import InputFile
from sitta.inference.outputs import FOLDERS, RECORDS, WHOLE, origin

SHOWN = 3  # conflicts in a message


def require_no_input_replaced(files: Sequence[InputFile], out: Path) -> None:
    """Refuse a run that writes where an input lies, under this or any other name of its file."""
    inputs = {_identity(path): path for file in files for path in file.files()}
    kinds = [p for p in out.glob("*") if p.name.startswith(FOLDERS)]
    for folder in {(kind / file.output).parent for kind in kinds for file in files}:
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.is_file() and _identity(path) in inputs:
                raise InvalidSetting(
                    f"{inputs[_identity(path)]} is an input, and this run would write its results "
                    f"beside it, to {folder}.",
                    fix="choose another folder for the results (-o)",
                )


def require_same_inputs(files: Iterable[InputFile], out: Path) -> None:
    """Refuse to replace results of other inputs, or files that no run of Sitta has written."""
    conflicts = [conflict for file in files for conflict in _conflicts(file, out)]
    if not (out / RECORDS).is_dir():
        conflicts += [name for name in WHOLE if (out / name).exists()]
    if conflicts:
        told = ", ".join(conflicts[:SHOWN])
        more = f" and {len(conflicts) - SHOWN} more" if len(conflicts) > SHOWN else ""
        raise InvalidSetting(
            f"{out} holds results of other inputs or programs: {told}{more}.",
            fix="choose another folder (-o), or replace them with --overwrite",
        )


def _conflicts(file: InputFile, out: Path) -> Iterator[str]:
    """What of another input would be replaced, with the input that it came from."""
    record = origin(out, file.name)
    if record is None:
        if (out / "masks" / file.output).exists():
            yield f"masks/{file.output}"
        return
    before = record.get("source")
    if before != str(file.path) and record["key"]["input"] != file.digest():
        yield f"{record['output']} (from {before or 'an unknown file'})"


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode, the same for all names of a file; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
