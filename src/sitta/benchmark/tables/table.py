"""A table: plain numbers for machines, formatted cells for people, and what it is an average of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

MISSING = "-"


@dataclass(frozen=True, eq=False)
class Table:
    """A table of the benchmark.

    Attributes:
        name: Short and unique, fit for a file name.
        title: A few words.
        caption: What average it is, on which images, and what is marked.
        data: Plain numbers under plain column names.
        cells: The same for people: text under headings.
        lead: How many columns at the left name the row.
        strong: Which cells are bold, as row and column of ``cells``.
    """

    name: str
    title: str
    caption: str
    data: pd.DataFrame
    cells: pd.DataFrame
    lead: int = 1
    strong: frozenset[tuple[int, int]] = frozenset()

    @property
    def empty(self) -> bool:
        """Whether it has no rows; its caption then says what that means."""
        return len(self.cells) == 0


@dataclass(frozen=True)
class Column:
    """One column for people, made from one or more columns for machines.

    Attributes:
        header: For people.
        keys: Columns of the data.
        show: From their values in a row to the text of the cell.
        strong: Whether the best is bold: 1 the highest, -1 the lowest, 0 none.
    """

    header: str
    keys: tuple[str, ...]
    show: Callable[..., str]
    strong: int = 0


def tabulate(
    name: str,
    title: str,
    caption: str,
    data: pd.DataFrame,
    columns: Sequence[Column],
    lead: int = 1,
    contest: Iterable[Sequence[int]] = (),
) -> Table:
    """A table with its cells made.

    Args:
        name: As in ``Table``.
        title: As in ``Table``.
        caption: As in ``Table``.
        data: As in ``Table``.
        columns: The columns for people.
        lead: As in ``Table``.
        contest: Groups of rows; in each, the best of every column that asks for it is bold.
    """
    cells = {c.header: [c.show(*v) for v in _values(data, c.keys)] for c in columns}
    frame = pd.DataFrame(cells, index=data.index, dtype="str").reset_index(drop=True)
    groups = [list(group) for group in contest]
    strong = frozenset(
        (row, at)
        for at, column in enumerate(columns)
        for group in groups
        if column.strong
        for row in _best(data[column.keys[0]].iloc[group], group, column.strong)
    )
    return Table(name, title, caption, data.reset_index(drop=True), frame, lead, strong)


def _values(data: pd.DataFrame, keys: tuple[str, ...]) -> Iterable[tuple[object, ...]]:
    return zip(*(data[key].tolist() for key in keys), strict=True)


def _best(values: pd.Series, group: list[int], sign: int) -> list[int]:
    """Rows that show the best figure: those that read the same are all the best."""
    shown = (values.astype(float) * sign).round(1)
    return [row for row, value in zip(group, shown, strict=True) if value == shown.max()]


def text(value: object) -> str:
    """As it is."""
    return str(value)


def number(value: float, digits: int = 1) -> str:
    """A figure with one decimal, or a dash.

    Example:
        >>> number(93.449), number(float("nan")), number(-0.04)
        ('93.4', '-', '0.0')
    """
    return MISSING if math.isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}"


def precise(value: float) -> str:
    """A figure with two decimals, or a dash."""
    return number(value, 2)


def signed(value: float, digits: int = 1) -> str:
    """A difference with its sign.

    Example:
        >>> signed(1.26), signed(-0.04), signed(0.049, 2)
        ('+1.3', '0.0', '+0.05')
    """
    shown = number(value, digits)
    return f"+{shown}" if shown not in (MISSING, number(0, digits)) and value > 0 else shown


def whole(value: float) -> str:
    """A count."""
    return MISSING if math.isnan(value) else f"{int(value):,}"


def share(value: float) -> str:
    """A share in per cent.

    Example:
        >>> share(0.1234)
        '12.3 %'
    """
    return MISSING if math.isnan(value) else f"{number(100 * value)} %"


def within(value: float, low: float, high: float) -> str:
    """A mean with its interval.

    Example:
        >>> within(93.41, 92.0, 94.55), within(93.41, float("nan"), float("nan"))
        ('93.4 [92.0, 94.5]', '93.4')
    """
    return f"{number(value)}{_ends(low, high, number)}"


def signed_within(value: float, low: float, high: float) -> str:
    """A difference with its interval, all with their signs."""
    return f"{signed(value)}{_ends(low, high, signed)}"


def signed_precisely_within(value: float, low: float, high: float) -> str:
    """A small difference with its interval, with two decimals.

    Example:
        >>> signed_precisely_within(-0.404, -0.47, 0.02)
        '-0.40 [-0.47, +0.02]'
    """
    return f"{signed(value, 2)}{_ends(low, high, lambda end: signed(end, 2))}"


def beside(value: float, paper: float) -> str:
    """A figure and, in brackets, the paper's.

    Example:
        >>> beside(93.41, 92.9), beside(93.41, float("nan"))
        ('93.4 (92.9)', '93.4')
    """
    return number(value) if math.isnan(paper) else f"{number(value)} ({number(paper)})"


def chance(value: float) -> str:
    """A p value.

    Example:
        >>> chance(0.0312), chance(1e-9)
        ('0.031', '<0.001')
    """
    return "<0.001" if value < 0.001 else number(value, 3)


def _ends(low: float, high: float, show: Callable[[float], str]) -> str:
    return "" if math.isnan(low) or math.isnan(high) else f" [{show(low)}, {show(high)}]"
