"""A plan: the tables of its TOML file with names, types and ranges, and what they stand for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from sitta._util.names import did_you_mean, unknown_name
from sitta._util.settings import LAMBDA, MOST, SEED
from sitta.adaptation import InTEnt
from sitta.bench.plan.errors import PlanError
from sitta.bench.plan.request import ANY_MODEL, MethodRequest
from sitta.bench.stats.rows import PLAIN
from sitta.core.integration import STRATEGIES, shared_strategies
from sitta.data.domains import Domain
from sitta.data.preprocess import Preprocess
from sitta.errors import InvalidSetting
from sitta.inference.loading import UNNAMED, find_profile
from sitta.training import Job as TrainingJob
from sitta.training import Recipe

LAMBDAS = (1.0, 0.8, 0.6, 0.5, 0.4, 0.2, 0.0)
MANY = 1_000_000_000  # images: no limit in practice
TOLERANCE = 2.0  # pixels of the network's input: a boundary that near counts as right

T = TypeVar("T")


class Table(BaseModel):
    """A table with known keys; subclasses that take others set ``extra="allow"``."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, values: Any) -> Any:
        names = list(cls.model_fields)
        if cls.model_config["extra"] == "forbid" and isinstance(values, dict):
            for key in values:
                if key not in names:
                    what = f"There is no setting '{key}' here.{did_you_mean(key, names)}"
                    raise PlanError(what, key, allowed=", ".join(names))
        return values


def _distinct(values: tuple[T, ...], info: ValidationInfo) -> tuple[T, ...]:
    for number, value in enumerate(values):
        if value in values[:number]:
            raise PlanError(f"'{info.field_name}' holds {value!r} twice.", number)
    return values


def _lambdas(values: tuple[float, ...]) -> tuple[float, ...]:
    """Lambdas in range, each with a file name of its own."""
    names: dict[str, float] = {}
    for number, lam in enumerate(values):
        if not LAMBDA.accepts(lam):
            raise PlanError("A lambda is out of range.", number, allowed=LAMBDA.range, got=str(lam))
        other = names.setdefault(str(MethodRequest("source", {"lam": lam})), lam)
        if other != lam:
            raise PlanError(
                f"'lambdas' holds {other!r} and {lam!r}, which results could not tell apart.",
                number,
                allowed="lambdas that differ in their first 9 digits",
                fix="leave one of them out",
            )
    return values


def _with_source(lambdas: tuple[float, ...]) -> tuple[float, ...]:
    if 1.0 not in lambdas:
        what = "'lambdas' lacks 1, the source model, which all else is compared with."
        raise InvalidSetting(what, got=str(list(lambdas)))
    return lambdas


def _strategy(name: str) -> str:
    allowed = shared_strategies()
    if name not in allowed:
        if name in STRATEGIES:
            what = f"{name!r} takes passes of its own: ask for it in [[methods]]."
            raise InvalidSetting(what, allowed=", ".join(allowed))
        raise unknown_name("strategy", name, allowed)
    return name


def _class_name(name: str) -> str:
    if not name.strip() or set(name) & {"=", ";"}:
        raise InvalidSetting(
            "That is no name for a class.", allowed="text without = and ;", got=repr(name)
        )
    return name


List = Annotated[  # TOML has lists
    tuple[T, ...], Field(strict=False, max_length=MOST), AfterValidator(_distinct)
]
Count = Annotated[int, Field(ge=1, le=MANY)]
Repeats = Annotated[int, Field(ge=1, le=MOST)]
Seed = Annotated[int, Field(ge=0, le=SEED.high)]
Lambdas = Annotated[List[float], AfterValidator(_lambdas)]
Strategies = List[Annotated[str, AfterValidator(_strategy)]]
ClassName = Annotated[str, AfterValidator(_class_name)]


