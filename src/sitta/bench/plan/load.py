"""Read a plan from TOML and check all of it, before anything runs."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from sitta._util.names import unknown_name
from sitta._util.settings import MOST, require_known
from sitta._util.untrusted import shown
from sitta.adaptation import Method, Source, methods
from sitta.bench.plan.errors import Location, PlanError, at, in_words, placed
from sitta.bench.plan.request import ANY_MODEL, MethodRequest, even
from sitta.bench.plan.schema import (
    GivenModel,
    MethodTable,
    Model,
    Plan,
    PlanTable,
    Retrained,
    Sweep,
    Task,
    TaskTable,
    Training,
)
from sitta.bench.stats.rows import PLAIN
from sitta.core.members import grid
from sitta.data.domains import LAYOUT, find_domain
from sitta.data.preprocess import TASKS, Preprocess
from sitta.errors import InvalidSetting
from sitta.inference.loading import find_profile
from sitta.models import UNet
from sitta.training import Recipe

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
OF_NETWORK = {f.name for f in fields(Method) if f.init}  # settings that depend on the network
LONGEST = 1 << 20  # bytes of a plan
ROUNDING = 1.5e-9  # lambdas are rounded to nine digits, of which the last may differ


def read_plan(path: str | Path, data: str | Path | None = None) -> Plan:
    """Read a plan and check all of it, before anything runs.

    ``data`` is the root of the images in place of the plan's own. A PlanError names the place of
    the first mistake, such as ``tasks.chest.domains[1]``.
    """
    path = Path(path)
    with open(path, "rb") as file:
        raw = file.read(LONGEST + 1)
    with at(file=path):
        try:
            text = raw.decode()
            if len(raw) > LONGEST:
                raise PlanError("The file is too long for a plan.", allowed=f"{LONGEST:,} bytes")
            table = PlanTable.model_validate(tomllib.loads(text))
        except UnicodeDecodeError as error:
            raise PlanError(f"This is not a text file ({error.reason}).") from error
        except tomllib.TOMLDecodeError as error:
            raise PlanError(f"This is not TOML: {error}.") from error
        except ValidationError as error:
            raise in_words(error.errors()[0]) from error
        except RecursionError as error:
            raise PlanError("The plan holds too many lists in each other.") from error
        except PlanError:
            raise
        except ValueError as error:  # thousands of digits
            raise PlanError(f"The plan holds a number that cannot be read ({error}).") from error
        return _plan(table, path, data, text)


def _plan(table: PlanTable, path: Path, data: str | Path | None, text: str) -> Plan:
    root = (Path(data) if data is not None else _root(table.data, path)).resolve()
    with at("train"):
        _check_training(table.train)
    if not table.tasks:
        raise PlanError("The plan has no task.", "tasks", allowed="[tasks.<name>] with domains")
    tasks = []
    for name, its in table.tasks.items():
        with at("tasks", name):
            tasks.append(_task(its, name, root, table.images_per_target))
    requests: list[MethodRequest] = []
    complete: list[MethodRequest] = []
    for number, asked in enumerate(table.methods):
        with at("methods", number):
            (complete if asked.every_image else requests).extend(_requests(asked))
    if table.sweep:
        with at("sweep"):
            _check_sweep(table.sweep, table)
    given = []
    for number, model in enumerate(table.models):
        with at("models", number):
            given.append(_given(model, table, path.parent))
    plan = Plan(
        tuple(tasks),
        table.repeats,
        _trainings(table),
        **dict(table.members),
        requests=tuple(requests),
        complete=tuple(complete),
        sweep=table.sweep,
        retrained=tuple(table.retrained),
        given=tuple(given),
        in_domain=table.in_domain,
        seed=table.seed,
        tolerance=table.tolerance,
        text=text,
    )
    _check_models(plan)
    return plan


def _root(written: str, path: Path) -> Path:
    """The folder of the images: relative to the plan; $NAME is an environment variable."""
    if not written:
        what = "The plan has no 'data', the root of the images."
        raise PlanError(what, allowed="data, or --data")
    expanded = os.path.expandvars(written)
    if "$" in expanded:
        raise PlanError(f"The environment has no {expanded}.", "data", allowed="set it, or --data")
    root = path.parent / expanded
    if not root.is_dir():
        raise PlanError(f"There is no folder {root}.", "data", allowed=LAYOUT)
    return root


def _check_training(training: Training) -> None:
    if "seed" in training.settings:
        raise PlanError("A plan sets the seeds of training: repeat r has seed r.", "seed")
    with at("preset"):
        UNet.preset(training.preset, 1, 1)
    with at("recipe"):
        Recipe.named(training.recipe)
    for key, value in training.settings.items():
        with at(key):
            Recipe.named(training.recipe, **{key: value})
    training.recipe_of(0)


def _task(table: TaskTable, name: str, root: Path, images: int) -> Task:
    _check_name(name)
    folder, domains = table.folder or name, []
    for number, each in enumerate(table.domains):
        with at("domains", number):
            domains.append(find_domain(root, folder, each, table.masks))
            domains[-1].pairs()
            _check_name(each)
    if len(domains) < 2 and table.sources != ():  # models that are given may have one target
        raise PlanError("A split needs two domains.", "domains", got=str(len(domains)))
    preprocess = _preprocess(TASKS.get(folder, Preprocess()), table.model_extra or {})
    for number, source in enumerate(table.sources or ()):
        with at("sources", number):
            _require("domain", source, table.domains)
    images = table.images_per_target or images
    about = (table.note, table.public, table.sources)
    return Task(name, tuple(domains), preprocess, images, *about)


def _check_name(name: str) -> None:
    """Results are kept in files with the names of tasks and domains."""
    if not NAME.fullmatch(name):
        allowed = "letters, digits, '.', '_' and '-', of which the last three do not begin it"
        what = "That is no name for a task or domain."
        raise InvalidSetting(what, allowed=allowed, got=repr(name))


def _preprocess(preset: Preprocess, changes: Mapping[str, Any]) -> Preprocess:
    """The task's, with changes; an error names the change without which there would be none."""

    def changed(changes: Mapping[str, Any]) -> Preprocess:
        size = {"size": None} if changes.get("fit") == "none" else {}  # as TOML has no null
        return Preprocess.from_dict({**preset.as_dict(), **size, **changes})

    try:
        return changed(changes)
    except InvalidSetting as error:
        culprit: Location = ()
        for key in changes:
            with suppress(InvalidSetting):
                changed({k: v for k, v in changes.items() if k != key})
                culprit = (key,)
                break
        raise placed(error, culprit) from error


