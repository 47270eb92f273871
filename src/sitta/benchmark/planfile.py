"""Reads a plan from TOML and checks all of it, before anything runs."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sitta.benchmark.cells import Model
from sitta.benchmark.measure import TOLERANCE
from sitta.benchmark.places import Place
from sitta.benchmark.plan import (
    Plan,
    Retrained,
    Sweep,
    Task,
    Training,
)
from sitta.benchmark.planmethods import (
    read_asked,
    read_count,
    read_members,
    read_sweep,
    require_task,
)
from sitta.benchmark.rows import PLAIN
from sitta.benchmark.toml import File, Section
from sitta.data.domains import LAYOUT, find_domain
from sitta.data.preprocess import TASKS, Preprocess
from sitta.errors import InvalidSetting
from sitta.models import UNet
from sitta.training import Recipe

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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
    members = read_members(top.section("members"))
    plan = Plan(
        tasks,
        read_count(top, "repeats", 1),
        training,
        **members,
        asked=tuple(a for s in top.sections("methods") for a in read_asked(s)),
        sweep=read_sweep(top, tasks, members["step"]) if "sweep" in top.values else None,
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
    images, note = read_count(section, "images_per_target", usual), section.take("note", str, "")
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
    its = require_task(section, ("task",), task, tasks)
    source = section.take("source", str)
    known = [d.name for d in its.domains]
    if source not in known:
        what = f"The plan has no domain {task}/{source}."
        section.fail(("source",), what, allowed=", ".join(known))
    repeats = read_count(section, "repeats", 1)
    training = _training(section.section("train"), usual)
    section.end()
    return Retrained(name, task, source, training, repeats)