class Training(Table, extra="allow"):
    """How networks are trained; other keys are settings of the recipe."""

    preset: str = "compact"
    recipe: str = "fast"

    @property
    def settings(self) -> dict[str, Any]:
        """Changes of the recipe."""
        return self.model_extra or {}

    def recipe_of(self, repeat: int) -> Recipe:
        """The recipe of one repeat, which is its seed."""
        return Recipe.named(self.recipe, **{**self.settings, "seed": repeat})

    def over(self, usual: Training) -> Training:
        """The usual training with these changes; settings of another recipe are not taken over."""
        given = self.model_dump(exclude_unset=True)
        kept = usual.model_dump()
        if given.get("recipe", usual.recipe) != usual.recipe:
            kept = {"preset": usual.preset}
        return Training.model_validate({**kept, **given})


class TaskTable(Table, extra="allow"):
    """A task; other keys are settings of its preprocessing."""

    domains: List[str]
    sources: List[str] | None = None  # domains that models are trained on; all if not given
    folder: str | None = None
    masks: str = "masks"
    classes: List[ClassName] = UNNAMED  # names of what the masks hold, from 1 on
    images_per_target: Count | None = None
    note: str = ""
    public: bool = False  # the images are public: calibrations may keep shapes of few subjects


class MembersTable(Table):
    """What one pass over the members serves, on all images."""

    lambdas: Annotated[Lambdas, AfterValidator(_with_source)] = LAMBDAS
    strategies: Strategies = shared_strategies()
    step: Annotated[float, AfterValidator(lambda step: InTEnt(ANY_MODEL, step=step).step)] = 0.2


class MethodTable(Table):
    """A method, once for each lambda; with its own lambda if that is asked for or none is given."""

    name: str
    lambdas: Lambdas = ()
    settings: dict[str, Any] = {}
    default: bool | None = None
    every_image: bool = False  # also in-domain; else on the draw


class Sweep(Table):
    """InTEnt with other numbers of members; on the first task if none is given."""

    tasks: List[str] = ()
    members: List[int]
    strategies: Strategies = ("average", "ent-baln")
    repeats: Repeats = 1


class Retrained(Table):
    """A source that is trained once more, in another way."""

    name: str
    task: str
    source: str
    train: Training = Training()
    repeats: Repeats = 1


class GivenModel(Table):
    """A model that is trained already: by its profile, or any other name of a model."""

    profile: str
    task: str
    name: str
    source: str | None = None  # a domain that it was trained on, which is left out


class PlanTable(Table):
    """The whole file."""

    data: str = ""
    repeats: Repeats = 1
    seed: Seed = 0
    images_per_target: Count = 40
    in_domain: bool = True
    tolerance: Annotated[float, Field(gt=0, le=MANY, allow_inf_nan=False)] = TOLERANCE
    train: Training = Training()
    tasks: Annotated[dict[str, TaskTable], Field(max_length=MOST)] = {}
    members: MembersTable = MembersTable()
    methods: Annotated[list[MethodTable], Field(max_length=MOST)] = []
    sweep: Sweep | None = None
    retrained: Annotated[list[Retrained], Field(max_length=MOST)] = []
    models: Annotated[list[GivenModel], Field(max_length=MOST)] = []


@dataclass(frozen=True)
class Model:
    """A trained source model; its text is the name of its files.

    The source of one that is given is its own name.
    """

    task: str
    source: str
    repeat: int
    training: str = PLAIN
    given: bool = False  # whether it is there already

    def __str__(self) -> str:
        way = "" if self.training == PLAIN else f"-{self.training}"
        return f"{self.task}-{self.source}{way}-r{self.repeat}"


@dataclass(frozen=True)
class Task:
    """A task and its domains, of which each is a source, and a target of all others."""

    name: str
    domains: tuple[Domain, ...]
    preprocess: Preprocess
    images_per_target: int = 40  # size of the seeded draw, on which costly methods are run
    note: str = ""  # kept in checkpoints
    public: bool = False
    sources: tuple[str, ...] | None = None  # domains that models are trained on; None is all
    classes: tuple[str, ...] = UNNAMED  # of its masks, from 1 on

    def domain(self, name: str) -> Domain:
        """One of its domains."""
        return next(d for d in self.domains if d.name == name)