def _requests(table: MethodTable) -> list[MethodRequest]:
    """A method once with its own settings, or once for each lambda."""
    with at("name"):
        _require("method", table.name, methods())
    kind = methods()[table.name]
    for key, value in table.settings.items():
        with at("settings", key):
            _check_setting(kind, key, value)
    if table.lambdas:
        with at("lambdas"):
            require_known(kind.__name__, {"lam": 0}, kind)
        if "lam" in table.settings:
            what = "'lam' is set beside 'lambdas', which say the same."
            raise PlanError(what, "settings", "lam", allowed="one of the two")
    for number, lam in enumerate(table.lambdas):
        with at("lambdas", number):
            kind(ANY_MODEL, **{**table.settings, "lam": lam})
    usual = {f.name: f.default for f in fields(kind)}  # a variant has one name: without defaults
    changed = {k: v for k, v in table.settings.items() if k == "lam" or v != usual[k]}
    requests = [MethodRequest(table.name, {**changed, "lam": lam}) for lam in table.lambdas]
    own = not table.lambdas if table.default is None else table.default
    return [*requests, MethodRequest(table.name, changed)] if own else requests


def _check_setting(kind: type[Method], key: str, value: Any) -> None:
    """Whether a setting fits the method, and the networks of a plan, which have one channel.

    The latter shows only in a prediction. All methods treat it alike, so the cheapest is run.
    """
    require_known(kind.__name__, {key: None}, kind)
    kind(ANY_MODEL, **{key: value})
    if key in OF_NETWORK:
        Source(ANY_MODEL, **{key: value})(torch.linspace(0, 1, 64).view(1, 8, 8))


