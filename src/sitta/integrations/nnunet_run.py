"""Folders of cases through a trained nnU-Net, with Sitta's scores, notes, report and resume."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sitta._util.devices import pick_device
from sitta._util.files import atomic_write
from sitta._util.process import OnProgress
from sitta._util.threads import use_threads
from sitta.adaptation import DEFAULT
from sitta.data.image import Array, Geometry, Image
from sitta.data.preprocess import Preprocess
from sitta.errors import InvalidImage, InvalidSetting, UnsupportedModel
from sitta.inference import Loaded, Request, Run
from sitta.inference import predict as run_files
from sitta.inference.inputs import InputFile, alike
from sitta.inference.outputs import Outputs
from sitta.inference.pipeline import FileResult, PreparedFile, described
from sitta.inference.worker import Worker, fingerprint
from sitta.integrations.nnunet import (
    MOST_WINDOWS,
    combined,
    quiet,
)
from sitta.integrations.nnunet_folder import TrainedFolder
from sitta.prediction.calibration import Calibration
from sitta.prediction.prediction import Prediction

CHANNEL = re.compile(r"^(?P<case>.+)_(?P<channel>\d{4})$")


@dataclass(frozen=True)
class Case(InputFile):
    """One case: a file for each channel."""

    parts: tuple[Path, ...] = ()

    def files(self) -> list[Path]:
        """The files of all channels."""
        return list(self.parts)


@dataclass(frozen=True)
class Cases:
    """Finds the cases of a folder by nnU-Net's names, ``CASE_0000.nii.gz`` for channel 0."""

    trained: TrainedFolder

    def __call__(self, given: Sequence[str | Path], out: Path) -> list[Case]:
        """Cases of files and folders; in a model of one channel, the number may be left out."""
        files = [path for item in given for path in self._listed(Path(item))]
        cases: dict[str, dict[int, Path]] = {}
        for path in files:
            name, channel = self._split(path)
            parts = cases.setdefault(name, {})
            if channel in parts and parts[channel] != path:
                raise InvalidSetting(
                    f"Two files are channel {channel} of case {name}.",
                    got=f"{parts[channel]} and {path}",
                    fix="predict them in runs of their own",
                )
            parts[channel] = path
        if not cases:
            raise InvalidSetting(
                f"There is no case in {', '.join(map(str, given))}.",
                allowed=f"files that end with {self.trained.ending}",
            )
        listed = [self._case(name, cases[name]) for name in sorted(cases)]
        first: dict[str, str] = {}
        for case in listed:
            if (other := first.setdefault(alike(case.output), case.name)) != case.name:
                raise InvalidSetting(
                    "Two cases have names that some file systems take for one.",
                    got=f"{other} and {case.name}",
                    fix="rename one, or predict them into folders of their own",
                )
        return listed

    def _listed(self, item: Path) -> list[Path]:
        ending = self.trained.ending
        if item.is_dir():
            return sorted(p.absolute() for p in item.iterdir() if p.name.endswith(ending))
        if not item.is_file():
            raise InvalidSetting(f"There is no file or folder '{item}'.")
        if not item.name.endswith(ending):
            raise InvalidSetting(
                f"{item} is not a file of the kind that this nnU-Net was trained on.",
                allowed=f"files that end with {ending}",
            )
        return [item.absolute()]

    def _split(self, path: Path) -> tuple[str, int]:
        stem = path.name.removesuffix(self.trained.ending)
        match = CHANNEL.match(stem)
        if match:
            return match["case"], int(match["channel"])
        return stem, 0

    def _case(self, name: str, parts: dict[int, Path]) -> Case:
        wanted = range(self.trained.channels)
        if sorted(parts) != list(wanted):
            raise InvalidSetting(
                f"Case {name} does not have the channels that this nnU-Net takes.",
                allowed=", ".join(f"{name}_{n:04d}{self.trained.ending}" for n in wanted),
                got=", ".join(path.name for path in parts.values()),
            )
        output = name + self.trained.ending
        return Case(parts[0], output, output, tuple(parts[n] for n in wanted))


@dataclass(frozen=True)
class CaseOutputs(Outputs):
    """Masks are written by nnU-Net's own writer, from what its preprocessing noted of a case."""

    writer: Callable[[Array, str, dict[str, Any]], None] = field(kw_only=True)

    def write_mask(self, mask: Array, path: Path, like: Image, labels: tuple[str, ...]) -> None:
        """One mask; the image's header holds the properties of its case."""
        with atomic_write(path) as draft, quiet():
            self.writer(mask, str(draft), like.header)


