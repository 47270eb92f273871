"""What a plan comes to: models, cells, images and forward passes, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from sitta.benchmark.cells import Work, cost, expand
from sitta.benchmark.evaluate import decoded
from sitta.benchmark.plan import Plan, Task
from sitta.data.domains import Domain

CLASSES = 2  # background and foreground: what a plan trains


def scope(plan: Plan, works: Sequence[Work] | None = None) -> pd.DataFrame:
    """A row for each task and kind of work.

    Args:
        plan: A plan whose data is in place. NIfTI volumes and DICOM series are decoded, to count
            the slices that have a mask.
        works: The part of its work that is meant, from ``selection.select``; all if not given.
    """
    rows = [_row(plan, work) for work in (expand(plan) if works is None else works)]
    return pd.DataFrame(rows).groupby(["task", "kind"], sort=False, as_index=False).sum()


def _count(task: Task, domain: Domain) -> int:
    """Images of a domain, or slices where files hold several."""
    pairs = domain.pairs()
    if task.preprocess.dims == 3 or not any(_is_volume(pair.image) for pair in pairs):
        return len(pairs)
    return len(decoded(domain, task.preprocess, CLASSES))


def _is_volume(path: Path) -> bool:
    return path.name.endswith((".nii", ".nii.gz")) or path.is_dir()


def _row(plan: Plan, work: Work) -> dict[str, object]:
    task = plan.task(work.model.task)
    images = 0
    if work.kind != "train":
        images = _count(task, task.domain(work.target))
        if work.target == work.model.source:
            recipe = plan.job(
                task.name, work.model.source, work.model.repeat, work.model.training
            ).recipe
            images = max(1, round(images * recipe.validation))
        elif work.drawn:
            images = min(images, task.images_per_target)
    return {
        "task": task.name,
        "kind": work.kind,
        "work": 1,
        "cells": len(work.cells),
        "images": images,
        "passes": round(images * cost(plan, work)),
    }
