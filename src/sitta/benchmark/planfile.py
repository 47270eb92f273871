"""Reads a plan from TOML and checks all of it, before anything runs."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sitta.adaptation import InTEnt, Method, Source, methods
from sitta.benchmark.cells import Model, Variant, even
from sitta.benchmark.measure import TOLERANCE
from sitta.benchmark.places import Place
from sitta.benchmark.plan import (
    LAMBDAS,
    STRATEGIES_OF_MEMBERS,
    Asked,
    Plan,
    Retrained,
    Sweep,
    Task,
    Training,
)
from sitta.benchmark.rows import PLAIN
from sitta.benchmark.toml import File, Section
from sitta.data.domains import LAYOUT, find_domain
from sitta.data.preprocess import TASKS, Preprocess
from sitta.errors import InvalidSetting
from sitta.integration import STRATEGIES
from sitta.members import grid
from sitta.models import UNet
from sitta.settings import LAMBDA, require_known
from sitta.training import Recipe

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
OF_ALL = {f.name for f in fields(Method) if f.init}  # settings that depend on the network
ALIKE = 1.5e-9  # lambdas are rounded to nine digits, of which the last may differ


def read_plan(path: str | Path, data: str | Path | None = None) -> Plan:
    """Read a plan and check all of it, before anything runs.

    Args:
        path: A TOML file.
        data: Root of the images, in place of the plan's own.

    Raises:
        PlanError: With the line of the file that is wrong.
    """
    file, top = File.read(path)
    root = _root(top, file.path, data)
    usual = top.take("images_per_target", int, 40)
    if usual < 1:
        top.fail(("images_per_target",), "'images_per_target' is below 1.", got=str(usual))
    training = _training(top.section("train"), Training())
    tables = top.section("tasks")
    tasks = tuple(_task(tables.section(name), name, root, usual) for name in list(tables.values))
    if not tasks:
        top.fail(("tasks",), "The plan has no task.", allowed="[tasks.<name>] with domains")
    members = _members(top.section("members"))
    plan = Plan(
        tasks,
        _count(top, "repeats", 1),
        training,
        **members,
        asked=tuple(a for s in top.sections("methods") for a in _asked(s)),
        sweep=_sweep(top, tasks, members["step"]) if "sweep" in top.values else None,
        retrained=_all_retrained(top, tasks, training),
        in_domain=top.take("in_domain", bool, True),
        seed=top.take("seed", int, 0),
        tolerance=_positive(top, "tolerance", TOLERANCE),
        text=file.text,
    )
    top.taken.add("sweep")
    top.end()
    _check_repeats(top, plan)
    _check_names(top, plan)
    return plan


def _check_names(top: Section, plan: Plan) -> None:
    """Every model needs a name of its own: results are kept by it."""
    seen: dict[str, Model] = {}
    for place, model in _models(plan):
        if (other := seen.setdefault(str(model), model)) is not model:
            what = f"Two models would have the name {model}: {_said(other)} and {_said(model)}."
            allowed = "domains and [[retrained]] that differ in their names"
            top.fail(place, what, allowed=allowed, fix="leave one out, or give it another name")


def _models(plan: Plan) -> Iterator[tuple[Place, Model]]:
    """Every model of the first repeat, which has them all, and where the plan asks for it."""
    for task in plan.tasks:
        for at, domain in enumerate(task.domains):
            yield ("tasks", task.name, "domains", at), Model(task.name, domain.name, 0)
    for at, again in enumerate(plan.retrained):
        yield ("retrained", at), Model(again.task, again.source, 0, again.name)


def _check_repeats(top: Section, plan: Plan) -> None:
    """A part of the plan cannot have more repeats than the whole."""
    parts: list[tuple[Place, Sweep | Retrained]] = [
        (("retrained", n), again) for n, again in enumerate(plan.retrained)
    ]
    parts += [(("sweep",), plan.sweep)] if plan.sweep else []
    for place, part in parts:
        if part.repeats > plan.repeats:
            what = f"'repeats' is above those of the plan, {plan.repeats}."
            top.fail((*place, "repeats"), what, got=str(part.repeats))


def _said(model: Model) -> str:
    return f"{model.task}/{model.source} ({model.training})"


def _count(section: Section, key: str, default: int) -> int:
    value = section.take(key, int, default)
    if value < 1:
        section.fail((key,), f"'{key}' is below 1.", got=str(value))
    return value


def _positive(section: Section, key: str, default: float) -> float:
    value = section.take(key, float, default)
    if not 0 < value < math.inf:
        section.fail((key,), f"'{key}' is not above 0.", got=str(value))
    return value


def _root(top: Section, path: Path, data: str | Path | None) -> Path:
    """Where the images are: as said, or relative to the plan; $NAME is an environment variable."""
    written = top.take("data", str, "")
    if data is not None:
        return Path(data)
    if not written:
        top.fail((), "The plan has no 'data', the root of the images.", allowed="data, or --data")
    expanded = os.path.expandvars(written)
    if "$" in expanded:
        top.fail(("data",), f"The environment has no {expanded}.", allowed="set it, or --data")
    root = path.parent / expanded
    if not root.is_dir():
        top.fail(("data",), f"There is no folder {root}.", allowed=LAYOUT)
    return root


def _training(section: Section, usual: Training) -> Training:
    preset = section.take("preset", str, usual.preset)
    recipe = section.take("recipe", str, usual.recipe)
    same = recipe == usual.recipe
    training = Training(preset, recipe, {**(usual.settings if same else {}), **section.rest()})
    if "seed" in section.values:
        section.fail(("seed",), "A plan sets the seeds of training: repeat r has seed r.")
    section.check(("preset",), lambda: UNet.preset(preset, 1, 1))
    section.check(("recipe",), lambda: Recipe.named(recipe))
    for key in section.values:
        if key not in ("preset", "recipe"):
            value = {key: section.values[key]}
            section.check((key,), lambda v=value: Recipe.named(recipe, **v))  # type: ignore[misc]
    section.check((), lambda: training.made(0))
    return training


def _task(section: Section, name: str, root: Path, usual: int) -> Task:
    _check_name(section, (), name)
    folder = section.take("folder", str, name)
    masks = section.take("masks", str, "masks")
    domains = []
    for at, each in enumerate(section.several("domains", str)):
        try:
            domain = find_domain(root, folder, each, masks)
            domain.pairs()
        except (ValueError, OSError) as error:
            said = getattr(error, "what", str(error))
            section.fail(("domains", at), said, allowed=getattr(error, "allowed", ""))
        _check_name(section, ("domains", at), each)
        domains.append(domain)
    if len(domains) < 2:
        section.fail(("domains",), "A split needs two domains.", got=str(len(domains)))
    images, note = _count(section, "images_per_target", usual), section.take("note", str, "")
    return Task(name, tuple(domains), _preprocess(section, folder), images, note)


def _preprocess(section: Section, folder: str) -> Preprocess:
    """That of the task, with what else the section has."""
    changes = section.rest()
    preset = TASKS.get(folder, Preprocess()).as_dict()
    for key in changes:
        if key not in preset:  # the line of its own; what is known may be wrong only together
            section.check((key,), lambda k=key: Preprocess.from_dict({**preset, k: None}))  # type: ignore[misc]
    return section.check(_culprit(preset, changes), lambda: _changed(preset, changes))


def _changed(preset: Mapping[str, Any], changes: Mapping[str, Any]) -> Preprocess:
    """A preset with changes; ``fit = "none"`` drops its size, for which TOML has no word."""
    keeps = {"size": None} if changes.get("fit") == "none" else {}
    return Preprocess.from_dict({**preset, **keeps, **changes})


def _culprit(preset: Mapping[str, Any], changes: Mapping[str, Any]) -> Place:
    """Of changes that are refused, the one without which they would not be, if there is one."""
    for key in changes:
        with suppress(InvalidSetting):
            _changed(preset, {k: v for k, v in changes.items() if k != key})
            return (key,)
    return ()


def _check_name(section: Section, key: Place, name: str) -> None:
    """Results are kept in files with the names of tasks and domains."""
    if not NAME.fullmatch(name):
        allowed = "letters, digits, '.', '_' and '-', of which the last three do not begin it"
        section.fail(key, "That is no name for a task or domain.", allowed=allowed, got=repr(name))


def _members(section: Section) -> dict[str, Any]:
    lambdas = _lambdas(section, LAMBDAS)
    if 1.0 not in lambdas:
        what = "'lambdas' lacks 1, the source model, which all else is compared with."
        section.fail(("lambdas",), what, got=str(list(lambdas)))
    strategies = _strategies(section, STRATEGIES_OF_MEMBERS)
    step = section.take("step", float, 0.2)
    section.check(("step",), lambda: InTEnt(nn.BatchNorm2d(1), step=step))
    section.end()
    return {"lambdas": lambdas, "strategies": strategies, "step": step}


def _strategies(section: Section, usual: tuple[str, ...]) -> tuple[str, ...]:
    found = section.several("strategies", str, usual)
    for at, name in enumerate(found):
        if name not in STRATEGIES_OF_MEMBERS:
            allowed = ", ".join(STRATEGIES_OF_MEMBERS)
            what = f"There is no strategy {name!r} of members."
            if name in STRATEGIES:
                what = f"{name!r} takes passes of its own: ask for it in [[methods]]."
            section.fail(("strategies", at), what, allowed=allowed)
    return found


def _lambdas(section: Section, usual: Sequence[float]) -> tuple[float, ...]:
    """Lambdas in range, each with a name of its own: results are kept by it."""
    found = section.several("lambdas", float, usual)
    seen: dict[str, float] = {}
    for at, lam in enumerate(found):
        place: Place = ("lambdas", at)
        if not LAMBDA.accepts(lam):
            section.fail(place, "A lambda is out of range.", allowed=LAMBDA.range, got=str(lam))
        other = seen.setdefault(str(Variant("source", {"lam": lam})), lam)
        if other != lam:
            what = f"'lambdas' holds {other!r} and {lam!r}, which results could not tell apart."
            allowed = "lambdas that differ in their first 9 digits"
            section.fail(place, what, allowed=allowed, fix="leave one of them out")
    return found


def _asked(section: Section) -> list[Asked]:
    """A method once with its own settings, or once for each lambda."""
    name = section.take("name", str)
    if name not in methods():
        allowed = ", ".join(methods())
        section.fail(("name",), "There is no such method.", allowed=allowed, got=repr(name))
    kind = methods()[name]
    inner = section.section("settings")
    settings = inner.rest()
    for key, value in settings.items():
        inner.check((key,), lambda k=key: require_known(kind.__name__, {k: None}, kind))  # type: ignore[misc]
        inner.check((key,), lambda k=key, v=value: kind(nn.BatchNorm2d(1), **{k: v}))  # type: ignore[misc]
        if key in OF_ALL:
            inner.check((key,), lambda k=key, v=value: _try({k: v}))  # type: ignore[misc]
    lambdas = _lambdas(section, ())
    if lambdas:
        section.check(("lambdas",), lambda: require_known(kind.__name__, {"lam": 0}, kind))
        if "lam" in settings:
            what = "'lam' is set beside 'lambdas', which say the same."
            inner.fail(("lam",), what, allowed="one of the two")
    for at, lam in enumerate(lambdas):
        every = {**settings, "lam": lam}
        section.check(("lambdas", at), lambda s=every: kind(nn.BatchNorm2d(1), **s))  # type: ignore[misc]
    own = section.take("default", bool, not lambdas)
    section.end()
    changed = _not_default(kind, settings)
    found = [Asked(name, {**changed, "lam": lam}) for lam in lambdas]
    return [*found, Asked(name, changed)] if own else found


def _try(settings: dict[str, Any]) -> None:
    """Run a method on a network that, like all of a plan, gives one tensor of one channel.

    Whether activation and output fit shows only there. All methods treat them alike, so that the
    cheapest will do.
    """
    Source(nn.BatchNorm2d(1), **settings)(torch.linspace(0, 1, 64).view(1, 8, 8))


def _not_default(kind: type[Method], settings: dict[str, Any]) -> dict[str, Any]:
    """What changes a method, so that a variant has one name; the rows tell lambda in any case."""
    usual = {f.name: f.default for f in fields(kind)}
    return {k: v for k, v in settings.items() if k == "lam" or v != usual[k]}


def _sweep(top: Section, tasks: tuple[Task, ...], step: float) -> Sweep:
    section = top.section("sweep")
    named = section.several("tasks", str, [tasks[0].name])
    for at, name in enumerate(named):
        _require_task(section, ("tasks", at), name, tasks)
    members = _numbers(section, grid(step))
    sweep = Sweep(
        named, members, _strategies(section, ("average", "ent-baln")), _count(section, "repeats", 1)
    )
    section.end()
    return sweep


def _numbers(section: Section, usual: tuple[float, ...]) -> tuple[int, ...]:
    """Numbers of members, none of which stands for other lambdas in the plan's own grid."""
    found = section.several("members", int)
    if not found:
        section.fail(("members",), "'members' is empty.", allowed="numbers of members, 2 or more")
    for at, count in enumerate(found):
        if count < 2:
            section.fail(("members", at), "A sweep needs 2 members or more.", got=str(count))
        if count == len(usual) and not _alike(usual, even(count)):
            what = f"The step of [members] gives {count} members, too, which are not evenly spaced."
            allowed = f"with this step, any number but {count}: rows could not tell them apart"
            fix = f"take another step in [members], or leave {count} out here"
            section.fail(("members", at), what, allowed=allowed, fix=fix)
    return found


