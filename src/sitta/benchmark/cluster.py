"""The same work over a Ray cluster. All nodes must see data and results at the same paths."""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sitta.benchmark.cells import Work
from sitta.benchmark.engine import PAUSE, Watch, attempt, is_pending, one_thread, pending, undone
from sitta.benchmark.plan import Plan
from sitta.benchmark.results import Results
from sitta.errors import SittaError
from sitta.memory import keep_all_freed
from sitta.runs.cluster import joined

AGAIN = 5  # times that work is handed out once more when it, or the node it ran on, is lost


def spread(plan: Plan, results: Results, works: Sequence[Work], address: str, watch: Watch) -> None:
    """Do all work on a cluster; what a lost node was at is done again by another.

    Work that is lost each time, by a crash or for want of memory, is noted as failed; so is work
    that nodes hand back while nothing of it can be seen here.

    Args:
        plan: The plan.
        results: Where to.
        works: All of it.
        address: Of the cluster, or ``local``.
        watch: Is told how many are done, of how many.
    """
    plan, results = _absolute(plan), Results(results.folder.resolve())
    rest = undone(results, works)
    left, done = pending(results, rest), len(works) - len(rest)
    with joined(address) as ray:
        shared = ray.put((plan, results))
        # Tried again from here: given any number, Ray goes on for ever where memory runs out.
        task = ray.remote(num_cpus=1, max_retries=0)(_do)
        running: dict[Any, Work] = {}
        lost: Counter[str] = Counter()
        while left or running:
            for work in upcoming(left, list(running.values()), _room(ray)):
                left.remove(work)
                running[task.remote(shared, work, _pause(lost[str(work)]))] = work
            ready, _ = ray.wait(list(running))
            for promise in ready:
                work = running.pop(promise)
                if not (why := _loss(ray, promise, results, work)):
                    done += results.done(work)  # not if it failed
                elif lost[str(work)] == AGAIN:
                    results.fail(work, why)
                else:
                    lost[str(work)] += 1
                    left.insert(0, work)
            watch(done, len(works))
    watch(len(works) - len(undone(results, works)), len(works))  # others may have done some


def _loss(ray: Any, promise: Any, results: Results, work: Work) -> str:
    """What to say if work is given up that did not come to its end; nothing if it did."""
    try:
        seen = ray.get(promise)
    except ray.exceptions.RayError as error:
        said = SittaError(
            f"None of {AGAIN + 1} attempts on the cluster came to an end: process or node was lost"
            f" (at last {type(error).__name__}).",
            fix="see Ray's logs; if memory was short, give each node fewer cores; then run again",
        )
        return f"{error}\n{said}\n"
    if is_pending(results, work):
        _refresh(results, work)
    return _unseen(results, work, seen) if is_pending(results, work) else ""


def _unseen(results: Results, work: Work, seen: str) -> str:
    """What to say of work that a node handed back as if there were nothing to do."""
    cells = f"{len(results.missing(work))} of {len(work.cells)} cells are"
    said = SittaError(
        f"{AGAIN + 1} attempts on the cluster came to an end, but here"
        f" {'the model is' if work.kind == 'train' else cells} still missing (at last, {seen}).",
        fix=f"let all nodes see the data and {results.folder} at the same paths, then run again",
    )
    return f"{said}\n"


def _pause(losses: int) -> float:
    """Seconds to wait before work is begun once more: a disk may be slow to show what is new."""
    return PAUSE * (2.0**losses - 1)


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


def _do(shared: tuple[Plan, Results], work: Work, pause: float = 0.0) -> str:
    """On a node. Waits if another process of a shared folder is at the same work.

    The pause is made here: a node that sees nothing does not get all work at once that others
    could do. What is returned is how things look from here.
    """
    plan, results = shared
    time.sleep(pause)
    keep_all_freed()
    _refresh(results, work)
    with one_thread():
        while is_pending(results, work) and results.ready(work):
            if not attempt(plan, results, work):
                time.sleep(PAUSE)
    if not results.ready(work):
        return f"node {platform.node()} saw no {results.checkpoint(work.model)}"
    return f"node {platform.node()} saw it {'done' if results.done(work) else 'failed'}"


def _refresh(results: Results, work: Work) -> None:
    """Open the folders of some work, from the outer ones in, so that what is new in them is seen.

    A network file system may say for a minute that a file is not there which another machine
    wrote; when a folder is opened, it asks anew.
    """
    files = [results.checkpoint(work.model), *map(results.cell, work.cells[:1])]
    within = [p for file in files for p in file.parents if p.is_relative_to(results.folder)]
    for folder in sorted({*within, results.folder / "failed"}):
        with suppress(OSError):  # it may not be there yet
            os.scandir(folder).close()


def _absolute(plan: Plan) -> Plan:
    """Nodes stand in folders of their own."""
    tasks = []
    for task in plan.tasks:
        domains = (replace(d, folder=Path(d.folder).resolve()) for d in task.domains)
        tasks.append(replace(task, domains=tuple(domains)))
    return replace(plan, tasks=tuple(tasks))
