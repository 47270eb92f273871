"""One training run: from a domain on disk to one checkpoint file."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from sitta._version import __version__
from sitta.data.domains import Domain
from sitta.data.preprocess import Preprocess
from sitta.devices import pick_device
from sitta.models import UNet, save
from sitta.training.calibrate import limits
from sitta.training.journal import Journal
from sitta.training.loop import Fit
from sitta.training.recipe import Recipe
from sitta.training.samples import Samples, load
from sitta.training.split import Split, split
from sitta.training.watch import Watch

SAVE_EVERY = 20.0  # seconds: what a crash may cost


@dataclass(frozen=True)
class Job:
    """What to train. Two runs of one job on one machine give the same weights, bit for bit.

    Attributes:
        domain: Where the images and masks are.
        recipe: How to train.
        preprocess: What the network takes.
        preset: Of the U-Net.
        classes: Names of the foreground classes.
        note: The licence of the data, or what else a user of the model should know.
    """

    domain: Domain
    recipe: Recipe = field(default_factory=Recipe)
    preprocess: Preprocess = field(default_factory=Preprocess)
    preset: str = "compact"
    classes: tuple[str, ...] = ("foreground",)
    note: str = ""

    @property
    def name(self) -> str:
        """Such as ``chest-mcu``."""
        return f"{self.domain.task}-{self.domain.name}"

    def settings(self) -> dict[str, Any]:
        """All that decides the weights, but the data and the machine."""
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
    """What a run came to.

    Attributes:
        checkpoint: The file with the best weights.
        dice: The validation Dice that they reached.
        epoch: When.
        epochs: Epochs that were run.
        minutes: Time that they took.
        how: How images were held out, in words.
    """

    checkpoint: Path
    dice: float
    epoch: int
    epochs: int
    minutes: float
    how: str


def train(
    job: Job,
    out: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    compiled: bool = False,
    device: str = "auto",
    watch: Watch | None = None,
    save_every: float = SAVE_EVERY,
) -> Result:
    """Train a network on the images of one domain.

    Args:
        job: What to train.
        out: Folder for the checkpoint, the log, the curve and the state.
        resume: Go on with the run in ``out``; the weights come out as if never interrupted.
        overwrite: Begin anew in a folder that holds a run.
        compiled: Use ``torch.compile``.
        device: ``cpu``, ``cuda``, or ``auto``: a GPU if there is one.
        watch: Is told of every step and epoch.
        save_every: Seconds between saved states.
    """
    watch = watch or Watch()
    where = pick_device(device)
    journal = Journal(Path(out), job.name)
    state = journal.open(resume=resume, overwrite=overwrite)
    samples = load(job.domain, job.preprocess, len(job.classes) + 1, watch.files)
    parts = split(samples, job.recipe.validation, job.recipe.seed)
    _announce(watch, job, samples, parts)
    settings = {**job.settings(), "data": samples.fingerprint()}
    journal.write("split.json", _names(samples, parts))
    fit = Fit(job.network(), job.recipe, samples[parts.train], samples[parts.held_out], where)
    if compiled:
        fit.compile()
    if state is not None:
        journal.check(state, settings)
        fit.load_state_dict(state["fit"])
        watch.say(f"goes on after epoch {len(fit.history)}")
    about = {"source": str(job.domain), "task": job.domain.task, **settings, "note": job.note}
    about |= {"images": {"train": len(parts.train), "validation": len(parts.held_out)}}
    about |= {"split": parts.how, "versions": _versions()}
    _rounds(fit, Keeper(journal, job, settings, about), watch, save_every)
    return _result(fit, journal, parts)


@dataclass
class Keeper:
    """Writes what a run has reached."""

    journal: Journal
    job: Job
    settings: dict[str, Any]
    about: dict[str, Any]
    kept: float = -1.0

    def keep(self, fit: Fit) -> None:
        """State, log and curve, and the checkpoint if it is a better one."""
        self.journal.log(fit.history)
        if fit.best > self.kept:
            self.checkpoint(fit)
            self.kept = fit.best
        self.journal.save({"settings": self.settings, "fit": fit.state_dict()})

    def checkpoint(self, fit: Fit, finished: bool = False) -> None:
        """The best weights so far, with their card; limits of trust come once all is done."""
        net = self.job.network().eval()
        net.load_state_dict(fit.weights)
        about = {**self.about, "training": figures(fit)}
        if finished:
            about["trust"] = limits(net, fit.held_out)
        save(net, self.journal.checkpoint, about)


def figures(fit: Fit) -> dict[str, Any]:
    """What the training came to, for the card."""
    return {
        "validation_dice": round(fit.best, 6),
        "epoch": fit.best_epoch,
        "epochs": len(fit.history),
        "minutes": round(sum(row.seconds for row in fit.history) / 60, 2),
    }


def _rounds(fit: Fit, keeper: Keeper, watch: Watch, save_every: float) -> None:
    """Epoch after epoch, until the recipe ends."""
    watch.begin(fit.epochs, fit.steps, len(fit.history))
    saved = time.monotonic()
    try:
        while not fit.finished:
            fit.epoch(watch)
            if time.monotonic() - saved >= save_every:
                keeper.keep(fit)
                saved = time.monotonic()
    finally:
        watch.end()
    keeper.keep(fit)
    keeper.checkpoint(fit, finished=True)  # once more: the card now tells of all epochs


def _result(fit: Fit, journal: Journal, parts: Split) -> Result:
    found = figures(fit)
    return Result(
        journal.checkpoint, fit.best, fit.best_epoch, found["epochs"], found["minutes"], parts.how
    )


def _announce(watch: Watch, job: Job, samples: Samples, parts: Split) -> None:
    sides = " x ".join(map(str, samples.images.shape[1:]))
    watch.say(f"{job.domain}: {len(samples)} images of {sides}; {parts.how}")
    if samples.left_out:
        watch.say(f"{samples.left_out} slices without a mask are taken for not annotated")


def _names(samples: Samples, parts: Split) -> dict[str, Any]:
    """Which images are on which side; stays in the folder, since names may identify people."""
    sides = {"train": parts.train, "validation": parts.held_out}
    named = {k: [[samples.names[i], samples.slices[i]] for i in v] for k, v in sides.items()}
    return {"how": parts.how, **named}


def _versions() -> dict[str, str]:
    return {"sitta": __version__, "torch": torch.__version__, "python": platform.python_version()}
