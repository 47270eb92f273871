"""Run a plan: any number of workers on one folder, each taking the next thing nobody has done."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnProcess
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
    rest: Sequence[Work] = works
    with one_thread():
        while left := _hopeful(results, rest := undone(results, rest)):
            watch(len(works) - len(rest), len(works))
            if not any(attempt(plan, results, work) for work in left if results.ready(work)):
                time.sleep(PAUSE)  # others are at all of it: wait, in case they die
    watch(len(works) - len(rest), len(works))


def undone(results: Results, works: Sequence[Work]) -> list[Work]:
    """What is not done. Who counts often asks only for what was not done before."""
    return [work for work in works if not results.done(work)]


def pending(results: Results, works: Sequence[Work]) -> list[Work]:
    """What is not done, has not failed, and does not wait for a model that has."""
    return _hopeful(results, undone(results, works))


def _hopeful(results: Results, rest: Sequence[Work]) -> list[Work]:
    """Of what is not done, what has not failed and does not wait for a model that has."""
    failed = results.failures()
    lost = {work.model for work in rest if work.kind == "train" and str(work) in failed}
    return [work for work in rest if str(work) not in failed and work.model not in lost]


def is_pending(results: Results, work: Work) -> bool:
    """The same of a single piece, without a look at all others."""
    if results.done(work) or results.failed(work):
        return False
    return results.ready(work) or not results.failed(Work(work.model, "train"))


def attempt(plan: Plan, results: Results, work: Work) -> bool:
    """Do a piece of work, unless somebody else is at it or did it meanwhile. Failures are kept."""
    with results.claim(work) as mine:
        if not mine or results.done(work) or results.failed(work):
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
    crew: list[SpawnProcess] = []
    rest: Sequence[Work] = works
    try:
        while len(crew) < count:
            crew.append(_started(plan, results, works))
        while any(process.is_alive() for process in crew):
            rest = undone(results, rest)
            watch(len(works) - len(rest), len(works))
            for process in crew:
                process.join(GLANCE / count)
    finally:
        for process in crew:
            process.terminate()
            process.join()
    rest = undone(results, rest)
    watch(len(works) - len(rest), len(works))
    if _hopeful(results, rest):
        codes = ", ".join(str(process.exitcode) for process in crew)
        raise SittaError(
            f"The workers ended early (exit codes {codes}); what they finished is kept.",
            fix="run again to go on, with fewer workers if memory was short",
        )


def _started(plan: Plan, results: Results, works: Sequence[Work]) -> SpawnProcess:
    """A process of a crew. Ctrl-C does not reach it, and waits here until it is started."""
    hand = multiprocessing.get_context("spawn").Process(
        target=_hand, args=(plan, results, works), daemon=True
    )
    resource_tracker.ensure_running()  # else begins with the process, and lifts the block again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        hand.start()  # inherits the block: it would be hit while it imports, long before _hand
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return hand


def _hand(plan: Plan, results: Results, works: Sequence[Work]) -> None:
    """What each process of a crew does, for as long as the run that started it is there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends us
    keep_all_freed()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    labour(plan, results, works)


def _end_with_parent() -> None:
    """End this process as a kill would: who killed the run meant all of it, and nothing is lost."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
