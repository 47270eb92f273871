"""Folders of cases through a trained nnU-Net, with Sitta's scores, notes, report and resume."""

from __future__ import annotations

import hashlib
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
from sitta._util.threads import use_threads
from sitta._util.untrusted import read_json, shown
from sitta.data.image import Array, Geometry, Image
from sitta.data.preprocess import Preprocess
from sitta.errors import InvalidImage, InvalidSetting, UnsupportedModel
from sitta.inference import Loaded, Request, Run
from sitta.inference import predict as run_files
from sitta.inference.inputs import InputFile, alike
from sitta.inference.outputs import Outputs
from sitta.inference.pipeline import FileResult, PreparedFile, described
from sitta.inference.worker import Worker, fingerprint
from sitta.integrations.nnunet import SittaPredictor, combined, quiet
from sitta.prediction.prediction import Prediction

PREFIX = "nnunet:"
CHECKPOINT = "checkpoint_final.pth"
ENDING = re.compile(r"(\.\w+){1,3}")  # of a file, such as .nii.gz
MOST_CHANNELS = 100
CHANNEL = re.compile(r"^(?P<case>.+)_(?P<channel>\d{4})$")


def _named(value: Any) -> bool:
    """Whether channels have names: a table, a list, or nothing, which is one channel."""
    return value is None or (isinstance(value, dict | list) and len(value) <= MOST_CHANNELS)


_DATASET: dict[str, Callable[[Any], bool]] = {
    "labels": lambda value: isinstance(value, dict) and bool(value),
    "file_ending": lambda value: isinstance(value, str) and bool(ENDING.fullmatch(value)),
    "channel_names": _named,
    "modality": _named,
}


@dataclass(frozen=True)
class TrainedFolder:
    """A folder that nnU-Net's training wrote."""

    path: Path
    folds: tuple[str, ...]  # such as ``0`` or ``all``

    @classmethod
    def of(cls, model: str, folds: Sequence[str] = ()) -> TrainedFolder:
        """The folder of ``nnunet:FOLDER``, with all folds that are there if none are named."""
        path = Path(model.removeprefix(PREFIX)).expanduser()
        missing = [n for n in ("dataset.json", "plans.json") if not (path / n).is_file()]
        if missing:
            raise UnsupportedModel(
                f"{path} is no folder of a trained nnU-Net: it has no {' and no '.join(missing)}.",
                allowed="the folder with dataset.json, plans.json and fold_0, fold_1, ...",
            )
        kept = path.glob(f"fold_*/{CHECKPOINT}")
        there = sorted(p.parent.name.removeprefix("fold_") for p in kept)
        unknown = [fold for fold in folds if fold not in there]
        if unknown or not there:
            raise InvalidSetting(
                f"{path} has no fold {', '.join(unknown)} with a {CHECKPOINT}."
                if unknown
                else f"{path} has no fold with a {CHECKPOINT}.",
                allowed=", ".join(there) or "a training that is finished",
            )
        named = tuple(folds) or tuple(fold for fold in there if fold != "all") or tuple(there)
        return cls(path, named)

    def require_trust(self, trusted: bool) -> None:
        """Refuse to open checkpoints that the user does not trust."""
        if not trusted:
            raise UnsupportedModel(
                "nnU-Net unpickles its checkpoints, which runs any code that they hold.",
                got=str(self.path),
                fix="--trust-checkpoint, if you trained it yourself or trust who did",
            )

    @property
    def digest(self) -> str:
        """SHA-256 of the plans and of the checkpoints of its folds."""
        whole = hashlib.sha256()
        checkpoints = [self.path / f"fold_{fold}" / CHECKPOINT for fold in self.folds]
        for path in (self.path / "plans.json", self.path / "dataset.json", *checkpoints):
            whole.update(path.relative_to(self.path).as_posix().encode())
            with open(path, "rb") as file:
                hashlib.file_digest(file, lambda: whole)
        return whole.hexdigest()

    @property
    def dataset(self) -> dict[str, Any]:
        """What training knew of its images."""
        path = self.path / "dataset.json"
        try:
            about = read_json(path.read_text(encoding="utf-8"), str(path))
        except UnicodeDecodeError as error:
            raise UnsupportedModel(f"{path} is no text ({error.reason}).") from error
        about = about if isinstance(about, dict) else {}
        wrong = [name for name, holds in _DATASET.items() if not holds(about.get(name))]
        if wrong:
            raise UnsupportedModel(
                f"{path} is not as nnU-Net writes it: '{wrong[0]}' cannot be used.",
                allowed="labels, file_ending and channel_names of the training",
                got=shown(about.get(wrong[0])),
            )
        return about

    @property
    def ending(self) -> str:
        """Of its files, such as ``.nii.gz``."""
        return str(self.dataset["file_ending"])

    @property
    def channels(self) -> int:
        """How many files make a case."""
        named = self.dataset.get("channel_names") or self.dataset.get("modality") or {"0": ""}
        return len(named)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of its foreground labels or regions."""
        return tuple(n for n in self.dataset["labels"] if n not in ("background", "ignore"))


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
        request = replace(request, method=request.method or "intent")
        self.request, self.overwrite, self.batch, self.trained = request, overwrite, 1, trained
        self.warnings: list[str] | None = []
        self.predictor = SittaPredictor(
            method=str(request.method),
            settings=request.settings,
            statistics=request.statistics or "volume",
            device=torch.device(pick_device(request.device)),
        )
        with quiet():
            where: Any = (str(trained.path), trained.folds, CHECKPOINT)
            self.predictor.initialize_from_trained_model_folder(*where)
            self._kit = self.predictor.configuration_manager.preprocessor_class(verbose=False)
            writer = self.predictor.plans_manager.image_reader_writer_class()
        self._require_one_stage()
        self._require_mixable()
        self.loaded = Loaded(
            request.model,
            self.predictor.network,
            Preprocess(),
            trained.classes,
            trained.digest,
            {"torch": str(torch.__version__), "nnunetv2": version("nnunetv2")},
            {"folds": list(trained.folds)},
        )
        settings = fingerprint(request, self.loaded)
        keeps = {"keep_header": True, "writer": writer.write_seg}  # the header is nnU-Net's own
        self.outputs = CaseOutputs(out, settings, trained.classes, **keeps)

    def _require_mixable(self) -> None:
        """Refuse a network without BatchNorm before any case."""
        try:
            self.predictor._fitted()
        except UnsupportedModel as error:
            fix = "--method source gives nnU-Net's own masks with a report"
            raise UnsupportedModel(error.what, got=error.got, fix=fix) from error

    def _require_one_stage(self) -> None:
        if self.predictor.configuration_manager.previous_stage_name is not None:
            raise UnsupportedModel(
                "This nnU-Net is the second stage of a cascade, which needs masks of the first.",
                fix="use its 2d, 3d_fullres or 3d_lowres configuration",
            )

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
    **how: Any,
) -> Run:
    """Predict cases with ``nnunet:FOLDER``; ``how`` is that of ``sitta.inference.predict``."""
    trained = TrainedFolder.of(request.model, folds)
    trained.require_trust(trust_checkpoint)
    _require_plain(request, how)

    def worker(*args: Any) -> Worker:
        return CaseWorker(*args, trained=trained)

    return run_files(request, inputs, out, find=Cases(trained), worker_of=worker, **how)


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
