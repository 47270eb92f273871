"""Run a plan: any number of workers on one folder, each doing the next job that is free."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sitta._util.process import OnProgress, running
from sitta._util.threads import torch_threads
from sitta.bench.plan.cells import Job, select
from sitta.bench.plan.schema import Plan
from sitta.bench.run.jobs import PAUSE, attempt, pending, undone
from sitta.bench.run.results import Results
from sitta.core.accel import allocator
from sitta.errors import DiskFull, SittaError

GLANCE = 3.0  # seconds between counts of all that is done


def run(
    plan: Plan,
    out: str | Path,
    *,
    repeats: Sequence[int] = (),
    tasks: Sequence[str] = (),
    workers: int = 1,
    threads: int = 1,
    cluster: str | None = None,
    watch: OnProgress = lambda done, total: None,
) -> Results:
    """Train and evaluate all that is not done yet; a run that was stopped goes on in its folder.

    Results do not depend on the number of workers. They may depend on the number of threads, in
    their last digits: threads change the order of sums.

    Args:
        plan: What to do.
        out: Folder of the results.
        repeats: Only these, by their numbers from 0; all if none is given.
        tasks: Only these, by their names; all if none is given.
        workers: Processes on this machine; 1 works in this process.
        threads: Of each worker.
        cluster: Address of a Ray cluster, or ``local``, in place of workers; each job there has one
            thread.
        watch: Is told how many jobs are done, of how many.
    """
    jobs = select(plan, repeats, tasks)
    results = Results(Path(out))
    results.open(plan, jobs)
    results.forgive()
    if cluster is not None:
        from sitta.bench.run.cluster import spread

        spread(plan, results, jobs, cluster, watch)
    elif workers == 1:
        work_loop(plan, results, jobs, threads, watch)
    else:
        start_workers(plan, results, jobs, workers, threads, watch)
    return results


def start_workers(
    plan: Plan, results: Results, jobs: Sequence[Job], count: int, threads: int, watch: OnProgress
) -> None:
    """Several processes that do the same; only the locks in the folder keep them apart."""
    left: Sequence[Job] = jobs
    with running(worker_main, (plan, results, jobs, threads), count) as processes:
        while any(process.is_alive() for process in processes):
            left = undone(results, left)
            watch(len(jobs) - len(left), len(jobs))
            for process in processes:
                process.join(GLANCE / count)
        codes = ", ".join(str(process.exitcode) for process in processes)
    left = undone(results, left)
    watch(len(jobs) - len(left), len(jobs))
    if pending(results, left):
        raise SittaError(
            f"The workers ended early (exit codes {codes}); what they finished is kept.",
            fix="free space on the disk, or use fewer workers if memory was short, then run again",
        )


def worker_main(plan: Plan, results: Results, jobs: Sequence[Job], threads: int) -> None:
    """One process of ``start_workers``."""
    allocator.keep_everything()
    try:
        work_loop(plan, results, jobs, threads)
    except DiskFull as error:
        sys.exit(f"sitta: {error}")


def work_loop(
    plan: Plan,
    results: Results,
    jobs: Sequence[Job],
    threads: int = 1,
    watch: OnProgress = lambda done, total: None,
) -> None:
    """Do jobs until none is left that this process could do."""
    left: Sequence[Job] = jobs
    with torch_threads(threads):
        while possible := pending(results, left := undone(results, left)):
            watch(len(jobs) - len(left), len(jobs))
            if not any(attempt(plan, results, job) for job in possible if results.ready(job)):
                time.sleep(PAUSE)  # all are claimed: wait, in case one of those processes dies
    watch(len(jobs) - len(left), len(jobs))