def _alike(some: Sequence[float], others: Sequence[float]) -> bool:
    return all(abs(a - b) < ALIKE for a, b in zip(some, others, strict=True))


def _require_task(section: Section, key: Place, name: str, tasks: tuple[Task, ...]) -> Task:
    for task in tasks:
        if task.name == name:
            return task
    allowed = ", ".join(t.name for t in tasks)
    section.fail(key, f"The plan has no task {name!r}.", allowed=allowed)


def _all_retrained(top: Section, tasks: tuple[Task, ...], usual: Training) -> tuple[Retrained, ...]:
    """Sources trained otherwise; one name is one way of training, wherever it is used."""
    found: dict[str, Retrained] = {}
    every = []
    for section in top.sections("retrained"):
        one = _retrained(section, tasks, usual)
        if found.setdefault(one.name, one).training != one.training:
            what = f"{one.name!r} is the name of two ways of training."
            section.fail(("name",), what, allowed="the same train, or another name")
        every.append(one)
    return tuple(every)


def _retrained(section: Section, tasks: tuple[Task, ...], usual: Training) -> Retrained:
    name, task = section.take("name", str), section.take("task", str)
    if name == PLAIN or not name.replace("-", "").isalnum():
        section.fail(("name",), "A name is letters and digits, and not 'plain'.", got=repr(name))
    its = _require_task(section, ("task",), task, tasks)
    source = section.take("source", str)
    known = [d.name for d in its.domains]
    if source not in known:
        what = f"The plan has no domain {task}/{source}."
        section.fail(("source",), what, allowed=", ".join(known))
    repeats = _count(section, "repeats", 1)
    training = _training(section.section("train"), usual)
    section.end()
    return Retrained(name, task, source, training, repeats)
