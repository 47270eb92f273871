"""The same work over a Ray cluster. All nodes must see data and results at the same paths."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sitta.benchmark.cells import Work
from sitta.benchmark.engine import PAUSE, Watch, attempt, one_thread, pending
from sitta.benchmark.plan import Plan
from sitta.benchmark.results import Results
from sitta.memory import keep_all_freed
from sitta.runs.cluster import joined


def spread(plan: Plan, results: Results, works: Sequence[Work], address: str, watch: Watch) -> None:
    """Do all work on a cluster; what a lost node was at is done again by another.

    Args:
        plan: The plan.
        results: Where to.
        works: All of it.
        address: Of the cluster, or ``local``.
        watch: Is told how many are done, of how many.
    """
    plan, results = _absolute(plan), Results(results.folder.resolve())
    left = pending(results, works)
    with joined(address) as ray:
        shared = ray.put((plan, results))
        task = ray.remote(num_cpus=1, max_retries=-1)(_do)
        running: dict[Any, Work] = {}
        while left or running:
            for work in upcoming(left, list(running.values()), _room(ray)):
                left.remove(work)
                running[task.remote(shared, work)] = work
            ready, _ = ray.wait(list(running))
            ray.get(ready)
            for promise in ready:
                del running[promise]
            watch(len(works) - len(left) - len(running), len(works))


def upcoming(left: Sequence[Work], running: Sequence[Work], room: int) -> list[Work]:
    """What to hand out next, in the order of the plan, so that models are done one by one.

    Work that waits for the training of its model is passed over. Ray would keep no order among
    tasks that wait for others: all models would be trained before anything else is done.

    Args:
        left: What has not been handed out.
        running: What has.
        room: How many pieces may be out at a time.
    """
    untrained = {work.model for work in (*left, *running) if work.kind == "train"}
    free = [work for work in left if work.kind == "train" or work.model not in untrained]
    return free[: max(0, room - len(running))]


def _room(ray: Any) -> int:
    """One piece for each core, and one that waits: a cluster that can grow sees the need."""
    return 1 + max(1, int(ray.cluster_resources().get("CPU", 0)))


def _do(shared: tuple[Plan, Results], work: Work) -> None:
    """On a node. Waits if another process of a shared folder is at the same work."""
    plan, results = shared
    keep_all_freed()
    with one_thread():
        while work in pending(results, [work]) and results.ready(work):
            if not attempt(plan, results, work):
                time.sleep(PAUSE)


def _absolute(plan: Plan) -> Plan:
    """Nodes stand in folders of their own."""
    tasks = []
    for task in plan.tasks:
        domains = (replace(d, folder=Path(d.folder).resolve()) for d in task.domains)
        tasks.append(replace(task, domains=tuple(domains)))
    return replace(plan, tasks=tuple(tasks))
