"""Predict files one after the other: what is broken fails alone, what is done is skipped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from sitta._util.deadline import Expired, deadline
from sitta._version import __version__
from sitta.data.image import OtherRange
from sitta.errors import DiskFull, InvalidImage, SittaError, is_out_of_memory
from sitta.inference.backends.onnx import Graph
from sitta.inference.contact import first_contact
from sitta.inference.inputs import InputFile
from sitta.inference.loading import Loaded, load_model
from sitta.inference.outputs import Outputs
from sitta.inference.pipeline import FileResult, PreparedFile, predict_prepared, prepare_file
from sitta.inference.request import Request

ON_GPU = 8  # files in one pass on a GPU, which six members of one small image do not fill

Record = dict[str, Any]
Attempt = tuple[InputFile, Record | None, str]  # a file with its record, or with what went wrong


class Stopped(SittaError):
    """The model cannot do what is asked of it; no other file is tried."""

    @classmethod
    def at(cls, file: InputFile, error: Exception) -> Stopped:
        """The same error, with the file at which it was found."""
        if isinstance(error, SittaError):
            how = {name: getattr(error, name) for name in ("allowed", "got", "fix")}
            return cls(f"{error.what} (Found at {file.name}; no other file was tried.)", **how)
        told = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return cls(
            f"The model fails on {file.name} ({told}); no other file was tried.",
            fix="try it by hand on that image; sitta profile check says more",
        )


class Worker:
    """Holds a model, predicts files with it and writes the results to a folder."""

    def __init__(
        self, request: Request, out: Path, overwrite: bool = False, threads: int | None = None
    ) -> None:
        np.ones((2, 2)) @ np.ones((2, 2))  # OpenBLAS without memory at its first product exits
        self.loaded = load_model(
            request.model, request.weights, request.preprocess, threads, request.reading
        )
        self.request, self.overwrite = self.loaded.resolved(request), overwrite
        request = self.request
        self.adapt = self.loaded.adapter(request, threads)
        settings = fingerprint(request, self.loaded)
        how = (request.keep_header, overwrite)
        self.outputs = Outputs(out, settings, self.loaded.classes, *how)
        model = self.loaded.model
        on_gpu = not isinstance(model, Graph) and any(p.is_cuda for p in model.parameters())
        self.batch = request.batch or (ON_GPU if on_gpu else 1)
        self.warnings: list[str] | None = None  # of the first contact; None before it
        self.works = False  # whether any file went all the way

    def open(self, file: InputFile) -> Record | PreparedFile:
        """The record of a file that was done before; else the file, ready for the model."""
        limit = self.request.file_timeout
        try:
            with deadline(limit):
                digest = file.digest()
                if not self.overwrite and (record := self.outputs.done(file, digest)):
                    return {**record, "before": True}
                return self.prepare(file, digest)
        except Expired:
            raise InvalidImage(
                f"{file.path} could not be read within {limit:g} seconds.",
                fix="check that it is not damaged, or allow more time with --file-timeout",
            ) from None

    def prepare(self, file: InputFile, digest: str) -> PreparedFile:
        """Read a file and bring it to what the model takes."""
        request = self.request
        return prepare_file(
            file,
            self.loaded.preprocess,
            request.pixel_size,
            digest,
            invert=request.invert,
            rotate=request.rotate,
        )

    def meet(self, prepared: PreparedFile) -> None:
        """Check the first file that could be read; raises ``Stopped`` if no file would go well."""
        if self.warnings is not None:
            return
        window = self.request.window or self.loaded.profile.window
        try:
            self.warnings = first_contact(self.loaded, prepared.values, window)
        except SittaError as error:
            raise Stopped.at(prepared.file, error) from error

    def predict(self, files: Sequence[PreparedFile]) -> list[FileResult]:
        """One file; or images of equal size, in one pass.

        An error of the model before any file went well stops the run: no other would fare better.
        """
        request, profile = self.request, self.loaded.profile
        save = frozenset(request.save)
        try:
            results = predict_prepared(
                files, self.adapt, save, request.at_once, profile, request.min_dice
            )
        except (InvalidImage, OSError):
            raise
        except Exception as error:
            if self.works or is_out_of_memory(error):
                raise
            raise Stopped.at(files[0].file, error) from error
        self.works = True
        return results

    def write(self, prepared: PreparedFile, result: FileResult) -> Record:
        """Put a result on the disk."""
        record = self.outputs.write(prepared.file, result, prepared.digest)
        return {**record, "before": False}


def attempts(worker: Worker, files: Iterable[InputFile]) -> Iterator[Attempt]:
    """All files; neighbours of equal size, as many as the worker takes at once, in one pass."""
    group: list[PreparedFile] = []
    for file in files:
        try:
            opened = worker.open(file)
        except Exception as error:
            if worker.warnings is None and isinstance(error, OtherRange):  # first contact
                raise Stopped.at(file, error) from error
            yield file, None, sentence(file, error)
            continue
        if not isinstance(opened, PreparedFile):
            yield file, opened, ""
            continue
        worker.meet(opened)
        if group and not opened.goes_with(group[0]):
            yield from _emptied(worker, group)
        group.append(opened)
        if len(group) == worker.batch:
            yield from _emptied(worker, group)
    yield from _emptied(worker, group)


def _emptied(worker: Worker, group: list[PreparedFile]) -> Iterator[Attempt]:
    """Images in one pass. If that fails, each by itself, so that only what is broken is lost."""
    results: list[FileResult] = []
    if len(group) > 1:
        with suppress(Exception):  # of the model too: one of them alone will tell
            results = worker.predict(group)
    for number, prepared in enumerate(group):
        file = prepared.file
        try:
            result = results[number] if results else worker.predict([prepared])[0]
            yield file, worker.write(prepared, result), ""
        except Stopped:
            raise
        except DiskFull:  # no fault of this file: all others would fail as well
            raise
        except Exception as error:
            yield file, None, sentence(file, error)
    group.clear()


def sentence(file: InputFile, error: Exception) -> str:
    """What went wrong with a file."""
    if isinstance(error, SittaError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.strerror or error}: {error.filename or file.path}"
    if is_out_of_memory(error):
        fix = "free memory, or try a smaller --size, or --window for a large image"
        return str(SittaError(f"There is not enough memory for {file.path}.", fix=fix))
    return f"{file.path}: {type(error).__name__}: {' '.join(str(error).split())}"


def fingerprint(request: Request, loaded: Loaded) -> str:
    """Changes with anything that changes a result."""
    profile = loaded.profile
    parts: list[Any] = [loaded.digest, request.method, sorted(request.settings.items())]
    windows = request.window or profile.window, request.statistics or profile.statistics
    parts += [sorted(request.save), *windows]
    parts += [loaded.preprocess.as_dict(), __version__]
    parts += [profile.reading] if profile.reading else []
    parts += [request.pixel_size] if request.pixel_size else []
    parts += ["keep header"] if request.keep_header else []
    parts += ["inverted"] if request.invert else []
    parts += [f"rotated {request.rotate}"] if request.rotate else []
    parts += [f"least Dice {request.min_dice}"] if request.min_dice is not None else []
    # By its content: a calibration beside a profile keeps its name when it is made again.
    parts += [dict(loaded.profile.calibration)] if loaded.profile.calibration else []
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()
