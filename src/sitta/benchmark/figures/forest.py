"""All methods against the source: a forest plot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sitta.benchmark.figures.style import (
    BLACK,
    FADED,
    GAIN,
    GREEN,
    GREY,
    PURPLE,
    RED,
    WIDTH,
    styled,
)
from sitta.benchmark.paired import intervals
from sitta.benchmark.scores import (
    Variant,
    complete,
    extent,
    per_image,
    repeats,
    scores,
    shifted,
    split_means,
)
from sitta.benchmark.tables.listing import Listing, labels

GROUPS = {"source": GREY, "intent": RED, "sita": GREEN, "oracle": BLACK}  # others take gradients


@dataclass(frozen=True)
class Estimates:
    """Mean changes against the source in one task, in points.

    Attributes:
        ends: A line a variant, with its mean and the ends of its 95 % interval.
        extent: How many images in how many splits and repeats, in words.
    """

    ends: pd.DataFrame
    extent: str


@styled
def overall(rows: pd.DataFrame) -> Figure | None:
    """Mean change in Dice against the source for every method, a panel a task.

    On the drawn images that all methods of a task have in common, each split with equal weight.
    """
    shown = shifted(rows)
    shown = shown[shown["drawn"].astype(bool)]
    listed, found = _listed(shown), estimates(shown)
    if not found:
        return None
    listed = [v for v in listed if any(v.label in some.ends.index for some in found.values())]
    figure = Figure(figsize=(WIDTH, 0.19 * len(listed) + 0.9), layout="constrained")
    axes = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
    for ax, some in zip(axes, found.values(), strict=True):
        _forest(ax, some.ends, listed)
        ax.set_title(_in_lines(some.extent))
    _name_lines(axes[0], listed)
    figure.supxlabel(GAIN, fontsize=8.5)
    figure.set_label(_highest(found, listed))
    return figure


def estimates(rows: pd.DataFrame) -> dict[str, Estimates]:
    """Changes of every method against the source, by task; empty without a source.

    Args:
        rows: Of the splits and images that are meant.
    """
    source, listed = Listing.of(rows).source, _listed(rows)
    if source is None or not listed:
        return {}
    wide = complete(scores(rows)[labels([source, *listed])])
    found = {}
    for task, block in wide.groupby(level="task", observed=True):
        gains = per_image(block.sub(block[source.label], axis=0)).drop(columns=source.label)
        gains = gains.dropna(axis=1, how="all")
        low, high = intervals(gains)[str(task)]
        ends = pd.DataFrame({"mean": split_means(gains).mean(), "low": low, "high": high})
        found[str(task)] = Estimates(ends, extent(repeats(block)))
    return found


def _listed(rows: pd.DataFrame) -> list[Variant]:
    """InTEnt and its other strategies, fixed lambdas, other methods, the oracle."""
    known = Listing.of(rows)
    mixtures = sorted(known.strategies, key=lambda v: v is not known.intent)
    fixed = [v for v in known.fixed if not v.unadapted]
    return [*mixtures, *fixed, *known.adaptive, *known.oracle]


def _in_lines(extent: str) -> str:
    """Images, splits and repeats in lines of their own, as a panel is narrow."""
    images, _, times = extent.rpartition(", ")
    return images.replace(" in ", "\nin ", 1) + f"\n{times}"


def _forest(ax: Axes, ends: pd.DataFrame, listed: list[Variant]) -> None:
    """One panel: a line and a dot for each variant."""
    ax.axvline(0, color=FADED, linewidth=0.8)
    ax.grid(axis="x")
    ax.set_axisbelow(True)
    ax.tick_params(axis="y", length=0)
    for at, variant in enumerate(listed):
        if variant.label not in ends.index:
            continue
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
    return variant.method == "intent" and variant.strategy == "ent-baln"


def _highest(found: dict[str, Estimates], listed: list[Variant]) -> str:
    """What there is to see, in a sentence."""
    oracle = [v.label for v in listed if v.method == "oracle"]
    said = []
    for task, some in found.items():
        mean = some.ends["mean"].drop(oracle, errors="ignore")
        said += [f"{task} {mean.idxmax()} ({mean.max():+.1f})"] if len(mean) else []
    return (
        f"Mean change in Dice against source of {len(listed)} variants with 95 % intervals. "
        f"Highest without the oracle: {'; '.join(said)}."
    )
