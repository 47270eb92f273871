"""A plan: what to train, what to run, on which images."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sitta.benchmark.measure import TOLERANCE
from sitta.benchmark.rows import PLAIN
from sitta.data.domains import Domain
from sitta.data.preprocess import Preprocess
from sitta.integration import STRATEGIES
from sitta.training import Job, Recipe

STRATEGIES_OF_MEMBERS = tuple(n for n, s in STRATEGIES.items() if s.figure != "sharpness")
LAMBDAS = (1.0, 0.8, 0.6, 0.5, 0.4, 0.2, 0.0)


@dataclass(frozen=True)
class Task:
    """A task and its domains.

    Attributes:
        name: As it is called in the results.
        domains: Every one is a source, and a target of each other.
        preprocess: What the networks take.
        images_per_target: Size of the seeded draw on which costly methods are run.
        note: For the checkpoints, such as the licence of the data.
    """

    name: str
    domains: tuple[Domain, ...]
    preprocess: Preprocess
    images_per_target: int = 40
    note: str = ""

    def domain(self, name: str) -> Domain:
        """One of its domains."""
        return next(d for d in self.domains if d.name == name)


@dataclass(frozen=True)
class Training:
    """How networks are trained; ``settings`` are changes of the recipe."""

    preset: str = "compact"
    recipe: str = "fast"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def made(self, seed: int) -> Recipe:
        """The recipe of one repeat."""
        return Recipe.named(self.recipe, **{**self.settings, "seed": seed})


@dataclass(frozen=True)
class Retrained:
    """A source that is trained once more, in another way."""

    name: str
    task: str
    source: str
    training: Training
    repeats: int = 1


@dataclass(frozen=True)
class Asked:
    """A method with settings, to be run on the draw of each target."""

    method: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Sweep:
    """InTEnt with other numbers of members."""

    tasks: tuple[str, ...]
    members: tuple[int, ...]
    strategies: tuple[str, ...]
    repeats: int = 1


def _fingerprint(domain: Domain) -> str:
    """Names and sizes of its files, and whose they are: quick, and other for other data."""
    files = [path for pair in domain.pairs() for path in (pair.image, pair.mask)]
    text = "\n".join(f"{path.name} {path.stat().st_size}" for path in files)
    for name, subject in sorted(domain.subjects().items()):  # who is held out depends on it
        text += f"\n{name} {subject}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Plan:
    """All that a benchmark does. Equal plans on equal data give equal tables.

    Attributes:
        tasks: With their domains, each in place.
        repeats: Models of each source; repeat r has seed r.
        training: How they are trained.
        lambdas: Fixed ones, over all images.
        strategies: Of InTEnt, over all images.
        step: Grid step of InTEnt and of the oracle.
        asked: Costly methods, on the draw.
        sweep: Numbers of members, on the draw.
        retrained: Sources trained in another way.
        in_domain: Whether held-out images of the source are a target too.
        seed: Of the draw.
        tolerance: Of the surface Dice, in pixels.
        text: The file.
    """

    tasks: tuple[Task, ...]
    repeats: int = 1
    training: Training = Training()
    lambdas: tuple[float, ...] = LAMBDAS
    strategies: tuple[str, ...] = STRATEGIES_OF_MEMBERS
    step: float = 0.2
    asked: tuple[Asked, ...] = ()
    sweep: Sweep | None = None
    retrained: tuple[Retrained, ...] = ()
    in_domain: bool = True
    seed: int = 0
    tolerance: float = TOLERANCE
    text: str = ""

    def task(self, name: str) -> Task:
        """One of its tasks."""
        return next(t for t in self.tasks if t.name == name)

    def job(self, task: str, source: str, repeat: int, training: str = PLAIN) -> Job:
        """What to train."""
        how = self.training
        if training != PLAIN:
            how = next(r.training for r in self.retrained if r.name == training)
        its = self.task(task)
        recipe = how.made(repeat)
        return Job(its.domain(source), recipe, its.preprocess, how.preset, note=its.note)

    def fixed(self) -> dict[str, Any]:
        """What two runs in one folder must have in common; more methods or domains are fine."""
        found: dict[str, Any] = {"train": asdict(self.training), "step": self.step}
        found |= {"seed": self.seed, "tolerance": self.tolerance}
        for task in self.tasks:
            found[f"tasks.{task.name}"] = {
                "masks": task.domains[0].masks,
                "preprocess": task.preprocess.as_dict(),
                "images_per_target": task.images_per_target,
            }
            for domain in task.domains:  # a folder may serve two tasks, with other masks
                found[f"images of {task.name}/{domain.name}"] = _fingerprint(domain)
        found |= {f"retrained.{r.name}": asdict(r.training) for r in self.retrained}
        return found
