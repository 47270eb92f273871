"""All methods against the source: a forest plot."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sitta.bench.figures.style import BLACK, FADED, GREEN, GREY, PURPLE, RED, WIDTH, figure
from sitta.bench.stats.bootstrap import intervals
from sitta.bench.stats.scores import extent, per_image, split_means
from sitta.bench.tables.table_data import DEFAULT_STRATEGY, TableData, labels
from sitta.bench.variant import Variant

GROUPS = {"source": GREY, "intent": RED, "sita": GREEN, "oracle": BLACK}  # others take gradients


class Estimates(NamedTuple):
    """Mean changes against the source in one task, in points, with 95 % intervals, by label."""

    ends: pd.DataFrame
    extent: str


@figure("overall", "Every method against the unadapted model", order=1)
def overall(selection: TableData) -> Figure | None:
    """Mean change in Dice against the unadapted model with its 95 % interval.

    On the drawn images that all methods of a task have in common: mean over the repeats of an
    image, the images of a split and the splits of a task. Right of zero is better. The oracle takes
    the best lambda of each image, which needs the ground truth.
    """
    selection = TableData(selection.rows[selection.rows["drawn"].astype(bool)])
    by_task = estimates(selection)
    if not by_task:
        return None
    there = {label for task in by_task.values() for label in task.ends.index}
    listed = [v for v in _listed(selection) if v.label in there]
    drawn = Figure(figsize=(WIDTH, 0.19 * len(listed) + 0.9), layout="constrained")
    axes = drawn.subplots(1, len(by_task), squeeze=False, sharey=True)[0]
    for ax, task in zip(axes, by_task.values(), strict=True):
        _forest(ax, task.ends, listed)
        images, _, times = task.extent.rpartition(", ")
        ax.set_title(images.replace(" in ", "\nin ", 1) + f"\n{times}")  # a panel is narrow
    _name_lines(axes[0], listed)
    drawn.supxlabel("Change in Dice against source (points, higher is better)")
    drawn.set_label(_highest(by_task, listed))
    return drawn


def estimates(selection: TableData) -> dict[str, Estimates]:
    """Changes of every method against the source, by task; empty without a source."""
    source, listed = selection.source, _listed(selection)
    grid = selection.common([source, *listed]) if source and listed else None
    if source is None or grid is None:
        return {}
    by_task = {}
    for task, block in grid.wide.groupby(level="task", observed=True):
        gains = per_image(block.sub(block[source.label], axis=0)).drop(columns=source.label)
        gains = gains.dropna(axis=1, how="all")
        low, high = intervals(gains)[str(task)]
        ends = pd.DataFrame({"mean": split_means(gains).mean(), "low": low, "high": high})
        by_task[str(task)] = Estimates(ends, extent(block))
    return by_task


def _listed(selection: TableData) -> list[Variant]:
    """InTEnt and its other strategies, fixed lambdas, other methods, the oracle."""
    mixtures = sorted(selection.strategies, key=lambda v: v is not selection.intent)
    fixed = [v for v in selection.fixed if not v.unadapted]
    return [*mixtures, *fixed, *selection.adaptive, *selection.oracle]


def _forest(ax: Axes, ends: pd.DataFrame, listed: list[Variant]) -> None:
    """One panel: a line and a dot for each variant."""
    ax.axvline(0, color=FADED, linewidth=0.8)
    ax.grid(axis="x")
    ax.set_axisbelow(True)
    ax.tick_params(axis="y", length=0)
    for at, variant in enumerate(listed):
        if variant.label in ends.index:
            mean, low, high = ends.loc[variant.label]
            colour = GROUPS.get(variant.method, PURPLE)
            if not np.isnan(low):  # a split of one image gives no interval
                ax.plot([low, high], [at, at], color=colour, linewidth=1.3)
            shape, size = ("D", 5.0) if _is_intent(variant) else ("o", 3.8)
            ax.plot([mean], [at], shape, color=colour, markersize=size)


def _name_lines(ax: Axes, listed: list[Variant]) -> None:
    """Names at the left, in the colours of their dots."""
    ax.set_yticks(range(len(listed)), labels(listed))
    ax.set_ylim(len(listed) - 0.4, -0.6)
    for tick, variant in zip(ax.get_yticklabels(), listed, strict=True):
        tick.set_fontweight("bold" if _is_intent(variant) else "normal")
        tick.set_color(FADED if variant.method == "source" else GROUPS.get(variant.method, PURPLE))


def _is_intent(variant: Variant) -> bool:
    return variant.method == "intent" and variant.strategy == DEFAULT_STRATEGY


def _highest(by_task: dict[str, Estimates], listed: list[Variant]) -> str:
    """What there is to see, in a sentence."""
    oracle = [v.label for v in listed if v.method == "oracle"]
    highest = []
    for task, (ends, _) in by_task.items():
        mean = ends["mean"].drop(oracle, errors="ignore")
        highest += [f"{task} {mean.idxmax()} ({mean.max():+.1f})"] if len(mean) else []
    return (
        f"Mean change in Dice against source of {len(listed)} variants with 95 % intervals. "
        f"Highest without the oracle: {'; '.join(highest)}."
    )
