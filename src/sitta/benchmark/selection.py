"""A part of a plan's work: some repeats, some tasks, such as one machine's share."""

from __future__ import annotations

from collections.abc import Sequence

from sitta.benchmark.cells import Work, expand
from sitta.benchmark.plan import Plan
from sitta.errors import InvalidSetting


def select(plan: Plan, repeats: Sequence[int] = (), tasks: Sequence[str] = ()) -> list[Work]:
    """The work of these repeats and tasks, in the order of the plan.

    Args:
        plan: The plan.
        repeats: Their numbers, from 0; all if none is given.
        tasks: Their names; all if none is given.

    Raises:
        InvalidSetting: The plan has no such repeat or task.
    """
    for number in repeats:
        if not 0 <= number < plan.repeats:
            allowed = "0" if plan.repeats == 1 else f"0 to {plan.repeats - 1}"
            raise InvalidSetting("The plan has no such repeat.", allowed=allowed, got=str(number))
    known = [task.name for task in plan.tasks]
    for name in tasks:
        if name not in known:
            allowed = ", ".join(known)
            raise InvalidSetting("The plan has no such task.", allowed=allowed, got=repr(name))
    return [
        work
        for work in expand(plan)
        if (not repeats or work.model.repeat in repeats) and (not tasks or work.model.task in tasks)
    ]
