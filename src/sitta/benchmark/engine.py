"""Run a plan: any number of workers on one folder, each taking the next thing nobody has done."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from sitta.benchmark.cells import Work
from sitta.benchmark.evaluate import evaluate
from sitta.benchmark.plan import Plan
from sitta.benchmark.results import Results
from sitta.benchmark.selection import select
from sitta.errors import SittaError
from sitta.memory import keep_all_freed
from sitta.models.checkpoint import card, load, save
from sitta.training import train

PAUSE = 0.3  # seconds between looks at what others do
GLANCE = 3.0  # seconds between counts of all that is done

Watch = Callable[[int, int], None]


def run(
    plan: Plan,
    out: str | Path,
    *,
    repeats: Sequence[int] = (),
    tasks: Sequence[str] = (),
    workers: int = 1,
    cluster: str | None = None,
    watch: Watch | None = None,
) -> Results:
    """Train and evaluate all that is not done yet.

    Results do not depend on the number of workers: each computes in one thread.

    Args:
        plan: What to do.
        out: Folder of the results; a run that was stopped goes on there.
        repeats: Only these, by their numbers from 0; all if none is given.
        tasks: Only these, by their names; all if none is given.
        workers: Processes on this machine; 1 works in this process.
        cluster: Address of a Ray cluster, or ``local``, in place of workers.
        watch: Is told how many pieces of work are done, of how many.

    Raises:
        InvalidSetting: The plan has no such repeat or task, or the folder holds other results.
    """
    works = select(plan, repeats, tasks)
    results = Results(Path(out))
    results.open(plan, works)
    results.forgive()
    report = watch or (lambda done, total: None)
    if cluster is not None:
        from sitta.benchmark.cluster import spread

        spread(plan, results, works, cluster, report)
    elif workers == 1:
        labour(plan, results, works, report)
    else:
        _crew(plan, results, works, workers, report)
    return results


def labour(
    plan: Plan,
    results: Results,
    works: Sequence[Work],
    watch: Watch = lambda done, total: None,
) -> None:
    """Do what is to be done until nothing is left that this process could do."""
    with one_thread():
        while left := pending(results, works):
            watch(len(works) - len(left), len(works))
            if not any(attempt(plan, results, work) for work in left if results.ready(work)):
                time.sleep(PAUSE)  # others are at all of it: wait, in case they die
    watch(sum(map(results.done, works)), len(works))


def pending(results: Results, works: Sequence[Work]) -> list[Work]:
    """What is not done, has not failed, and does not wait for a model that has."""
    failed = results.failures()
    lost = {str(work.model) for work in works if work.kind == "train" and str(work) in failed}
    return [
        work
        for work in works
        if str(work) not in failed and str(work.model) not in lost and not results.done(work)
    ]


def attempt(plan: Plan, results: Results, work: Work) -> bool:
    """Do a piece of work, unless somebody else is at it or did it meanwhile. Failures are kept."""
    with results.claim(work) as mine:
        if not mine or results.done(work) or str(work) in results.failures():
            return False
        try:
            perform(plan, results, work)
        except SittaError as error:
            results.fail(work, f"{error}\n")
        except Exception:
            results.fail(work, traceback.format_exc())
    return True


def perform(plan: Plan, results: Results, work: Work) -> None:
    """Train a model, or fill the cells that are missing."""
    model = work.model
    if work.kind != "train":
        checkpoint = str(results.checkpoint(model))
        evaluate(plan, work, checkpoint, results.missing(work), results.write)
        return
    job = plan.job(model.task, model.source, model.repeat, model.training)
    done = train(job, results.training(model), resume=True)
    net, known = load(done.checkpoint), card(done.checkpoint)
    about = {k: v for k, v in known.items() if k not in ("architecture", "config")}
    save(net, results.checkpoint(model), about, half=True)  # type: ignore[arg-type]


@contextmanager
def one_thread() -> Iterator[None]:
    """Threads of torch change the order of sums: with one, results are the same everywhere."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _crew(plan: Plan, results: Results, works: Sequence[Work], count: int, watch: Watch) -> None:
    """Several processes that do the same; they agree by the locks in the folder alone."""
    context = multiprocessing.get_context("spawn")
    crew = [
        context.Process(target=_hand, args=(plan, results, works), daemon=True)
        for _ in range(count)
    ]
    for process in crew:
        process.start()
    try:
        while any(process.is_alive() for process in crew):
            watch(sum(map(results.done, works)), len(works))
            for process in crew:
                process.join(GLANCE / count)
    finally:
        for process in crew:
            process.terminate()
            process.join()
    if pending(results, works):
        codes = ", ".join(str(process.exitcode) for process in crew)
        raise SittaError(
            f"The workers ended early (exit codes {codes}); what they finished is kept.",
            fix="run again to go on, with fewer workers if memory was short",
        )


def _hand(plan: Plan, results: Results, works: Sequence[Work]) -> None:
    """What each process of a crew does, for as long as the run that started it is there."""
    keep_all_freed()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    labour(plan, results, works)


def _end_with_parent() -> None:
    """End this process as a kill would: who killed the run meant all of it, and nothing is lost."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
