"""Dice over lambda, and over the number of lambdas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from sitta.bench.figures import style
from sitta.bench.plan.request import even
from sitta.bench.stats.bootstrap import intervals
from sitta.bench.stats.scores import OVER_TASKS, per_image
from sitta.bench.tables.table_data import DEFAULT_STRATEGY, TableData, labels
from sitta.bench.variant import Variant

# Colour, dashes and width of each strategy: InTEnt's own and the plain mixtures stand out.
LINES: dict[str, tuple[str, Any, float]] = {
    "ent-baln": (style.RED, "-", 1.3),
    "average": (style.GREEN, (0, (5, 2)), 1.3),
    "vote": (style.PURPLE, (0, (1, 1.3)), 1.3),
    "entropy": (style.COLOURS[4], (0, (6, 1.5, 1, 1.5)), 0.8),
    "ent-min": (style.COLOURS[5], (0, (2, 2)), 0.8),
    "ent-topk": (style.COLOURS[6], (0, (4, 1, 1, 1, 1, 1)), 0.8),
    "ent-power": (style.COLOURS[3], (0, (3, 1.5)), 0.8),
    "ent-norm": (style.COLOURS[7], (0, (8, 2)), 0.8),
}
SWEEP = (style.RED, style.BLUE, *style.COLOURS[2:])  # colours of the strategies
NARROWEST = 2.0  # points that a panel spans at least: no drama about tenths


@style.figure("lambda", "Dice over lambda", order=2, by_task=True)
def over_lambda(selection: TableData) -> Figure | None:
    """Each panel is a split, source → target, with a scale of its own.

    The curve is the mean Dice at a fixed lambda over all images and repeats; the band is its 95 %
    interval over images. Lines are the strategies of InTEnt; average and vote use no entropies. The
    star is the oracle, which takes the best lambda of each image; it stands at their mean.
    """
    if not selection.fixed:
        return None
    # What was asked for beside the members, on the draw alone, is a mean of other images. Where
    # all fixed lambdas were, the whole panel is of the draw.
    drawn = selection.only_drawn([*selection.fixed, *selection.strategies])
    if not all(v.label in drawn for v in selection.fixed):
        selection = TableData(selection.rows, without=drawn)
    wide = selection.scores
    wide = wide[wide[labels(selection.fixed)].notna().any(axis=1)]
    groups = wide.groupby(level=["source", "target"], observed=True, sort=True)
    blocks = {(str(a), str(b)): block for (a, b), block in groups}
    result, axes = style.panels(sorted(blocks))
    for split, ax in axes.items():
        _curve(ax, blocks[split], selection)
        ax.set_xlim(-0.04, 1.04)
        ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        low, high = ax.get_ylim()
        spare = max(0, NARROWEST - (high - low)) / 2
        ax.set_ylim(low - spare, high + spare)
    result.supxlabel("λ, the weight of the source statistics (0: this image alone, 1: source)")
    result.supylabel(style.POINTS)
    style.share_legend(result, axes.values())
    result.set_label(
        f"{len(blocks)} panels, one per split: mean Dice at each fixed lambda as a curve with a "
        "95 % band, the strategies of InTEnt as horizontal lines, the oracle as a star."
    )
    return result


def _curve(ax: Axes, wide: pd.DataFrame, selection: TableData) -> None:
    """One panel: the curve with its band, lines of the strategies, the star of the oracle."""
    fixed = sorted(selection.fixed, reverse=True)
    lambdas = [v.lam for v in fixed if v.lam is not None]
    values = per_image(wide)
    mean = values[labels(fixed)].mean().to_numpy(float)
    low, high = intervals(values[labels(fixed)])[OVER_TASKS]
    low, high = (np.where(np.isnan(end), mean, end) for end in (low, high))
    ax.fill_between(lambdas, low, high, color=style.BLUE, alpha=0.16, linewidth=0)
    ax.plot(lambdas, mean, "o-", color=style.BLUE, markersize=2.6, label="Fixed lambda")
    strategies = {v.strategy: v.label for v in selection.strategies}
    for strategy, (colour, dashes, width) in LINES.items():
        name = strategies.get(strategy)
        if name and values[name].notna().any():
            level = values[name].mean()
            ax.axhline(level, color=colour, linestyle=dashes, linewidth=width, label=name)
    for variant in selection.oracle[:1]:
        _star(ax, wide[labels(fixed)].set_axis(lambdas, axis=1), values[variant.label], variant)


def _star(ax: Axes, fixed: pd.DataFrame, best: pd.Series, oracle: Variant) -> None:
    """The oracle, at the mean of the lambdas that are best for each image and repeat.

    Of those that it chooses from; of several that are as good for an image, at their middle.
    """
    if best.notna().any():
        grid = even(oracle.members)
        chosen = list(grid) if {*grid} <= {*fixed} else sorted(fixed, reverse=True)
        there = fixed[chosen].dropna()
        best_ones = there.eq(there.max(axis=1), axis=0)
        at = (best_ones.mul(chosen).sum(axis=1) / best_ones.sum(axis=1)).mean()
        name = f"{oracle.label} (at its mean)"
        ax.plot([at], [best.mean()], "*", color=style.BLACK, markersize=7, label=name)


@style.figure("sweep", "How many members?", order=5)
def sweep(selection: TableData) -> Figure | None:
    """Mean Dice by the number of evenly spaced lambdas, on images that all numbers have in common.

    Bold: mean over splits. Thin: splits, each shifted to the common level, so that their shapes can
    be compared.
    """
    by_task = {}
    for task, rows in selection.rows.groupby("task"):
        shown = TableData(rows)
        if grid := shown.common(shown.several):
            keys = [(v.strategy, v.members) for v in grid.listed]
            means = grid.means.set_axis(pd.MultiIndex.from_tuples(keys), axis=1)
            by_task[str(task)] = means.sort_index(axis=1)
    if not by_task:
        return None
    drawn = Figure(figsize=(style.WIDTH, 3.2), layout="constrained")
    axes = drawn.subplots(1, len(by_task), squeeze=False)[0]
    for ax, (task, means) in zip(axes, by_task.items(), strict=True):
        _numbers(ax, means)
        ax.set_title(f"{task}: {len(means)} splits")
    axes[0].set_ylabel(style.POINTS)
    drawn.supxlabel("Number of members (log scale)")
    style.share_legend(drawn, axes)
    counts = sorted({k for means in by_task.values() for k in means.columns.unique(1)})
    names = f"{', '.join(map(str, counts))} members in {', '.join(by_task)}"
    drawn.set_label(f"Lines of mean Dice for {names}.")
    return drawn


def _numbers(ax: Axes, means: pd.DataFrame) -> None:
    """One panel: a colour per strategy."""
    level = means.mean(axis=1)
    strategies = sorted(means.columns.unique(0), key=lambda name: name != DEFAULT_STRATEGY)
    for colour, strategy in zip(SWEEP, strategies, strict=False):
        lines = means[strategy]
        for _, line in (lines.sub(level, axis=0) + level.mean()).iterrows():
            ax.plot(line.index, line, color=colour, linewidth=0.6, alpha=0.45)
        name = "InTEnt" if strategy == DEFAULT_STRATEGY else f"InTEnt {strategy}"
        ax.plot(lines.columns, lines.mean(), "o-", color=colour, linewidth=2.2, ms=4, label=name)
    ax.set_xscale("log")
    ticks = sorted(means.columns.unique(1))
    ax.set_xticks(ticks, [str(k) for k in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.grid(axis="y")
