"""The size of a plan before it runs: models, cells, images and forward passes."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from sitta.bench.plan.cells import Job, cost, expand
from sitta.bench.plan.images import decoded
from sitta.bench.plan.schema import Plan, Task
from sitta.data.domains import Domain


def estimate(plan: Plan, jobs: Sequence[Job] | None = None) -> pd.DataFrame:
    """A row for each task and kind of job; volumes are decoded, to count slices with a mask."""
    rows = [_row(plan, job) for job in (expand(plan) if jobs is None else jobs)]
    return pd.DataFrame(rows).groupby(["task", "kind"], sort=False, as_index=False).sum()


def _row(plan: Plan, job: Job) -> dict[str, object]:
    images = _images(plan, job) if job.cells else 0
    return {
        "task": job.model.task,
        "kind": job.kind,
        "work": 1,
        "cells": len(job.cells),
        "images": images,
        "passes": round(images * cost(plan, job)),
    }


def _images(plan: Plan, job: Job) -> int:
    task = plan.task(job.model.task)
    count = _count(task, task.domain(job.target))
    if job.target == job.model.source:
        return max(1, round(count * plan.training_job(job.model).recipe.validation))
    return min(count, task.images_per_target) if job.drawn else count


def _count(task: Task, domain: Domain) -> int:
    """Images of a domain, or slices where files hold several."""
    paths = [pair.image for pair in domain.pairs()]
    several = any(path.name.endswith((".nii", ".nii.gz")) or path.is_dir() for path in paths)
    if several and task.preprocess.dims == 2:
        return len(decoded(domain, task.preprocess))
    return len(paths)
