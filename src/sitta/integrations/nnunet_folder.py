"""A trained nnU-Net as its training left it: a folder with plans, checkpoints and what it read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sitta._util.untrusted import read_json, shown
from sitta.calibration.calibrate import fingerprint as fingerprint_of
from sitta.errors import InvalidSetting, SittaError, UnsupportedModel
from sitta.integrations.nnunet import NO_CLASSES, SittaPredictor, quiet
from sitta.prediction.calibration import calibration_from

PREFIX = "nnunet:"
CHECKPOINT = "checkpoint_final.pth"
ENDING = re.compile(r"(\.\w+){1,3}")  # of a file, such as .nii.gz
MOST_CHANNELS = 100
MOST_SHOWN = 300  # characters of what nnU-Net says


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
    calibration: Path | None = None  # of its one fold, as ``sitta calibrate`` writes it

    @classmethod
    def of(
        cls, model: str, folds: Sequence[str] = (), calibration: Path | None = None
    ) -> TrainedFolder:
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
        if calibration is not None and len(named) > 1:
            raise InvalidSetting(
                "A calibration belongs to one fold.",
                got=", ".join(named),
                fix=f"name the fold, such as --folds {named[0]}",
            )
        return cls(path, named, calibration)

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
        """SHA-256 of the plans, of the checkpoints of its folds and of the calibration."""
        whole = hashlib.sha256()
        checkpoints = [self.path / f"fold_{fold}" / CHECKPOINT for fold in self.folds]
        for path in (self.path / "plans.json", self.path / "dataset.json", *checkpoints):
            whole.update(path.relative_to(self.path).as_posix().encode())
            with open(path, "rb") as file:
                hashlib.file_digest(file, lambda: whole)
        if self.calibration is not None:
            whole.update(self.calibration.read_bytes())
        return whole.hexdigest()

    @property
    def about(self) -> dict[str, Any]:
        """What of it a run used, for its record."""
        held = {} if self.calibration is None else {"calibration": self.calibration.name}
        return {"folds": list(self.folds), **held}

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
        return tuple(n for n in self.dataset["labels"] if n not in NO_CLASSES)

    def predictor(self, **how: Any) -> SittaPredictor:
        """A predictor of its folds, with what its calibration says, if it has one."""
        held = None if self.calibration is None else calibration_from(self.calibration)
        if held is not None:
            how["settings"] = {**how.get("settings", {}), "calibration": held}
        made = SittaPredictor(**how)
        try:
            with quiet():
                made.initialize_from_trained_model_folder(str(self.path), self.folds, CHECKPOINT)
        except SittaError:
            raise
        except Exception as error:  # whatever its trainers and architectures raise
            raise UnsupportedModel(
                f"nnU-Net cannot load {self.path}.",
                got=f"{type(error).__name__}: {error}"[:MOST_SHOWN],
            ) from error
        if made.configuration_manager.previous_stage_name is not None:
            raise UnsupportedModel(
                "This nnU-Net is the second stage of a cascade, which needs masks of the first.",
                fix="use its 2d, 3d_fullres or 3d_lowres configuration",
            )
        if held is not None and held.weights != fingerprint_of(made.network):
            raise InvalidSetting(
                f"{self.calibration} was made with other weights.",
                fix="calibrate this fold: sitta calibrate nnunet:FOLDER --folds N --images FOLDER",
            )
        return made
