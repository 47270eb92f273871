"""The tables of the benchmark: pure functions of the rows of its results.

A table is a function in a module of this package that ``table`` registers.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module

import pandas as pd

from sitta.bench.tables.table import Builder, Table, registered
from sitta.errors import SittaError

__all__ = ["TABLES", "Table", "build"]

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)

# Each makes one table or several, and none if the results have nothing for it.
TABLES: dict[str, Builder] = registered()


def build(rows: pd.DataFrame, names: Iterable[str] | None = None) -> list[Table]:
    """All tables of results, or those named: of ``TABLES``, or single such as ``trust-finding``."""
    wanted = {name: name.partition("-")[0] for name in (TABLES if names is None else names)}
    for name, kind in wanted.items():
        if kind not in TABLES:
            raise _unknown(name, TABLES)
    tables: list[Table] = []
    for name, kind in wanted.items() if len(rows) else ():
        made = {table.name: table for table in TABLES[kind](rows)}
        if made and name not in {kind, *made}:
            raise _unknown(name, [*TABLES, *made])
        tables += [table for each, table in made.items() if name in (kind, each)]
    return tables


def _unknown(name: str, allowed: Iterable[str]) -> SittaError:
    return SittaError("There is no such table.", allowed=", ".join(allowed), got=repr(name))
