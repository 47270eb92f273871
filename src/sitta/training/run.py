"""One training run: from a domain on disk to one checkpoint file."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from sitta._util.devices import pick_device
from sitta._version import __version__
from sitta.calibration.limits import limits
from sitta.calibration.run import calibrate_split
from sitta.data.domains import Domain
from sitta.data.preprocess import Preprocess
from sitta.data.samples import Samples, Split, load, split
from sitta.models import UNet, save
from sitta.prediction.calibration import Calibration
from sitta.training.callback import Callback
from sitta.training.loop import Fit
from sitta.training.recipe import Recipe
from sitta.training.run_folder import RunFolder

SAVE_EVERY = 20.0  # seconds: what a crash may cost


@dataclass(frozen=True)
class Job:
    """A model to train. Two runs of one job on one machine give the same weights, bit for bit."""

    domain: Domain  # its images and masks
    recipe: Recipe = field(default_factory=Recipe)
    preprocess: Preprocess = field(default_factory=Preprocess)
    preset: str = "compact"  # of the U-Net
    classes: tuple[str, ...] = ("foreground",)  # names of the classes from 1 on
    note: str = ""  # for users of the model, such as the licence of the data
    public: bool = False  # the images are public: means of few subjects may be kept

    @property
    def name(self) -> str:
        """Such as ``chest-mcu``."""
        return f"{self.domain.task}-{self.domain.name}"

    def settings(self) -> dict[str, Any]:
        """All that decides the weights, except the data and the machine."""
        return {
            "masks": self.domain.masks,
            "recipe": self.recipe.as_dict(),
            "preprocess": self.preprocess.as_dict(),
            "preset": self.preset,
            "classes": ["background", *self.classes],
        }

    def network(self) -> UNet:
        """The untrained network, drawn from the seed."""
        outputs = 1 if len(self.classes) == 1 else len(self.classes) + 1
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.recipe.seed)
            return UNet.preset(
                self.preset, self.preprocess.channels, outputs, dims=self.preprocess.dims
            )


@dataclass(frozen=True)
class Result:
    """The result of a run."""

    checkpoint: Path  # with the best weights
    dice: float  # their validation Dice
    epoch: int  # that reached it
    epochs: int  # that were run
    minutes: float  # that they took
    how: str  # images were held out, in words


def train(
    job: Job,
    out: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    compiled: bool = False,
    device: str = "auto",
    watch: Callback | None = None,
    save_every: float = SAVE_EVERY,
) -> Result:
    """Train a network on the images of one domain.

    Args:
        job: What to train.
        out: Folder for the checkpoint, the log, the curve and the state.
        resume: Continue the run in ``out``; the weights are those of an uninterrupted run.
        overwrite: Start again in a folder that holds a run.
        compiled: Use ``torch.compile``.
        device: ``cpu``, ``cuda``, or ``auto``: a GPU if there is one.
        watch: Receives every step and epoch.
        save_every: Seconds between saved states.
    """
    watch = watch or Callback()
    where = pick_device(device)
    folder = RunFolder(Path(out), job.name)
    state = folder.open(resume=resume, overwrite=overwrite)
    samples = load(job.domain, job.preprocess, len(job.classes) + 1, watch.files)
    parts = split(samples, job.recipe.validation, job.recipe.seed)
    sides = " x ".join(map(str, samples.images.shape[1:]))
    watch.say(f"{job.domain}: {len(samples)} images of {sides}; {parts.how}")
    if samples.left_out:
        watch.say(f"{samples.left_out} slices without a mask are taken for not annotated")
    folder.write("split.json", _names(samples, parts))
    fit = Fit(job.network(), job.recipe, samples[parts.train], samples[parts.held_out], where)
    if compiled:
        fit.forward = torch.compile(fit.net)
    settings = {**job.settings(), "data": samples.fingerprint()}
    if state is not None:
        folder.check(state, settings)
        fit.load_state_dict(state["fit"])
        watch.say(f"goes on after epoch {len(fit.history)}")
    about = _about(job, settings, parts)
    writer = CheckpointWriter(folder, job, settings, about, samples, parts)
    _run_epochs(fit, writer, watch, save_every)
    done = len(fit.history)
    return Result(folder.checkpoint, fit.best, fit.best_epoch, done, fit.minutes, parts.how)


@dataclass
class CheckpointWriter:
    """Writes the state, the log and the best weights of a run."""

    folder: RunFolder
    job: Job
    settings: dict[str, Any]
    about: dict[str, Any]
    samples: Samples
    parts: Split
    saved: float = -1.0  # validation Dice of the checkpoint on disk

    def keep(self, fit: Fit) -> None:
        """Write state, log and curve, and the checkpoint if it is a better one."""
        self.folder.log(fit.history)
        if fit.best > self.saved:
            self.checkpoint(fit)
            self.saved = fit.best
        self.folder.save({"settings": self.settings, "fit": fit.state_dict()})

    def checkpoint(self, fit: Fit, watch: Callback | None = None) -> None:
        """Write the best weights with their card; at the end, with what they are in-domain.

        ``watch`` follows the calibration; it is given at the end of a run alone.
        """
        net = self.job.network().eval()
        net.load_state_dict(fit.weights)
        training = {"validation_dice": round(fit.best, 6), "epoch": fit.best_epoch}
        training |= {"epochs": len(fit.history), "minutes": fit.minutes}
        about = {**self.about, "training": training}
        if watch is not None:
            about["trust"] = limits(net, fit.held_out)
            about["calibration"] = self.calibrated(net, watch).as_dict()
        save(net, self.folder.checkpoint, about)
        if watch is not None:
            self.folder.journal.unlink(missing_ok=True)

    def calibrated(self, net: UNet, watch: Callback) -> Calibration:
        """What the network looks like on images of its own domain; goes on if it was stopped."""
        job, journal = self.job, self.folder.journal
        how: Any = {"public": job.public, "watch": watch.calibrating, "journal": journal}
        return calibrate_split(net, self.samples, self.parts, job.classes, **how)


def _run_epochs(fit: Fit, writer: CheckpointWriter, watch: Callback, save_every: float) -> None:
    watch.begin(fit.epochs, fit.steps, len(fit.history))
    saved = time.monotonic()
    try:
        while not fit.is_finished:
            fit.epoch(watch)
            if time.monotonic() - saved >= save_every:
                writer.keep(fit)
                saved = time.monotonic()
    finally:
        watch.end()
    writer.keep(fit)
    writer.checkpoint(fit, watch)  # again: the card now has all epochs


def _names(samples: Samples, parts: Split) -> dict[str, Any]:
    """Which images are on which side; stays in the folder, since names may identify people."""
    sides = {"train": parts.train, "validation": parts.held_out}
    named = {k: [[samples.names[i], samples.slices[i]] for i in v] for k, v in sides.items()}
    return {"how": parts.how, **named}


def _about(job: Job, settings: dict[str, Any], parts: Split) -> dict[str, Any]:
    """The card of the model, except its results."""
    return {
        "source": str(job.domain),
        "task": job.domain.task,
        **settings,
        "note": job.note,
        "images": {"train": len(parts.train), "validation": len(parts.held_out)},
        "split": parts.how,
        "versions": {
            "sitta": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
