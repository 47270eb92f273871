"""Reads from a plan what is to be run: fixed lambdas and strategies, methods, the sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import nn

from sitta.adaptation import InTEnt, Method, Source, methods
from sitta.benchmark.cells import Variant, even
from sitta.benchmark.places import Place
from sitta.benchmark.plan import LAMBDAS, STRATEGIES_OF_MEMBERS, Asked, Sweep, Task
from sitta.benchmark.toml import Section
from sitta.integration import STRATEGIES
from sitta.members import grid
from sitta.settings import LAMBDA, require_known

OF_ALL = {f.name for f in fields(Method) if f.init}  # settings that depend on the network
ALIKE = 1.5e-9  # lambdas are rounded to nine digits, of which the last may differ


def read_members(section: Section) -> dict[str, Any]:
    """What one pass serves on all images: lambdas, strategies and step, as fields of a plan."""
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


def read_asked(section: Section) -> list[Asked]:
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


def read_sweep(top: Section, tasks: tuple[Task, ...], step: float) -> Sweep:
    """Other numbers of members than the step of the plan gives."""
    section = top.section("sweep")
    named = section.several("tasks", str, [tasks[0].name])
    for at, name in enumerate(named):
        require_task(section, ("tasks", at), name, tasks)
    members = _numbers(section, grid(step))
    sweep = Sweep(
        named,
        members,
        _strategies(section, ("average", "ent-baln")),
        read_count(section, "repeats", 1),
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


def require_task(section: Section, key: Place, name: str, tasks: tuple[Task, ...]) -> Task:
    """The task of this name; refuses another."""
    for task in tasks:
        if task.name == name:
            return task
    allowed = ", ".join(t.name for t in tasks)
    section.fail(key, f"The plan has no task {name!r}.", allowed=allowed)


def read_count(section: Section, key: str, default: int) -> int:
    """A whole number, 1 or more."""
    value = section.take(key, int, default)
    if value < 1:
        section.fail((key,), f"'{key}' is below 1.", got=str(value))
    return value
