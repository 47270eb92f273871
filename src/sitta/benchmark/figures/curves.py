"""Dice over lambda, and over the number of members."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from sitta.benchmark.cells import even
from sitta.benchmark.figures.style import (
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    POINTS,
    PURPLE,
    RED,
    WIDTH,
    of_task,
    panels,
    styled,
)
from sitta.benchmark.paired import intervals
from sitta.benchmark.scores import (
    OVER_TASKS,
    Variant,
    in_common,
    per_image,
    scores,
    shifted,
    split_means,
    variants,
)
from sitta.benchmark.tables.listing import Listing, labels
from sitta.benchmark.tables.sheets import partly

# Colour, dashes and width of each strategy: InTEnt's own and the plain mixtures stand out.
LINES: dict[str, tuple[str, Any, float]] = {
    "ent-baln": (RED, "-", 1.3),
    "average": (GREEN, (0, (5, 2)), 1.3),
    "vote": (PURPLE, (0, (1, 1.3)), 1.3),
    "entropy": (COLOURS[4], (0, (6, 1.5, 1, 1.5)), 0.8),
    "ent-min": (COLOURS[5], (0, (2, 2)), 0.8),
    "ent-topk": (COLOURS[6], (0, (4, 1, 1, 1, 1, 1)), 0.8),
    "ent-norm": (COLOURS[7], (0, (8, 2)), 0.8),
}
X_LABEL = "λ, the weight of the source statistics (0: this image alone, 1: source)"
NARROWEST = 2.0  # points that a panel spans at least: no drama about tenths


@styled
def over_lambda(rows: pd.DataFrame, task: str) -> Figure | None:
    """Dice at each fixed lambda, a panel a split, with InTEnt, plain mixtures and the oracle.

    Args:
        rows: See ``rows.COLUMNS``.
        task: Which one.
    """
    shown = of_task(rows, task)
    known = Listing.of(shown)
    if not known.fixed:
        return None
    known = _comparable(shown, known)
    fixed = sorted(known.fixed, key=lambda v: v.lam)
    wide = scores(shown)
    wide = wide[wide[labels(fixed)].notna().any(axis=1)]
    blocks = {
        (str(a), str(b)): block
        for (a, b), block in wide.groupby(level=["source", "target"], observed=True, sort=True)
    }
    figure, axes = panels(sorted(blocks))
    for split, ax in axes.items():
        _curve(ax, blocks[split], fixed, known)
        ax.set_xlim(-0.04, 1.04)
        ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        _widen(ax)
    figure.supxlabel(X_LABEL, fontsize=8.5)
    figure.supylabel(POINTS, fontsize=8.5)
    _share_legend(figure, axes.values())
    figure.set_label(
        f"{len(blocks)} panels, one a split: mean Dice at each fixed lambda as a curve with a 95 % "
        "band, the strategies of InTEnt as horizontal lines, the oracle as a star."
    )
    return figure


def _comparable(rows: pd.DataFrame, known: Listing) -> Listing:
    """Without what was asked for beside the members, on the draw alone: a mean of other images.

    Unless all fixed lambdas were, for then the whole panel is of the draw.
    """
    drawn = partly(rows, [*known.fixed, *known.strategies])
    if all(v.label in drawn for v in known.fixed):
        return known
    return replace(known, every=tuple(v for v in known.every if v.label not in drawn))


def _curve(ax: Axes, wide: pd.DataFrame, fixed: list[Variant], known: Listing) -> None:
    """One panel: the curve with its band, lines of the strategies, the star of the oracle."""
    lambdas = [v.lam for v in fixed]
    values = per_image(wide)
    mean = values[labels(fixed)].mean().to_numpy(float)
    low, high = intervals(values[labels(fixed)])[OVER_TASKS]
    low, high = (np.where(np.isnan(end), mean, end) for end in (low, high))
    ax.fill_between(lambdas, low, high, color=BLUE, alpha=0.16, linewidth=0)
    ax.plot(lambdas, mean, "o-", color=BLUE, markersize=2.6, label="Fixed lambda")
    order = {name: at for at, name in enumerate(LINES)}
    listed = [v for v in known.strategies if v.strategy in order]
    for variant in sorted(listed, key=lambda v: order[v.strategy]):
        if values[variant.label].notna().any():
            colour, dashes, width = LINES[variant.strategy]
            level, name = values[variant.label].mean(), variant.label
            ax.axhline(level, color=colour, linestyle=dashes, linewidth=width, label=name)
    for variant in known.oracle[:1]:
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
        ax.plot([at], [best.mean()], "*", color=BLACK, markersize=7, label=name)


def _widen(ax: Axes) -> None:
    low, high = ax.get_ylim()
    if high - low < NARROWEST:
        middle = (low + high) / 2
        ax.set_ylim(middle - NARROWEST / 2, middle + NARROWEST / 2)


def _share_legend(figure: Figure, axes: Iterable[Axes]) -> None:
    """One legend above all panels."""
    known: dict[str, Any] = {}
    for ax in axes:
        known |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    figure.legend(list(known.values()), list(known), loc="outside upper center", ncols=5)


@styled
def sweep(rows: pd.DataFrame) -> Figure | None:
    """Dice by the number of members, a panel a task, a colour a strategy.

    Thin lines are splits, shifted to the common level; the bold line is their mean.
    """
    found = {str(task): _by_number(some) for task, some in shifted(rows).groupby("task")}
    found = {task: means for task, means in found.items() if len(means)}
    if not found:
        return None
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    axes = figure.subplots(1, len(found), squeeze=False)[0]
    for ax, (task, means) in zip(axes, found.items(), strict=True):
        _numbers(ax, means)
        ax.set_title(f"{task}: {len(means)} splits")
    axes[0].set_ylabel(POINTS)
    figure.supxlabel("Number of members (log scale)", fontsize=8.5)
    _share_legend(figure, axes)
    counts = sorted({k for means in found.values() for k in means.columns.get_level_values(1)})
    figure.set_label(
        f"Lines of mean Dice for {', '.join(map(str, counts))} members in {', '.join(found)}."
    )
    return figure


def _by_number(rows: pd.DataFrame) -> pd.DataFrame:
    """Means of splits of one task, by strategy and number; only strategies with several."""
    every = [v for v in variants(rows) if v.method == "intent" and not v.settings]
    several = [v for v in every if len({w.members for w in every if w.strategy == v.strategy}) > 1]
    if not several:
        return pd.DataFrame()
    means = split_means(in_common(rows, labels(several)))
    means.columns = pd.MultiIndex.from_tuples([(v.strategy, v.members) for v in several])
    return means.sort_index(axis=1)


def _numbers(ax: Axes, means: pd.DataFrame) -> None:
    """One panel of the sweep."""
    level = means.mean(axis=1)
    strategies = sorted(means.columns.unique(0), key=lambda name: name != "ent-baln")
    for colour, strategy in zip((RED, BLUE, GREEN, *COLOURS[3:]), strategies, strict=False):
        lines = means[strategy]
        for _, line in (lines.sub(level, axis=0) + level.mean()).iterrows():
            ax.plot(line.index, line, color=colour, linewidth=0.6, alpha=0.45)
        name = "InTEnt" if strategy == "ent-baln" else f"InTEnt {strategy}"
        ax.plot(lines.columns, lines.mean(), "o-", color=colour, linewidth=2.2, ms=4, label=name)
    ax.set_xscale("log")
    ticks = sorted(means.columns.unique(1))
    ax.set_xticks(ticks, [str(k) for k in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.grid(axis="y")
