"""What gradient steps add to the statistics that they start from."""

from __future__ import annotations

import pandas as pd

from sitta.benchmark.paired import Comparison, by_task, differences
from sitta.benchmark.scores import OVER_TASKS, Variant, scores, shifted
from sitta.benchmark.tables.listing import Listing
from sitta.benchmark.tables.table import (
    Column,
    Table,
    share,
    signed_precisely_within,
    tabulate,
    text,
)

GRADIENT = ("tent", "sar", "fseg", "memo")
IN_LAYER = "statistics=in-layer"  # as these methods mix, each layer what it receives
CAPTION = (
    "Gradient methods against the same network under the same statistics without a step: paired"
    " differences in Dice points on the images that both were run on, mean over the repeats of an"
    " image, the images of a split, the splits of a task{last}, with a 95 % interval from resampled"
    " images. Worse and better are shares of masks that differ by more than one Dice point{shares}."
)
Row = dict[str, object]


def steps(rows: pd.DataFrame) -> list[Table]:
    """Each gradient method at each lambda, minus what it starts from."""
    shown = shifted(rows)
    known = Listing.of(shown)
    pairs = [(v, base) for v in known.rivals if (base := _start(v, known)) is not None]
    wide = scores(shown) if pairs else pd.DataFrame()
    found = [(v, base, by_task(differences(wide[v.label], wide[base.label]))) for v, base in pairs]
    tasks = _tasks([one for *_, one in found])
    data = pd.DataFrame([_row(*one, tasks) for one in found])
    if data.empty:
        return []
    columns = [Column("Method", ("method",), text), Column("Against", ("against",), text)]
    for task in tasks:
        keys = (task, f"{task}, low", f"{task}, high")
        columns.append(Column(task, keys, signed_precisely_within))
    columns += [
        Column("Worse by > 1", ("worse",), share),
        Column("Better by > 1", ("better",), share),
    ]
    several = OVER_TASKS in tasks
    caption = CAPTION.format(
        last=", and tasks" if several else "", shares=", mean over tasks" if several else ""
    )
    return [tabulate("steps", "What gradient steps add", caption, data, columns, lead=2)]


def _start(variant: Variant, known: Listing) -> Variant | None:
    """The network under the statistics that a method takes its steps at, if it was run.

    At lambda 0 and 1 it does not matter whether statistics are captured or mixed in the layers.
    """
    if variant.method not in GRADIENT:
        return None
    same = [v for v in known.every if v.method == "source" and v.lam == variant.lam]
    usual = [v for v in same if v.settings == IN_LAYER or (not v.settings and v.lam in (0, 1))]
    return usual[0] if usual else None


def _tasks(found: list[dict[str, Comparison]]) -> list[str]:
    """Tasks that any of them has, and their mean if there are several."""
    tasks = dict.fromkeys(task for one in found for task in one if task != OVER_TASKS)
    return [*tasks, OVER_TASKS] if len(tasks) > 1 else [*tasks]


def _row(variant: Variant, base: Variant, found: dict[str, Comparison], tasks: list[str]) -> Row:
    row: Row = {"method": variant.label, "against": base.label}
    if any(task not in found for task in tasks):  # or else they would be means of other tasks
        found = {**found, OVER_TASKS: Comparison()}
    for task in tasks:
        one = found.get(task, Comparison())
        row |= {task: one.difference, f"{task}, low": one.low, f"{task}, high": one.high}
    return {**row, "worse": found[OVER_TASKS].worse, "better": found[OVER_TASKS].better}
