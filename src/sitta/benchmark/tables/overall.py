"""The paper's Table 1: every method at its own lambda, by task."""

from __future__ import annotations

import math
import re

import pandas as pd

from sitta.benchmark import paper
from sitta.benchmark.paired import intervals
from sitta.benchmark.scores import OVER_TASKS, Variant, extent, in_common, shifted, task_means
from sitta.benchmark.tables.listing import Listing, labels
from sitta.benchmark.tables.table import Column, Table, number, tabulate, text, within

CAPTION = (
    "Dice x100 with its 95 % interval: mean over the repeats of an image, the images of a split and"
    " the splits (source to another domain) of a task{last}. All rows are on the images that every"
    " listed method was run on ({extent}). Bold is the best but for the oracle, which needs the"
    " truth. InTEnt vote and average weigh its members alike."
)
LAST = ", and last the mean over tasks"
PAPER = (
    " The paper's figures are those of its Table 1, and for fixed lambdas and the average its"
    " appendix' mean over splits; its mean over tasks is taken here, for it prints the mean over"
    " source domains."
)
ELSEWHERE = " Its sites of {tasks} are others than these."


def overall(rows: pd.DataFrame) -> list[Table]:
    """All methods by task, with intervals, and the paper's figures beside them."""
    shown = shifted(rows)
    listed = Listing.of(shown).main
    if not listed:
        return []
    values = in_common(shown, labels(listed))
    if values.empty:
        return []
    means, ends = task_means(values), intervals(values)
    data = pd.DataFrame({"method": labels(listed)})
    columns = [Column("Method", ("method",), text)]
    theirs = reported(listed, list(means.index))
    for task in means.index if len(means) > 2 else means.index[:-1]:
        data[task] = means.loc[task].to_numpy()
        data[f"{task}, low"], data[f"{task}, high"] = ends[task]
        columns.append(Column(task, (task, f"{task}, low", f"{task}, high"), within, strong=1))
        if theirs[task].notna().any():
            data[f"{task}, paper"] = theirs[task].to_numpy()
            columns.append(Column(f"{task}, paper", (f"{task}, paper",), number))
    caption = CAPTION.format(extent=extent(values), last=LAST if len(means) > 2 else "")
    if theirs.notna().any(axis=None):
        other = foreign(values)
        caption += PAPER + (ELSEWHERE.format(tasks=" and ".join(other)) if other else "")
    fair = [i for i, v in enumerate(listed) if v.method != "oracle"]
    return [tabulate("overall", "All methods", caption, data, columns, contest=[fair])]


def reported(listed: list[Variant], tasks: list[str]) -> pd.DataFrame:
    """What the paper has for each variant and task: Table 1, else the mean of its appendix."""
    found = {task: [of_task(v, task) for v in listed] for task in tasks if task != OVER_TASKS}
    frame = pd.DataFrame(found, index=labels(listed), dtype=float)
    return frame.assign(**{OVER_TASKS: frame.mean(axis=1, skipna=False)})


def of_task(variant: Variant, task: str) -> float:
    """The paper's figure of a variant for a task, or not a number."""
    if not in_paper(variant):
        return math.nan
    found = paper.printed(variant.method, variant.lam, variant.strategy, task)
    return found if not math.isnan(found) else paper.task_mean(by_split(variant), task)


def by_split(variant: Variant) -> pd.Series:
    """The paper's figures of a variant by split; empty if it has none."""
    series = paper.of_variant(variant.method, variant.lam, variant.strategy)
    return series if in_paper(variant) else series.iloc[:0]


def foreign(values: pd.DataFrame) -> list[str]:
    """Tasks that the paper has too, but with none of these source domains."""
    sources = values.index.droplevel([n for n in values.index.names if n not in ("task", "source")])
    here: dict[str, set[str]] = {}
    for task, source in sources.unique():
        here.setdefault(str(task), set()).add(str(source))
    return [t for t, names in here.items() if paper.domains(t) and not paper.domains(t) & names]


def in_paper(variant: Variant) -> bool:
    """Whether the paper's figures are of the same method: other settings are another method.

    MEMO's prior is no setting in this sense; it is the lambda, under another name.
    """
    prior = variant.method == "memo" and re.fullmatch(r"prior=[\w-]+", variant.settings)
    return bool(not variant.settings or prior)