@dataclass(frozen=True)
class Plan:
    """All that a benchmark does. Equal plans on equal data give equal tables."""

    tasks: tuple[Task, ...]
    repeats: int = 1  # models of each source; repeat r has seed r
    trainings: Mapping[str, Training] = field(default_factory=dict)  # plain, and those retrained
    lambdas: tuple[float, ...] = LAMBDAS  # fixed ones, on all images
    strategies: tuple[str, ...] = shared_strategies()  # of InTEnt, on all images
    step: float = 0.2  # of the grid of InTEnt and of the oracle
    requests: tuple[MethodRequest, ...] = ()  # costly methods, on the draw
    complete: tuple[MethodRequest, ...] = ()  # methods on all images
    sweep: Sweep | None = None  # on the draw
    retrained: tuple[Retrained, ...] = ()
    given: tuple[GivenModel, ...] = ()  # models that are not trained here
    in_domain: bool = True  # held-out images of the source are a target too
    seed: int = 0  # of the draw
    tolerance: float = TOLERANCE  # of the surface Dice
    text: str = ""  # of the file

    def task(self, name: str) -> Task:
        """One of its tasks."""
        return next(t for t in self.tasks if t.name == name)

    def given_model(self, model: Model) -> GivenModel:
        """How a model that is given is loaded."""
        return next(g for g in self.given if (g.task, g.name) == (model.task, model.source))

    def training_job(self, model: Model) -> TrainingJob:
        """How a model is trained."""
        task, way = self.task(model.task), self.trainings[model.training]
        domain, recipe = task.domain(model.source), way.recipe_of(model.repeat)
        job = TrainingJob(domain, recipe, task.preprocess, way.preset, task.classes)
        return replace(job, note=task.note, public=task.public)

    def fixed(self) -> dict[str, Any]:
        """What two runs in one folder must have in common; more methods or domains are fine."""
        settings: dict[str, Any] = {"step": self.step, "seed": self.seed}
        settings["tolerance"] = self.tolerance
        for name, way in self.trainings.items():
            about = {"preset": way.preset, "recipe": way.recipe, "settings": way.settings}
            settings["train" if name == PLAIN else f"retrained.{name}"] = about
        for one in self.given:
            settings[f"models.{one.task}/{one.name}"] = _model_fingerprint(one.profile)
        for task in self.tasks:
            settings[f"tasks.{task.name}"] = {
                "masks": task.domains[0].masks,
                "preprocess": task.preprocess.as_dict(),
                "images_per_target": task.images_per_target,
            }
            if task.classes != UNNAMED:  # else as before there were classes
                settings[f"tasks.{task.name}"]["classes"] = list(task.classes)
            for domain in task.domains:  # a folder may serve two tasks, with other masks
                settings[f"images of {task.name}/{domain.name}"] = _fingerprint(domain)
        return settings


def _model_fingerprint(name: str) -> str:
    """Of a profile and of the files that it names."""
    profile = find_profile(name)
    named = [profile.path(n) for n in (profile.weights, profile.checkpoint, profile.onnx) if n]
    paths = [path for path in (Path(name), *named) if path.is_file()]
    whole = hashlib.sha256(name.encode())
    for path in paths:
        whole.update(path.read_bytes())
    return whole.hexdigest()[:16]


def _fingerprint(domain: Domain) -> str:
    """Names and sizes of its files, and their subjects: quick, and other for other data."""
    files = [path for pair in domain.pairs() for path in (pair.image, pair.mask)]
    lines = [f"{path.name} {path.stat().st_size}" for path in files]
    lines += [f"{name} {subject}" for name, subject in sorted(domain.subjects().items())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
