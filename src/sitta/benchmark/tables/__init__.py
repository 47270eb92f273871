"""The tables of the benchmark: pure functions of the rows of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pandas as pd

from sitta.benchmark.tables.differences import hurts, paired
from sitta.benchmark.tables.grids import methods, splits, strategies
from sitta.benchmark.tables.members import members
from sitta.benchmark.tables.overall import overall
from sitta.benchmark.tables.quality import quality, sweep
from sitta.benchmark.tables.steps import steps
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
    "steps": steps,
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
        names: Which of ``TABLES``, or single tables by their own names, such as
            ``trust-finding``; all if not given.

    Raises:
        SittaError: There is no table of such a name.
    """
    wanted = list(TABLES) if names is None else list(names)
    for name in wanted:
        if _kind(name) not in TABLES:
            raise _unknown(name)
    return [table for name in wanted for table in _made(rows, name)] if len(rows) else []


def _kind(name: str) -> str:
    """Which of ``TABLES`` makes a table of this name."""
    return name.partition("-")[0]


def _made(rows: pd.DataFrame, name: str) -> list[Table]:
    """All tables of a kind, or the one of this name; none if the rows have nothing for it."""
    made = TABLES[_kind(name)](rows)
    found = made if name in TABLES else [table for table in made if table.name == name]
    if made and not found:
        raise _unknown(name, made)
    return found


def _unknown(name: str, made: Iterable[Table] = ()) -> SittaError:
    allowed = ", ".join([*TABLES, *(table.name for table in made)])
    return SittaError("There is no such table.", allowed=allowed, got=repr(name))
