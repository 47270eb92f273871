"""The paper's Table 1: every method at its own lambda, by task."""

from __future__ import annotations

import pandas as pd

from sitta.benchmark.paired import intervals
from sitta.benchmark.scores import (
    OVER_TASKS,
    Variant,
    extent,
    per_image,
    repeats,
    shared,
    shifted,
    source_means,
    task_means,
)
from sitta.benchmark.tables.listing import Listing, labels
from sitta.benchmark.tables.table import Column, Table, number, tabulate, text, within
from sitta.benchmark.tables.theirs import OVER_SOURCES, about_paper, reported

CAPTION = (
    "Dice x100 with its 95 % interval: mean over the repeats of an image, the images of a split and"
    " the splits (source to another domain) of a task{last}. All rows are on the images that every"
    " listed method was run on ({extent}). Bold is the best but for the oracle, which needs the"
    " truth. InTEnt vote and average weigh its members alike."
)
LAST = ", then the mean over tasks, and last the mean over source domains of all tasks"


def overall(rows: pd.DataFrame) -> list[Table]:
    """All methods by task, with intervals, and the paper's figures beside them."""
    shown = shifted(rows)
    listed = Listing.of(shown).main
    if not listed:
        return []
    wide = shared(shown, labels(listed))
    if wide.empty:
        return []
    values = per_image(wide)
    data, columns = by_task(listed, values)
    several = OVER_TASKS in data
    if several:
        data[OVER_SOURCES] = source_means(values).mean(skipna=False).to_numpy()
        columns.append(Column(OVER_SOURCES, (OVER_SOURCES,), number, strong=1))
        columns += _paper(data, OVER_SOURCES, reported(listed, values))
    caption = CAPTION.format(extent=extent(repeats(wide)), last=LAST if several else "")
    caption += about_paper(listed, values, data)
    fair = [i for i, v in enumerate(listed) if v.method != "oracle"]
    return [tabulate("overall", "All methods", caption, data, columns, contest=[fair])]


def by_task(listed: list[Variant], values: pd.DataFrame) -> tuple[pd.DataFrame, list[Column]]:
    """Means of each task and, of several, over tasks, with intervals and the paper's figures.

    Args:
        listed: The variants, one to a row.
        values: Their figures on each image.
    """
    means, ends, theirs = task_means(values), intervals(values), reported(listed, values)
    data = pd.DataFrame({"method": labels(listed)})
    columns = [Column("Method", ("method",), text)]
    for task in means.index if len(means) > 2 else means.index[:-1]:
        data[task] = means.loc[task].to_numpy()
        data[f"{task}, low"], data[f"{task}, high"] = ends[task]
        columns.append(Column(task, (task, f"{task}, low", f"{task}, high"), within, strong=1))
        columns += _paper(data, task, theirs)
    return data, columns


def _paper(data: pd.DataFrame, name: str, theirs: pd.DataFrame) -> list[Column]:
    """The column with the paper's figures, if it has any."""
    if not theirs[name].notna().any():
        return []
    data[f"{name}, paper"] = theirs[name].to_numpy()
    return [Column(f"{name}, paper", (f"{name}, paper",), number)]
