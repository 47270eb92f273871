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
        trained: dict[str, Any] = {}
        running = []
        for work in left:  # a model's training comes before what needs the model
            first = trained.get(str(work.model))
            promise = task.remote(shared, work, first)
            running.append(promise)
            if work.kind == "train":
                trained[str(work.model)] = promise
        while running:
            ready, running = ray.wait(running)
            ray.get(ready)
            watch(len(works) - len(running), len(works))


def _do(shared: tuple[Plan, Results], work: Work, _trained: Any) -> None:
    """On a node. Waits if another process of a shared folder is at the same work."""
    plan, results = shared
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
