"""The same jobs over a Ray cluster. All nodes must see data and results at the same paths."""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sitta._util.process import OnProgress
from sitta._util.ray import core_count, in_flight, joined
from sitta._util.threads import torch_threads
from sitta.bench.plan.cells import Job
from sitta.bench.plan.schema import Plan
from sitta.bench.run.jobs import PAUSE, attempt, is_pending, pending, undone
from sitta.bench.run.results import Results
from sitta.core.accel import allocator
from sitta.errors import SittaError

RETRIES = 5  # times that a job is handed out again when it, or the node it ran on, is lost


def spread(
    plan: Plan, results: Results, jobs: Sequence[Job], address: str, watch: OnProgress
) -> None:
    """Do all jobs on the cluster at an address; those of a lost node are done again by another.

    A job that is lost each time, by a crash or for want of memory, is recorded as failed; so is a
    job that nodes return as done while its files cannot be seen here.
    """
    results = Results(results.folder.resolve())  # nodes stand in folders of their own
    rest = undone(results, jobs)
    left, done = pending(results, rest), len(jobs) - len(rest)
    lost: Counter[str] = Counter()
    with joined(address) as ray:
        shared = ray.put((plan, results))
        # Retried from here: given any number, Ray goes on for ever where memory runs out.
        task = ray.remote(num_cpus=1, max_retries=0)(_do)

        def next_jobs(running: list[Job]) -> list[Job]:
            chosen = upcoming(left, running, 1 + core_count(ray))  # one waits: a cluster may grow
            for job in chosen:
                left.remove(job)
            return chosen

        def submit(job: Job) -> Any:
            pause = PAUSE * (2.0 ** lost[str(job)] - 1)  # a disk may be slow to show new files
            return task.remote(shared, job, pause)

        for job, promise in in_flight(ray, next_jobs, submit):
            if not (why := _loss(ray, promise, results, job)):
                done += results.done(job)  # not if it failed
            elif lost[str(job)] == RETRIES:
                results.fail(job, why)
            else:
                lost[str(job)] += 1
                left.insert(0, job)
            watch(done, len(jobs))
    watch(len(jobs) - len(undone(results, jobs)), len(jobs))  # other runs may have done some


def _loss(ray: Any, promise: Any, results: Results, job: Job) -> str:
    """Why a job is not done, in case it is given up; empty if it is done or has failed."""
    try:
        seen = ray.get(promise)
    except ray.exceptions.RayError as error:
        said = SittaError(
            f"None of {RETRIES + 1} attempts on the cluster came to an end: process or node was"
            f" lost (at last {type(error).__name__}).",
            fix="see Ray's logs; if memory was short, give each node fewer cores; then run again",
        )
        return f"{error}\n{said}\n"
    if is_pending(results, job):
        _refresh(results, job)
    if not is_pending(results, job):
        return ""
    cells = f"{len(results.missing(job))} of {len(job.cells)} cells are"
    said = SittaError(
        f"{RETRIES + 1} attempts on the cluster came to an end, but here"
        f" {'the model is' if job.kind == 'train' else cells} still missing (at last, {seen}).",
        fix=f"let all nodes see the data and {results.folder} at the same paths, then run again",
    )
    return f"{said}\n"


def upcoming(left: Sequence[Job], running: Sequence[Job], most: int) -> list[Job]:
    """What to hand out next, in the order of the plan, if at most so many may be running.

    Models are thus done one by one. Jobs that wait for the training of their model are passed
    over. Ray would keep no order among tasks that wait for others: all models would be trained
    before anything else is done.
    """
    untrained = {job.model for job in (*left, *running) if job.kind == "train"}
    free = [job for job in left if job.kind == "train" or job.model not in untrained]
    return free[: max(0, most - len(running))]


def _do(shared: tuple[Plan, Results], job: Job, pause: float = 0.0) -> str:
    """Do a job on a node, once no other process has it, and say how things look from there.

    The pause is made here: a node that sees no files must not get all jobs that others could do.
    """
    plan, results = shared
    time.sleep(pause)
    allocator.keep_everything()
    _refresh(results, job)
    with torch_threads(1):
        while is_pending(results, job) and results.ready(job):
            if not attempt(plan, results, job):
                time.sleep(PAUSE)
    if not results.ready(job):
        return f"node {platform.node()} saw no {results.checkpoint(job.model)}"
    return f"node {platform.node()} saw it {'done' if results.done(job) else 'failed'}"


def _refresh(results: Results, job: Job) -> None:
    """Open the folders of a job, from the outer ones in, so that new files in them are seen.

    A network file system may deny for a minute that a file exists which another machine wrote;
    when a folder is opened, it asks the server again.
    """
    files = [results.checkpoint(job.model), *map(results.cell, job.cells[:1])]
    within = [p for file in files for p in file.parents if p.is_relative_to(results.folder)]
    for folder in sorted({*within, results.folder / "failed"}):
        with suppress(OSError):  # it may not be there yet
            os.scandir(folder).close()
