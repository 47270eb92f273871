"""The tables of the benchmark: pure functions of the rows of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pandas as pd

from sitta.benchmark.tables.differences import hurts, paired
from sitta.benchmark.tables.grids import methods, splits, strategies
from sitta.benchmark.tables.members import members
from sitta.benchmark.tables.overall import overall
from sitta.benchmark.tables.quality import quality, sweep
from sitta.benchmark.tables.table import Table
from sitta.benchmark.tables.trainings import robust, seeds
from sitta.benchmark.tables.trust import trust
from sitta.errors import SittaError

__all__ = ["TABLES", "Table", "build"]

# Each makes one table or several, and none if the results have nothing for it.
TABLES: dict[str, Callable[[pd.DataFrame], list[Table]]] = {
    "overall": overall,
    "members": members,
    "methods": methods,
    "strategies": strategies,
    "splits": splits,
    "paired": paired,
    "hurts": hurts,
    "quality": quality,
    "trust": trust,
    "sweep": sweep,
    "robust": robust,
    "seeds": seeds,
}


def build(rows: pd.DataFrame, names: Iterable[str] | None = None) -> list[Table]:
    """Tables of some results.

    Args:
        rows: As ``sitta.benchmark.rows.load`` returns them.
        names: Which of ``TABLES``; all if not given.

    Raises:
        SittaError: There is no table of such a name.
    """
    wanted = list(TABLES) if names is None else list(names)
    for name in wanted:
        if name not in TABLES:
            allowed = ", ".join(TABLES)
            raise SittaError("There is no such table.", allowed=allowed, got=repr(name))
    return [table for name in wanted for table in TABLES[name](rows)] if len(rows) else []
