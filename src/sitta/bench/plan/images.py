"""Which images a job runs on: all of a target, its seeded draw, or the source's held-out ones."""

from __future__ import annotations

import random
from functools import lru_cache

from sitta.bench.plan.cells import Job
from sitta.bench.plan.schema import Plan
from sitta.data.domains import Domain
from sitta.data.preprocess import Preprocess
from sitta.data.samples import Samples, load, split


def images(
    plan: Plan, job: Job, preprocess: Preprocess | None = None, classes: int | None = None
) -> tuple[Samples, frozenset[tuple[str, int]]]:
    """The images of a job, and which of the target's are in the draw.

    A model that is given has its own preprocessing, and number of classes with the background.
    """
    task = plan.task(job.model.task)
    classes = classes or len(task.classes) + 1
    samples = decoded(task.domain(job.target), preprocess or task.preprocess, classes)
    rows = drawn(plan, task.name, job.target, len(samples))
    in_draw = frozenset((samples.names[i], samples.slices[i]) for i in rows)
    if job.target == job.model.source:  # only those that the model was not trained on
        recipe = plan.training_job(job.model).recipe
        return samples[split(samples, recipe.validation, recipe.seed).held_out], in_draw
    return samples[sorted(rows)] if job.drawn else samples, in_draw


@lru_cache(maxsize=8)
def decoded(domain: Domain, preprocess: Preprocess, classes: int = 2) -> Samples:
    """A target in memory, shared by all models that are tried on it."""
    return load(domain, preprocess, classes)


def drawn(plan: Plan, task: str, target: str, count: int) -> frozenset[int]:
    """Rows of the seeded draw of a target with so many images: the same for every model."""
    chance = random.Random(f"{plan.seed} {task} {target}")  # noqa: S311  (no secret)
    return frozenset(chance.sample(range(count), min(count, plan.task(task).images_per_target)))
