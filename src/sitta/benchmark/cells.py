"""From a plan to cells: one variant of a method for one model on one target, one file each."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from sitta.adaptation import Method, method
from sitta.adaptation.together import shares
from sitta.benchmark.plan import Plan
from sitta.benchmark.rows import PLAIN
from sitta.members import grid

ORACLE = "oracle"
ANY = nn.BatchNorm2d(1)  # what a method costs and shares does not depend on the network


@dataclass(frozen=True)
class Model:
    """A trained source model."""

    task: str
    source: str
    repeat: int
    training: str = PLAIN

    def __str__(self) -> str:
        way = "" if self.training == PLAIN else f"-{self.training}"
        return f"{self.task}-{self.source}{way}-r{self.repeat}"


@dataclass(frozen=True)
class Variant:
    """A method with settings; the oracle has none and no method of its own.

    Attributes:
        method: Its name in the registry, or ``oracle``.
        settings: All that is not its default.
    """

    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [f"{k}={_text(v)}" for k, v in sorted(self.settings.items())]
        return "-".join([self.method, *words])

    def build(self, model: nn.Module) -> Method:
        """The method itself."""
        return method(self.method, model, **self.settings)

    def columns(self, step: float) -> dict[str, Any]:
        """How the variant is named in a row: see ``rows.VARIANT``.

        Args:
            step: That of the plan's own members, from which the oracle chooses.
        """
        if self.method == ORACLE:
            return _columns(ORACLE, members=len(grid(step)))
        made = self.build(ANY)
        lam, strategy = getattr(made, "lam", None), getattr(made, "strategy", "")
        lambdas = getattr(made, "grid", ())
        named = {"lam", "strategy", "members_at_once"}
        if _is_counted(lambdas, step) if lambdas else not _searches(made):
            named |= {"step", "lambdas"}  # their number says it all, or nothing depends on them
        rest = {k: v for k, v in sorted(self.settings.items()) if k not in named}
        words = " ".join(f"{k}={_text(v)}" for k, v in rest.items())
        lam = math.nan if lam is None or _searches(made) else float(lam)
        return _columns(self.method, lam, strategy, len(lambdas) or 1, words)

    def identity(self, step: float) -> tuple[Any, ...]:
        """What tells it from others: ``tent`` and ``tent`` at its own lambda are the same."""
        return tuple(None if value != value else value for value in self.columns(step).values())

    @property
    def is_of_members(self) -> bool:
        """Whether it could be one of those that the members serve on all images."""
        known = {"source": {"lam"}, "intent": {"strategy", "step"}}.get(self.method, set())
        return {*self.settings} <= known and shares(self.build(ANY))


def _searches(made: Method) -> bool:
    """Whether lambda is not used: SITA with its search of the prior."""
    return getattr(made, "op", "none") != "none"


def _is_counted(lambdas: tuple[float, ...], step: float) -> bool:
    """Whether the number of members tells which: the plan's own, or evenly spaced ones.

    Evenly spaced ones do not count where the plan's own are as many and others.
    """
    own = grid(step)
    return lambdas == own or (len(lambdas) != len(own) and _is_even(lambdas))


def _columns(
    name: str, lam: float = math.nan, strategy: str = "", members: int = 1, settings: str = ""
) -> dict[str, Any]:
    return {
        "method": name,
        "lam": lam,
        "strategy": strategy,
        "members": members,
        "settings": settings,
    }


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"  # two that differ have two names
    if isinstance(value, tuple | list):  # of even lambdas their number will do
        return f"{len(value)}" if _is_even(value) else "+".join(map(_text, value))
    return str(value)


def _is_even(value: Any) -> bool:
    """Whether this is a row of lambdas as ``even`` gives them."""
    if not isinstance(value, tuple | list) or len(value) < 2:
        return False
    return all(isinstance(v, float | int) for v in value) and tuple(value) == even(len(value))


@dataclass(frozen=True)
class Cell:
    """One file of results: one row an image.

    Attributes:
        model: The source model.
        target: The domain that it is tried on.
        variant: The method.
        drawn: Whether it is on the draw alone, of a variant that a plan may have on all images,
            too: a plan that grows then finds no such file, and fills it.
    """

    model: Model
    target: str
    variant: Variant
    drawn: bool = False

    def __str__(self) -> str:
        return f"{self.model}/{self.target}/{self.variant}{'.drawn' * self.drawn}"


@dataclass(frozen=True)
class Work:
    """What one worker does at a time: train a model, or fill cells of one target.

    Attributes:
        model: Which one.
        kind: ``train``; ``members``, which share one pass; ``methods``; or ``sweep``.
        target: The domain, if cells are filled.
        cells: Which ones.
        drawn: Whether on the draw alone.
    """

    model: Model
    kind: str
    target: str = ""
    cells: tuple[Cell, ...] = ()
    drawn: bool = False

    def __str__(self) -> str:
        return "--".join(filter(None, (str(self.model), self.target, self.kind)))


def models(plan: Plan) -> Iterator[Model]:
    """Every model to train: repeat by repeat, so that early results cover all splits."""
    for repeat in range(plan.repeats):
        for task in plan.tasks:
            for domain in task.domains:
                yield Model(task.name, domain.name, repeat)
        for again in plan.retrained:
            if repeat < again.repeats:
                yield Model(again.task, again.source, repeat, again.name)


def expand(plan: Plan) -> list[Work]:
    """All work, in the order in which it is done: repeat by repeat, and in each model by model.

    So what is done is complete for whole models, and a machine that is lost costs no more than the
    models that its workers were at.
    """
    members, asked, swept = member_variants(plan), asked_variants(plan), sweep_variants(plan)
    found: list[Work] = []
    for model in models(plan):
        found.append(Work(model, "train"))
        found += _fill(plan, model, "members", members)
        found += _fill(plan, model, "methods", asked)
        found += _fill(plan, model, "sweep", swept if _is_swept(plan, model) else [])
    return found


def _is_swept(plan: Plan, model: Model) -> bool:
    sweep = plan.sweep
    if sweep is None or model.training != PLAIN:
        return False
    return model.task in sweep.tasks and model.repeat < sweep.repeats


def _fill(plan: Plan, model: Model, kind: str, variants: list[Variant]) -> Iterator[Work]:
    if not variants:
        return
    drawn = kind != "members"
    for domain in plan.task(model.task).domains:
        if domain.name == model.source and (drawn or not plan.in_domain):
            continue  # at home there is nothing to adapt to: what members cost there is enough
        cells = tuple(
            Cell(model, domain.name, variant, drawn and variant.is_of_members)
            for variant in variants
        )
        yield Work(model, kind, domain.name, cells, drawn)


def member_variants(plan: Plan) -> list[Variant]:
    """All that one pass over the members serves."""
    step = {} if plan.step == 0.2 else {"step": plan.step}
    fixed = [Variant("source", {"lam": lam}) for lam in plan.lambdas]
    mixed = [Variant("intent", {"strategy": name, **step}) for name in plan.strategies]
    return [*fixed, *mixed, Variant(ORACLE)]


def asked_variants(plan: Plan) -> list[Variant]:
    """The costly ones, each of them once, and none that the members serve on all images."""
    found: dict[tuple[Any, ...], Variant] = {}
    for asked in plan.asked:
        variant = Variant(asked.method, asked.settings)
        found.setdefault(variant.identity(plan.step), variant)
    served = {variant.identity(plan.step) for variant in member_variants(plan)}
    return [variant for identity, variant in found.items() if identity not in served]


def sweep_variants(plan: Plan) -> list[Variant]:
    """InTEnt with evenly spaced lambdas of each number, but those that are run anyway."""
    if plan.sweep is None:
        return []
    known = [*member_variants(plan), *asked_variants(plan)]
    found = [
        Variant("intent", {"strategy": name, "lambdas": even(count)})
        for count in sorted({*plan.sweep.members})
        for name in plan.sweep.strategies
    ]
    there = {variant.identity(plan.step) for variant in known}
    return [variant for variant in found if variant.identity(plan.step) not in there]


def even(count: int) -> tuple[float, ...]:
    """So many lambdas from 1 to 0.

    Example:
        >>> even(3)
        (1.0, 0.5, 0.0)
    """
    return tuple(round(1 - i / (count - 1), 9) for i in range(count))


def drawn(plan: Plan, task: str, target: str, count: int) -> frozenset[int]:
    """Rows of the seeded draw of a target with so many images: the same for every model."""
    chance = random.Random(f"{plan.seed} {task} {target}")  # noqa: S311  (no secret)
    return frozenset(chance.sample(range(count), min(count, plan.task(task).images_per_target)))


def cost(plan: Plan, work: Work) -> float:
    """Forward passes for one image, where a backward pass counts as two."""
    if work.kind == "train":
        return 0.0
    groups, alone = by_pass(plan, work.cells)
    made = [_members(plan, group) for group in groups] + [c.variant.build(ANY) for c in alone]
    return float(sum(m.cost.forward + 2 * m.cost.backward for m in made))


def by_pass(plan: Plan, cells: Sequence[Cell]) -> tuple[list[list[Cell]], list[Cell]]:
    """Groups of cells that one pass each serves, and the cells that take passes of their own.

    A pass has one output of the network and one variance of the image: see ``together``.
    """
    groups: dict[tuple[str, str], list[Cell]] = {}
    alone: list[Cell] = []
    for cell in cells:
        made = _asking(plan, cell)
        if shares(made):
            groups.setdefault((repr(made.output), made.variance), []).append(cell)
        else:
            alone.append(cell)
    return list(groups.values()), alone


def _asking(plan: Plan, cell: Cell) -> Any:
    """The method that asks for a cell's members: the oracle chooses from those of plain InTEnt."""
    oracle = cell.variant.method == ORACLE
    variant = Variant("intent", {"step": plan.step}) if oracle else cell.variant
    return variant.build(ANY)


def _members(plan: Plan, group: Sequence[Cell]) -> Method:
    """One method with all the members of a group: it costs what their pass does."""
    made = [_asking(plan, cell) for cell in group]
    lambdas = {lam for m in made for lam in getattr(m, "grid", None) or (m.lam,)}
    return method("intent", ANY, lambdas=sorted(lambdas), variance=made[0].variance)
