"""The same work over a Ray cluster. All nodes must see data and results at the same paths."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sitta.benchmark.cells import Work
from sitta.benchmark.engine import PAUSE, Watch, attempt, one_thread, pending
from sitta.benchmark.plan import Plan
from sitta.benchmark.results import Results
from sitta.errors import SittaError
from sitta.memory import keep_all_freed
from sitta.runs.cluster import joined

AGAIN = 5  # times that work is handed out once more when the process or node it ran on is lost


def spread(plan: Plan, results: Results, works: Sequence[Work], address: str, watch: Watch) -> None:
    """Do all work on a cluster; what a lost node was at is done again by another.

    Work that is lost each time, by a crash or for want of memory, is noted as failed.

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
        # Tried again from here: given any number, Ray goes on for ever where memory runs out.
        task = ray.remote(num_cpus=1, max_retries=0)(_do)
        running: dict[Any, Work] = {}
        lost: Counter[str] = Counter()
        while left or running:
            for work in upcoming(left, list(running.values()), _room(ray)):
                left.remove(work)
                running[task.remote(shared, work)] = work
            ready, _ = ray.wait(list(running))
            for promise in ready:
                work = running.pop(promise)
                if why := _loss(ray, promise):
                    lost[str(work)] += 1
                    if lost[str(work)] <= AGAIN:
                        left.insert(0, work)
                    else:
                        results.fail(work, why)
            watch(len(works) - len(left) - len(running), len(works))


def _loss(ray: Any, promise: Any) -> str:
    """What to say if work is given up that did not come to its end; nothing if it did."""
    try:
        ray.get(promise)
    except ray.exceptions.RayError as error:
        said = SittaError(
            f"None of {AGAIN + 1} attempts on the cluster came to an end: process or node was lost"
            f" (at last {type(error).__name__}).",
            fix="see Ray's logs; if memory was short, give each node fewer cores; then run again",
        )
        return f"{error}\n{said}\n"
    return ""


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
