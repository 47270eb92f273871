"""What gradient steps add to the statistics that they start from."""

from __future__ import annotations

from collections.abc import Iterator

from sitta.adaptation import methods
from sitta.bench.stats.bootstrap import Comparison, by_task, differences
from sitta.bench.stats.scores import OVER_TASKS
from sitta.bench.tables.captions import caption
from sitta.bench.tables.differences import SHARES
from sitta.bench.tables.table import SIGNED_PRECISE, Column, Row, Table, table, tabulate
from sitta.bench.tables.table_data import TableData
from sitta.bench.variant import IN_LAYER, Variant


@table("steps", "What gradient steps add", order=7)
def gradient_gain(selection: TableData) -> Iterator[Table]:
    """Each gradient method at each lambda, minus what it starts from."""
    pairs = {v: base for v in selection.rivals if (base := _start(v, selection))}
    if not pairs:
        return
    wide = selection.scores
    gains = {v: by_task(differences(wide[v.label], wide[b.label])) for v, b in pairs.items()}
    tasks = [*dict.fromkeys(t for gain in gains.values() for t in gain if t != OVER_TASKS)]
    several = len(tasks) > 1
    tasks += [OVER_TASKS] if several else []
    data = [_row(v, base, gains[v], tasks) for v, base in pairs.items()]
    columns = [*(Column.interval(task, SIGNED_PRECISE) for task in tasks), *SHARES]
    last, shares = (", then over tasks", ", mean over tasks") if several else ("", "")
    text = caption("steps", last=last, shares=shares)
    yield tabulate(text, data, ["method", "against"], columns)


def _start(variant: Variant, selection: TableData) -> Variant | None:
    """The network under the statistics that a method takes its steps at, if it was run.

    At lambda 0 and 1 it does not matter whether statistics are captured or mixed in the layers.
    """
    if not _takes_steps(variant.method):
        return None
    same = [v for v in selection.every if v.method == "source" and v.lam == variant.lam]
    alike = ((), IN_LAYER) if variant.lam in (0, 1) else (IN_LAYER,)
    return next((v for v in same if v.settings in alike), None)


def _takes_steps(method: str) -> bool:
    return method in methods() and methods()[method].takes_gradients


def _row(variant: Variant, base: Variant, gains: dict[str, Comparison], tasks: list[str]) -> Row:
    row: Row = {"method": variant.label, "against": base.label}
    if any(task not in gains for task in tasks):  # or else they would be means of other tasks
        gains = {**gains, OVER_TASKS: Comparison()}
    for task in tasks:
        one = gains.get(task, Comparison())
        row |= {task: one.difference, f"{task}, low": one.low, f"{task}, high": one.high}
    return {**row, "worse": gains[OVER_TASKS].worse, "better": gains[OVER_TASKS].better}