class CaseWorker(Worker):
    """Predicts cases with a trained nnU-Net."""

    def __init__(
        self,
        request: Request,
        out: Path,
        overwrite: bool = False,
        threads: int | None = None,
        *,
        trained: TrainedFolder,
    ) -> None:
        use_threads(threads)
        request = replace(request, method=request.method or DEFAULT)
        self.request, self.overwrite, self.batch, self.trained = request, overwrite, 1, trained
        self.warnings: list[str] | None = []
        self.predictor = trained.predictor(
            method=str(request.method),
            settings=request.settings,
            statistics=request.statistics or "volume",
            device=torch.device(pick_device(request.device)),
        )
        with quiet():
            self._kit = self.predictor.configuration_manager.preprocessor_class(verbose=False)
            writer = self.predictor.plans_manager.image_reader_writer_class()
        self._require_mixable()
        self.loaded = Loaded(
            request.model,
            self.predictor.network,
            Preprocess(),
            trained.classes,
            trained.digest,
            {"torch": str(torch.__version__), "nnunetv2": version("nnunetv2")},
            trained.about,
        )
        settings = fingerprint(request, self.loaded)
        keeps: dict[str, Any] = {"keep_header": True}  # the header is nnU-Net's own
        keeps |= {"overwrite": overwrite, "writer": writer.write_seg}
        self.outputs = CaseOutputs(out, settings, trained.classes, **keeps)

    def _require_mixable(self) -> None:
        """Refuse a network without BatchNorm or a calibration before any case."""
        try:
            self.predictor._fitted()
        except UnsupportedModel as error:
            fix = "--method source gives nnU-Net's own masks with a report; sitta calibrate makes "
            fix += "a calibration of one fold for Adapt (experimental)"
            raise UnsupportedModel(error.what, got=error.got, fix=fix) from error

    def prepare(self, file: InputFile, digest: str) -> PreparedFile:
        """Read and preprocess a case as nnU-Net does."""
        start, p = time.perf_counter(), self.predictor
        paths = [str(path) for path in file.files()]
        with quiet():
            how = (p.plans_manager, p.configuration_manager, p.dataset_json)
            data, _, properties = self._kit.run_case(paths, None, *how)
        if not np.isfinite(data).all():
            raise InvalidImage(
                f"{file.path} holds values that are not finite numbers.",
                fix="replace them before, as in training",
            )
        back = p.plans_manager.transpose_backward
        shape = tuple(int(properties["shape_before_cropping"][axis]) for axis in back)
        nothing = np.broadcast_to(np.float32(0), (1, *shape))
        image = Image(nothing, Geometry(shape), "nnU-Net", file.path, header=properties)
        seconds = time.perf_counter() - start
        inverse = Preprocess(dims=3, size=None, fit="none").place(
            image
        )  # not used: nnU-Net brings it back
        return PreparedFile(file, image, data[None], inverse, seconds, digest)

    def predict(self, files: Sequence[PreparedFile]) -> list[FileResult]:
        """One case."""
        (prepared,) = files
        from nnunetv2.inference.export_prediction import (
            convert_predicted_logits_to_segmentation_with_correct_shape as to_labels,
        )

        start, p = time.perf_counter(), self.predictor
        with quiet(), torch.inference_mode():
            logits = p.predict_logits_from_preprocessed_data(torch.from_numpy(prepared.values[0]))
            how = (p.plans_manager, p.configuration_manager, p.label_manager, prepared.image.header)
            mask = np.asarray(to_labels(logits, *how, num_threads_torch=torch.get_num_threads()))
            record = Prediction(combined(p.predictions), batched=True).record
            parts = [replace(record, computed=dict(_all(record)))]
        about = described(prepared, parts, time.perf_counter() - start)
        classes = len(self.trained.classes)
        return [FileResult(prepared.image, mask, {}, about, prepared.inverse, classes)]


def _all(record: Any) -> list[tuple[str, Array]]:
    from sitta.prediction.scores import computed

    return [(name, record.computed[name]) for name in computed()]


def predict_folder(
    request: Request,
    inputs: Sequence[str | Path],
    out: str | Path,
    *,
    folds: Sequence[str] = (),
    trust_checkpoint: bool = False,
    calibration: Path | None = None,
    **how: Any,
) -> Run:
    """Predict cases with ``nnunet:FOLDER``; ``how`` is that of ``sitta.inference.predict``."""
    trained = TrainedFolder.of(request.model, folds, calibration)
    trained.require_trust(trust_checkpoint)
    _require_plain(request, how)

    def worker(*args: Any) -> Worker:
        return CaseWorker(*args, trained=trained)

    return run_files(request, inputs, out, find=Cases(trained), worker_of=worker, **how)


def calibrate_folder(
    model: str,
    images: Path,
    *,
    folds: Sequence[str] = (),
    trust_checkpoint: bool = False,
    device: str = "auto",
    watch: OnProgress = lambda done, total: None,
) -> Calibration:
    """The calibration of one fold of ``nnunet:FOLDER`` from a folder of in-domain cases."""
    trained = TrainedFolder.of(model, folds)
    trained.require_trust(trust_checkpoint)
    if len(trained.folds) > 1:
        raise InvalidSetting(
            "A calibration belongs to one fold.",
            allowed=", ".join(trained.folds),
            fix=f"name the fold, such as --folds {trained.folds[0]}",
        )
    worker = CaseWorker(Request(model, "source", device=device), images, trained=trained)
    cases = Cases(trained)([images], images)
    places = np.linspace(0, len(cases) - 1, min(len(cases), MOST_WINDOWS)).round().astype(int)
    values = (torch.from_numpy(worker.prepare(cases[n], "").values[0]) for n in places)
    return worker.predictor.calibrate(values, watch)


def _require_plain(request: Request, how: dict[str, Any]) -> None:
    """Refuse options that nnU-Net's own preprocessing and export leave no place for."""
    given = {
        "--save": request.save,
        "--window": request.window,
        "--weights": request.weights,
        "--pixel-size": request.pixel_size,
        "--keep-header": request.keep_header,
        "--batch": request.batch,
        "--invert": request.invert,
        "--rotate": request.rotate,
        "--ray": how.get("cluster"),
        **{f"--{name}": value for name, value in request.preprocess.items()},
    }
    wrong = [name for name, value in given.items() if value]
    if wrong:
        raise InvalidSetting(
            f"{', '.join(wrong)} cannot be used with an nnU-Net model, which reads, resamples "
            "and writes by its own plans.",
            fix="leave them out",
        )
