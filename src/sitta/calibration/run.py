"""Calibrate from files: read a folder of in-domain images, and keep the result in a profile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sitta._util.process import OnProgress
from sitta.calibration.calibrate import MOST_IMAGES, calibrate
from sitta.calibration.journal import Journal
from sitta.data.domains import listed, subject_of
from sitta.data.images import read, read_mask
from sitta.data.preprocess import Preprocess
from sitta.data.samples import Samples, Split
from sitta.errors import InvalidImage, InvalidSetting
from sitta.prediction.calibration import Calibration

if TYPE_CHECKING:
    from torch import nn

FROM_TRAINING = 60  # images at the end of a training: those held out, and some that were not


@dataclass(frozen=True, eq=False)
class Folder:
    """In-domain images as the model takes them."""

    images: torch.Tensor  # (N, C, *s)
    masks: torch.Tensor | None  # (N, *s)
    subjects: tuple[str, ...]


def calibrate_folder(
    model: nn.Module,
    preprocess: Preprocess,
    classes: Sequence[str] | None,
    images: Path,
    masks: Path | None = None,
    *,
    public: bool = False,
    watch: OnProgress = lambda done, total: None,
    meet: Callable[[torch.Tensor], None] = lambda images: None,
    journal: Path | None = None,
) -> Calibration:
    """The calibration of a model from a folder of images, with or without masks of their names.

    Names of classes are needed with masks, and taken from the model's outputs if not given.
    ``meet`` is given the images before anything is computed, to refuse what cannot go well. The
    journal is a file that is kept until the calibration is done; with it, one that was stopped goes
    on.
    """
    folder = read_folder(preprocess, images, masks, len(classes or "-") + 1)
    meet(folder.images)
    return _calibrated(model, folder, classes, journal, public=public, watch=watch)


def _calibrated(
    model: nn.Module,
    given: Folder | Samples,
    classes: Sequence[str] | None,
    journal: Path | None,
    **how: Any,
) -> Calibration:
    kept = None if journal is None else Journal(journal)
    about: dict[str, Any] = {"subjects": given.subjects, "classes": classes, "journal": kept}
    return calibrate(model, given.images, given.masks, **about, **how)


def read_folder(preprocess: Preprocess, images: Path, masks: Path | None, classes: int) -> Folder:
    """Images of a folder, and of volumes their slices: of more than enough, an even choice."""
    files = _files(images)
    partners = {} if masks is None else _files(masks)
    alone = [name for name in files if masks is not None and name not in partners]
    if alone:
        raise InvalidImage(
            f"{len(alone)} images have no mask in {masks}, such as {alone[0]}.",
            fix="give masks the names of their images, or leave --masks out",
        )
    names = sorted(files)
    chosen = [
        names[i] for i in np.unique(np.linspace(0, len(names) - 1, MOST_IMAGES).round().astype(int))
    ]
    inputs, labels, subjects = [], [], []
    for name in chosen:
        image = read(files[name])
        ready = preprocess.apply(image)
        kept = range(len(ready.values))
        if masks is not None:
            mask = read_mask(partners[name], like=image, classes=classes)
            placed = ready.inverse.masks(mask, classes)
            kept = [n for n in kept if len(placed) == 1 or placed[n].any()]  # type: ignore[assignment]
            labels.append(torch.from_numpy(placed[list(kept)]))
        inputs.append(torch.from_numpy(ready.values[list(kept)]))
        subjects += [subject_of(name)] * len(kept)
    sides = {tuple(x.shape[1:]) for x in inputs}
    if len(sides) > 1:
        raise InvalidImage(
            f"The images in {images} differ in size as the model takes them.",
            fix="calibrate with a size and fit resize or crop",
        )
    return Folder(torch.cat(inputs), torch.cat(labels) if labels else None, tuple(subjects))


def first_of(folder: Path) -> Path:
    """The first image of a folder, by name."""
    return next(iter(_files(folder).values()))


def _files(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise InvalidSetting(f"There is no folder {folder}.", fix="give a folder of images")
    files = listed(folder)
    if not files:
        raise InvalidImage(f"{folder} holds no files.", fix="give a folder of images")
    return files


def calibrate_split(
    model: nn.Module,
    samples: Samples,
    parts: Split,
    classes: Sequence[str],
    *,
    public: bool = False,
    watch: OnProgress = lambda done, total: None,
    journal: Path | None = None,
) -> Calibration:
    """The calibration of a model that was trained on a part of these images.

    Images that were held out come first; others fill up to sixty, drawn at random.
    """
    seen = np.random.default_rng(0).permutation(list(parts.train)).tolist()
    chosen = [*parts.held_out, *seen[: max(0, FROM_TRAINING - len(parts.held_out))]][:MOST_IMAGES]
    how: dict[str, Any] = {"held_out": range(min(len(parts.held_out), MOST_IMAGES))}
    return _calibrated(model, samples[chosen], classes, journal, public=public, watch=watch, **how)
