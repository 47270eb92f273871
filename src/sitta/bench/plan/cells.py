"""From a plan to jobs and cells: one method for one model on one target, one file each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sitta._util.names import unknown_name
from sitta.adaptation import method
from sitta.adaptation.shared_pass import shares
from sitta.bench.plan.request import ANY_MODEL, MethodRequest, even
from sitta.bench.plan.schema import Model, Plan
from sitta.bench.stats.rows import PLAIN
from sitta.bench.variant import ORACLE, Variant
from sitta.errors import InvalidSetting


@dataclass(frozen=True)
class Cell:
    """One file of results: a method for one model on one domain, with one row per image."""

    model: Model
    target: str
    request: MethodRequest
    # Whether it is on the draw alone, of a method that a plan may also have on all images: a plan
    # that grows then finds no such file, and fills it.
    drawn: bool = False

    def __str__(self) -> str:
        return f"{self.model}/{self.target}/{self.request}{'.drawn' * self.drawn}"


@dataclass(frozen=True)
class Job:
    """What one worker does at a time: train a model, or fill cells of one target."""

    model: Model
    kind: str  # train; members, which share one pass; complete; methods; or sweep
    target: str = ""
    cells: tuple[Cell, ...] = ()
    drawn: bool = False  # on the draw alone

    def __str__(self) -> str:
        return "--".join(filter(None, (str(self.model), self.target, self.kind)))


def models(plan: Plan) -> Iterator[Model]:
    """Every model to train or to load: repeat by repeat, so that early results cover all splits."""
    for repeat in range(plan.repeats):
        for task in plan.tasks:
            for domain in task.domains:
                if task.sources is None or domain.name in task.sources:
                    yield Model(task.name, domain.name, repeat)
        for given in plan.given if repeat == 0 else ():
            yield Model(given.task, given.name, 0, given=True)
        for again in plan.retrained:
            if repeat < again.repeats:
                yield Model(again.task, again.source, repeat, again.name)


def expand(plan: Plan) -> list[Job]:
    """All jobs, repeat by repeat and model by model: results are complete for whole models."""
    kinds = requests(plan)
    jobs: list[Job] = []
    for model in models(plan):
        if not model.given:
            jobs.append(Job(model, "train"))
        for kind, asked in kinds.items():
            if asked and (kind != "sweep" or _is_swept(plan, model)):
                jobs += _jobs(plan, model, kind, asked)
    return jobs


def select(plan: Plan, repeats: Sequence[int] = (), tasks: Sequence[str] = ()) -> list[Job]:
    """The jobs of these repeats and tasks, in the order of the plan; of all if none is given."""
    for number in repeats:
        if not 0 <= number < plan.repeats:
            allowed = "0" if plan.repeats == 1 else f"0 to {plan.repeats - 1}"
            raise InvalidSetting("The plan has no such repeat.", allowed=allowed, got=str(number))
    names = [task.name for task in plan.tasks]
    for name in tasks:
        if name not in names:
            raise unknown_name("task", name, names)
    return [
        job
        for job in expand(plan)
        if (not repeats or job.model.repeat in repeats) and (not tasks or job.model.task in tasks)
    ]


def _is_swept(plan: Plan, model: Model) -> bool:
    sweep = plan.sweep
    if sweep is None or model.training != PLAIN:
        return False
    return model.task in (sweep.tasks or (plan.tasks[0].name,)) and model.repeat < sweep.repeats


def _jobs(plan: Plan, model: Model, kind: str, asked: list[MethodRequest]) -> Iterator[Job]:
    drawn = kind not in ("members", "complete")
    trained_on = plan.given_model(model).source if model.given else None
    for domain in plan.task(model.task).domains:
        if domain.name == model.source and (drawn or not plan.in_domain):
            continue  # in-domain there is nothing to adapt to: the cost of members is enough
        if domain.name == trained_on:
            continue  # its training images are not known
        cells = tuple(
            Cell(model, domain.name, request, drawn and request.is_of_members) for request in asked
        )
        yield Job(model, kind, domain.name, cells, drawn)


def requests(plan: Plan) -> dict[str, list[MethodRequest]]:
    """What each kind of job runs; each variant once, by the first kind that has it."""
    step = {} if plan.step == 0.2 else {"step": plan.step}
    kinds = {
        "members": [
            *(MethodRequest("source", {"lam": lam}) for lam in plan.lambdas),
            *(MethodRequest("intent", {"strategy": name, **step}) for name in plan.strategies),
            *([MethodRequest(ORACLE)] if plan.strategies else []),  # it needs the whole grid
        ],
        "complete": plan.complete,
        "methods": plan.requests,
        "sweep": [
            MethodRequest("intent", {"strategy": name, "lambdas": even(count)})
            for count in sorted(plan.sweep.members if plan.sweep else ())
            for name in (plan.sweep.strategies if plan.sweep else ())
        ],
    }
    seen: set[Variant] = set()
    distinct: dict[str, list[MethodRequest]] = {kind: [] for kind in kinds}
    for kind, asked in kinds.items():
        for request in asked:
            if (variant := request.variant(plan.step)) not in seen:
                seen.add(variant)
                distinct[kind].append(request)
    return distinct


def cost(plan: Plan, job: Job) -> float:
    """Forward passes for one image, where a backward pass counts as two."""
    total = 0.0
    for group in by_pass(plan, job.cells):
        built = [_with_members(plan, cell) for cell in group]
        whole = built[0]
        if shares(whole):  # a method with all members of the group costs what their pass does
            lambdas = {lam for m in built for lam in getattr(m, "grid", None) or (m.lam,)}
            whole = method("intent", ANY_MODEL, lambdas=sorted(lambdas), variance=whole.variance)
        total += whole.cost.forward + 2 * whole.cost.backward
    return total


def by_pass(plan: Plan, cells: Sequence[Cell]) -> list[list[Cell]]:
    """Groups of cells that one pass serves; a cell that takes passes of its own is one alone.

    A pass has one output of the network and one variance of the image: see ``shared_pass``.
    """
    groups: dict[object, list[Cell]] = {}
    for cell in cells:
        built = _with_members(plan, cell)
        key = (repr(built.output), built.variance) if shares(built) else str(cell)
        groups.setdefault(key, []).append(cell)
    return list(groups.values())


def _with_members(plan: Plan, cell: Cell) -> Any:
    """The method that has a cell's members: the oracle chooses from those of plain InTEnt."""
    oracle = cell.request.method == ORACLE
    request = MethodRequest("intent", {"step": plan.step}) if oracle else cell.request
    return request.build(ANY_MODEL)
