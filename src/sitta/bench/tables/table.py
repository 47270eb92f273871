"""What every table is made of: columns, cells for people, and the registry of tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from sitta.bench.stats.scores import shifted
from sitta.bench.tables.table_data import TableData

MISSING = "-"
# Formats of a number: Python's, where z drops the sign of a zero.
NUMBER, PRECISE, SIGNED, SIGNED_PRECISE, WHOLE = "z.1f", "z.2f", "+z.1f", "+z.2f", ",.0f"
SHARE = "%"
Row = dict[str, object]  # of the data of a table


@dataclass(frozen=True, eq=False)
class Table:
    """A table of the benchmark. If it has no rows, its caption says what that means."""

    name: str  # short and unique, fit for a file name
    title: str
    caption: str  # what average it is, on which images, and what is bold
    data: pd.DataFrame  # plain numbers under plain column names
    cells: pd.DataFrame  # the same for people: text under headings
    lead: int = 1  # how many columns at the left name the row
    strong: frozenset[tuple[int, int]] = frozenset()  # bold cells: row and column of ``cells``


@dataclass(frozen=True)
class Column:
    """One column for people, made from one to three columns of the data."""

    header: str
    # Format of a number, or a function from the values in a row to the text of the cell.
    show: str | Callable[..., str] = NUMBER
    # Columns of the data; by default the header in small letters. Two are a number and the paper's,
    # three a number and the ends of its interval.
    keys: tuple[str, ...] = ()
    strong: int = 0  # whether the best is bold: 1 the highest, -1 the lowest, 0 none

    @classmethod
    def interval(cls, header: str, show: str, key: str = "", strong: int = 0) -> Column:
        """A number with the ends of its interval, which have the keys ``<key>, low`` and high."""
        key = key or header
        return cls(header, show, (key, f"{key}, low", f"{key}, high"), strong)

    def cells(self, data: pd.DataFrame) -> list[str]:
        """The text of each row."""
        show = partial(cell, self.show) if isinstance(self.show, str) else self.show
        return [show(*values) for values in zip(*(data[k] for k in self._keys), strict=True)]

    def best(self, data: pd.DataFrame, rows: Sequence[int]) -> list[int]:
        """Those of the rows that are bold: the best, and all that look the same."""
        values = (data[self._keys[0]].iloc[list(rows)] * self.strong).round(1)
        return [row for row, value in zip(rows, values, strict=True) if value == values.max()]

    @property
    def _keys(self) -> tuple[str, ...]:
        return self.keys or (self.header.lower(),)


Builder = Callable[[pd.DataFrame], list[Table]]
_BUILDERS: dict[str, tuple[int, Builder]] = {}


def table(
    name: str, title: str, order: int, rows: Callable[[pd.DataFrame], pd.DataFrame] = shifted
) -> Callable[[Callable[[TableData], Iterator[Table]]], Builder]:
    """Register a function that makes tables of the selected rows, by default cross-domain ones."""

    def register(make: Callable[[TableData], Iterator[Table]]) -> Builder:
        def build(every: pd.DataFrame) -> list[Table]:
            made = make(TableData(rows(every)))
            return [replace(t, name=t.name or name, title=t.title or title) for t in made]

        _BUILDERS[name] = (order, build)
        return build

    return register


def registered() -> dict[str, Builder]:
    """The functions that make tables, by name and in order."""
    in_order = sorted(_BUILDERS, key=lambda name: _BUILDERS[name][0])
    return {name: _BUILDERS[name][1] for name in in_order}


def tabulate(
    caption: str,
    data: pd.DataFrame | list[Row],
    lead: Sequence[str],
    columns: Sequence[Column],
    contest: Sequence[Sequence[int]] = (),
) -> Table:
    """A table with its cells made; its name and title are the registered ones.

    The columns of ``lead`` name a row, as text. In each group of rows of ``contest``, the best of
    every column that asks for it is bold.
    """
    data = pd.DataFrame(data).reset_index(drop=True)
    every = [*(Column(key.capitalize(), str, (key,)) for key in lead), *columns]
    cells = pd.DataFrame({c.header: c.cells(data) for c in every}, index=data.index, dtype="str")
    strong = [
        (row, at)
        for at, column in enumerate(every)
        for group in (contest if column.strong else ())
        for row in column.best(data, group)
    ]
    return Table("", "", caption, data, cells, len(lead), frozenset(strong))


def cell(spec: str, value: float, *others: float) -> str:
    """A number; with one more the paper's in brackets, with two more its interval.

    Example:
        >>> cell(NUMBER, 93.41, 92.0, 94.55), cell(NUMBER, 93.41, 92.9), cell(SIGNED, -0.04)
        ('93.4 [92.0, 94.5]', '93.4 (92.9)', '0.0')
    """
    text, *rest = (_number(spec, each) for each in (value, *others))
    if not rest or MISSING in rest:
        return text
    return f"{text} ({rest[0]})" if len(rest) == 1 else f"{text} [{', '.join(rest)}]"


def _number(spec: str, value: float) -> str:
    if math.isnan(value):
        return MISSING
    if spec == SHARE:
        return f"{100 * value:{NUMBER}} %"
    text = f"{value:{spec}}"
    return text.lstrip("+") if value == 0 or float(text.replace(",", "")) == 0 else text
