"""What a plan comes to: models, cells, images and forward passes, before anything runs."""

from __future__ import annotations

import pandas as pd

from sitta.benchmark.cells import Work, cost, expand
from sitta.benchmark.plan import Plan


def scope(plan: Plan) -> pd.DataFrame:
    """A row for each task and kind of work.

    Args:
        plan: A plan whose data is in place. Slices of volumes are counted as one image each file,
            since their number is known only once they are decoded.
    """
    rows = [_row(plan, work) for work in expand(plan)]
    return pd.DataFrame(rows).groupby(["task", "kind"], sort=False, as_index=False).sum()


def _row(plan: Plan, work: Work) -> dict[str, object]:
    task = plan.task(work.model.task)
    images = 0
    if work.kind != "train":
        images = len(task.domain(work.target).pairs())
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