def _check_sweep(sweep: Sweep, table: PlanTable) -> None:
    _check_repeats(sweep, table)
    for number, name in enumerate(sweep.tasks):
        with at("tasks", number):
            _require("task", name, table.tasks)
    if not sweep.members:
        raise PlanError("'members' is empty.", "members", allowed="numbers of members, 2 or more")
    for number, count in enumerate(sweep.members):
        with at("members", number):
            _check_count(count, grid(table.members.step))


def _check_repeats(part: Sweep | Retrained, table: PlanTable) -> None:
    if part.repeats > table.repeats:
        what = f"'repeats' is above those of the plan, {table.repeats}."
        raise PlanError(what, "repeats", got=str(part.repeats))


def _check_count(count: int, own: Sequence[float]) -> None:
    """Rows tell members by their number: it must not stand for other lambdas of the plan's."""
    if not 2 <= count <= MOST:
        raise InvalidSetting(
            "A sweep needs 2 members or more.", allowed=f"2 to {MOST}", got=shown(count)
        )
    if count != len(own):
        return
    if any(abs(a - b) >= ROUNDING for a, b in zip(own, even(count), strict=True)):
        raise InvalidSetting(
            f"The step of [members] gives {count} members, too, which are not evenly spaced.",
            allowed=f"with this step, any number but {count}: rows could not tell them apart",
            fix=f"take another step in [members], or leave {count} out here",
        )


def _trainings(table: PlanTable) -> dict[str, Training]:
    """All ways of training; one name is one way, wherever it is used."""
    ways = {PLAIN: table.train}
    for number, again in enumerate(table.retrained):
        with at("retrained", number):
            _check_repeats(again, table)
            _check_retrained(again, table)
            training = again.train.over(table.train)
            with at("train"):
                _check_training(training)
            if ways.setdefault(again.name, training) != training:
                what = f"{again.name!r} is the name of two ways of training."
                raise PlanError(what, "name", allowed="the same train, or another name")
    return ways


def _check_retrained(again: Retrained, table: PlanTable) -> None:
    if again.name == PLAIN or not again.name.replace("-", "").isalnum():
        what = "A name is letters and digits, and not 'plain'."
        raise PlanError(what, "name", got=repr(again.name))
    with at("task"):
        _require("task", again.task, table.tasks)
    with at("source"):
        _require("domain", again.source, table.tasks[again.task].domains)


def _given(model: GivenModel, table: PlanTable, folder: Path) -> GivenModel:
    """A model that is there, with its path as seen from here; it is not loaded yet."""
    with at("task"):
        _require("task", model.task, table.tasks)
    with at("name"):
        _check_name(model.name)
        if model.name in table.tasks[model.task].domains:
            raise PlanError("That is the name of a domain.", got=model.name)
    if model.source is not None:
        with at("source"):
            _require("domain", model.source, table.tasks[model.task].domains)
    beside = folder / model.profile
    with at("profile"):
        path = str(beside.resolve()) if beside.is_file() else model.profile
        if find_profile(path).onnx:
            raise PlanError(
                "A graph has one method built in, and cannot be compared with others.",
                got=model.profile,
                fix="give what it was exported from",
            )
    return model.model_copy(update={"profile": path})


def _require(kind: str, name: str, allowed: Collection[str]) -> None:
    if name not in allowed:
        raise unknown_name(kind, name, allowed)


def _check_models(plan: Plan) -> None:
    """Every model needs a name of its own: results are kept by it."""
    places: dict[Location, Model] = {
        ("tasks", task.name, "domains", number): Model(task.name, domain.name, 0)
        for task in plan.tasks
        for number, domain in enumerate(task.domains)
    }
    for number, given in enumerate(plan.given):
        places["models", number] = Model(given.task, given.name, 0, given=True)
    for number, again in enumerate(plan.retrained):
        places["retrained", number] = Model(again.task, again.source, 0, again.name)
    seen: dict[str, Model] = {}
    for location, model in places.items():
        if (other := seen.setdefault(str(model), model)) is not model:
            one, two = (f"{m.task}/{m.source} ({m.training})" for m in (other, model))
            raise PlanError(
                f"Two models would have the name {model}: {one} and {two}.",
                *location,
                allowed="domains and [[retrained]] that differ in their names",
                fix="leave one out, or give it another name",
            )
