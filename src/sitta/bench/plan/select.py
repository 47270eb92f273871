"""A part of a plan's jobs: some repeats, some tasks, such as one machine's share."""

from __future__ import annotations

from collections.abc import Sequence

from sitta._util.names import unknown_name
from sitta.bench.plan.cells import Job, expand
from sitta.bench.plan.schema import Plan
from sitta.errors import InvalidSetting


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
