"""Draw the plot of docs/methods/adapt.md: weights of members on an image, and what comes of it.

    python scripts/adapt_plot.py

The image is a phantom, the first of a stated seed. The results are those of
``docs/results/adapt/tables/adapt.csv``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

import sitta
from sitta.bench.stats.scores import OVER_TASKS
from sitta.data import phantom
from sitta.inference.demo import MODEL, dice

SITE, SEED = "cedar", 6  # as in the hero picture
ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs" / "results" / "adapt" / "tables" / "adapt.csv"
OUT = ROOT / "docs" / "images" / "adapt.svg"
ADAPT, INTENT, PLAIN, BEST = "#0072b2", "#d55e00", "#777777", "#009e73"
ORACLE = "oracle lambda (ground truth)"
FIXED = ["best fixed lambda (hindsight)", "best fixed lambda, in-layer (hindsight)"]
SHOWN = {  # name in the table: what it is called, colour, marker and its size
    "unadapted": ("unadapted", PLAIN, "o", 7),
    "InTEnt": ("InTEnt", INTENT, "s", 7),
    "fixed": ("best fixed lambda, from labels", BEST, "^", 7),
    "adapt": ("Adapt", ADAPT, "D", 9),
}
TASKS = {  # as the README has them, from above
    "chest": "chest radiographs",
    "retina": "retina",
    "spinal": "spinal cord",
    "grey": "grey matter",
}
STYLE = {"font.family": "DejaVu Sans", "font.size": 10, "svg.hashsalt": "sitta"}


def weighed() -> tuple[list[str], Any, Any, Any]:
    """Members of one phantom: names, Dice, and their weights by InTEnt and by Adapt."""
    image, truth = phantom.draw(SITE, 0, seed=SEED)
    p = sitta.Adapt(sitta.load(MODEL), budget="full")(image)
    each = dice(p.member_masks, truth[None].expand(p.member_masks.shape))
    entropy = p.entropies.numpy()
    mild = np.exp(-(entropy - entropy.min()) / np.ptp(entropy))
    return list(p.record.names), np.asarray(each), mild / mild.sum(), p.weights.numpy()


def members(axes: Any) -> None:
    """The Dice of each member, above the weights that it gets."""
    names, each, mild, sharp = weighed()
    above, below = axes
    places = np.arange(len(names))
    above.plot(places, each, "o-", color="black")
    above.set(ylabel="Dice", ylim=(0, 1.02), xticks=places)
    above.tick_params(labelbottom=False)
    above.set_title("One image: members and weights", loc="left", fontweight="bold")
    below.bar(places - 0.2, mild, 0.4, color=INTENT, label="InTEnt's rule")
    below.bar(places + 0.2, sharp, 0.4, color=ADAPT, label="Adapt")
    below.set(ylabel="weight", ylim=(0, 1), xticks=places, xlabel="lambda of the member")
    below.set_xticklabels(names)
    below.legend(frameon=False, loc="upper right")


def results(ax: Any, table: pd.DataFrame) -> None:
    """Gains on real images by task, of Adapt and of what it is held against.

    As shares of what the best lambda of each image would gain: tasks differ too much for Dice.
    """
    table = table[(table["domain"] == "cross-domain") & (table["task"] != OVER_TASKS)]
    wide = table.pivot(index="task", columns="against", values="other")
    wide["adapt"] = table[table["against"] == "InTEnt"].set_index("task")["adapt"]
    wide["fixed"] = wide[FIXED].max(axis="columns")  # however statistics are mixed
    wide = wide.reindex([task for task in TASKS if task in wide.index][::-1])
    gain = wide[ORACLE] - wide["unadapted"]
    for name, (label, colour, marker, size) in SHOWN.items():
        share = 100 * (wide[name] - wide["unadapted"]) / gain
        ax.plot(share, range(len(wide)), marker, color=colour, label=label, markersize=size)
    ax.set(xlabel="gain in Dice, % of the gain of each image's best lambda", xlim=(-2, 102))
    ax.set(yticks=range(len(wide)), yticklabels=wide.index.map(TASKS), ylim=(-0.5, len(wide) - 0.5))
    ax.set_title("Gain on real images of other sites", loc="left", fontweight="bold")
    ax.grid(axis="x", alpha=0.3)
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def picture(table: pd.DataFrame) -> Figure:
    """Both halves."""
    figure = Figure(figsize=(9.5, 4.4), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=[1, 1.15])
    above = figure.add_subplot(grid[0, 0])
    members((above, figure.add_subplot(grid[1, 0], sharex=above)))
    results(figure.add_subplot(grid[:, 1]), table)
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    with rc_context(STYLE):
        picture(pd.read_csv(TABLE)).savefig(OUT, metadata={"Date": None, "Creator": None})
