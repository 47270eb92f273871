"""One job of a benchmark: its state, and running it."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from sitta.bench.plan.cells import Job
from sitta.bench.plan.schema import Plan
from sitta.bench.run.evaluate import evaluate
from sitta.bench.run.results import Results
from sitta.errors import DiskFull, SittaError
from sitta.models.checkpoint import card, load, save
from sitta.training import train

PAUSE = 0.3  # seconds before looking again for jobs that other processes have claimed


def undone(results: Results, jobs: Sequence[Job]) -> list[Job]:
    """The jobs that are not done. To count often, pass only those that were not done before."""
    return [job for job in jobs if not results.done(job)]


def pending(results: Results, left: Sequence[Job]) -> list[Job]:
    """Of undone jobs, those that have not failed and do not wait for a model that has."""
    failed = results.failures()
    lost = {job.model for job in left if job.kind == "train" and str(job) in failed}
    return [job for job in left if str(job) not in failed and job.model not in lost]


def is_pending(results: Results, job: Job) -> bool:
    """Whether one job is undone and pending, without a look at all others."""
    if results.done(job) or results.failed(job):
        return False
    return results.ready(job) or not results.failed(Job(job.model, "train"))


def attempt(plan: Plan, results: Results, job: Job) -> bool:
    """Do a job, unless another process has it or did it meanwhile. Failures are recorded."""
    with results.claim(job) as mine:
        if not mine or results.done(job) or results.failed(job):
            return False
        try:
            perform(plan, results, job)
        except DiskFull:  # no fault of this job; there is no room for a failure either
            raise
        except SittaError as error:
            results.fail(job, f"{error}\n")
        except Exception:
            results.fail(job, traceback.format_exc())
    return True


def perform(plan: Plan, results: Results, job: Job) -> None:
    """Train a model, or fill the cells that are missing."""
    model = job.model
    if job.kind != "train":
        checkpoint = str(results.checkpoint(model))
        evaluate(plan, job, checkpoint, results.missing(job), results.write)
        return
    trained = train(plan.training_job(model), results.training(model), resume=True)
    net, about = load(trained.checkpoint), card(trained.checkpoint)
    about = {k: v for k, v in about.items() if k not in ("architecture", "config")}
    save(net, results.checkpoint(model), about, half=True)  # type: ignore[arg-type]
