"""The benchmark as one page: findings, figures and tables, in one file that needs no network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from markupsafe import Markup

from sitta.pages import fill
from sitta.storage import finished

TASKS = ("chest", "retina", "spinal", "phantom")
OVERVIEW = "overview"
EXAMPLES = "examples"
TALL = 30  # rows from which on a table scrolls under its header

_FIGURE = re.compile(r"^[-+−±<]?\d[\d.,]*\b")  # noqa: RUF001  (a minus is what people print)


class Titled(Protocol):
    """What tables and figures have in common."""

    @property
    def name(self) -> str:
        """Short and unique."""

    @property
    def title(self) -> str:
        """A few words."""

    @property
    def caption(self) -> str:
        """What it is an average of, or how to read it."""


class TableLike(Titled, Protocol):
    """A table for people, such as ``sitta.benchmark.tables.Table``.

    ``cells`` is a data frame of text, or a list of rows beside a list ``header``. How many columns
    at the left name a row (``lead``, else one), and which cells are bold (``strong``), may be said.
    """

    @property
    def cells(self) -> Any:
        """The text."""


class PlateLike(Titled, Protocol):
    """A figure with its words, such as ``sitta.benchmark.figures.Plate``."""

    @property
    def svg(self) -> str:
        """The figure, with a description and ids of its own."""


@dataclass
class Section:
    """A part of the page."""

    name: str
    title: str
    figures: list[dict[str, Any]] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)


def write(
    path: str | Path,
    tables: Sequence[TableLike],
    figures: Sequence[PlateLike],
    about: Mapping[str, Any],
    *,
    findings: Sequence[str] = (),
    title: str = "Single-image adaptation, measured",
    tasks: Sequence[str] = TASKS,
) -> None:
    """Write the page, whole or not at all.

    A table or figure with the name of a task between hyphens, such as ``lambda-chest``, stands
    under that task; the figure ``members`` is an example; all others are the overview.

    Args:
        path: Where to; an older page there is replaced.
        tables: In order; see ``sitta.benchmark.tables.build``.
        figures: In order; see ``sitta.benchmark.figures.plates``.
        about: Versions, plan, dates, sizes of datasets: words, or mappings and lists of words.
        findings: What it all comes to, a sentence each.
        title: Of the page.
        tasks: In order.
    """
    page = render(tables, figures, about, findings, title, tasks)
    with finished(Path(path)) as draft:
        draft.write_text(page, encoding="utf-8")


def render(
    tables: Sequence[TableLike],
    figures: Sequence[PlateLike],
    about: Mapping[str, Any],
    findings: Sequence[str],
    title: str,
    tasks: Sequence[str],
) -> str:
    """The text of the page; see ``write``."""
    return fill(
        Path(__file__).with_name("bench.html"),
        title=title,
        findings=list(findings),
        sections=_sections(tables, figures, tasks),
        about=[(str(name), _pairs(value)) for name, value in about.items()],
    )


def _sections(
    tables: Iterable[TableLike], figures: Iterable[PlateLike], tasks: Sequence[str]
) -> list[Section]:
    """Overview, tasks, examples; none that is empty."""
    names = {OVERVIEW: "All tasks", **{t: t.capitalize() for t in tasks}, EXAMPLES: "Examples"}
    found = {name: Section(name, title) for name, title in names.items()}
    for figure in figures:
        place = EXAMPLES if figure.name == "members" else _place(figure.name, tasks)
        found[place].figures.append(_figure(figure))
    for table in tables:
        found[_place(table.name, tasks)].tables.append(_table(table))
    return [section for section in found.values() if section.figures or section.tables]


def _place(name: str, tasks: Sequence[str]) -> str:
    return next((task for task in tasks if f"-{task}-" in f"-{name}-"), OVERVIEW)


def _figure(figure: PlateLike) -> dict[str, Any]:
    drawn = figure.svg.replace(' xmlns="http://www.w3.org/2000/svg"', "")  # HTML knows it is one
    return {
        "name": figure.name,
        "title": figure.title,
        "caption": figure.caption,
        "svg": Markup(drawn),  # noqa: S704  (drawn here; names in it were escaped)
    }


def _table(table: TableLike) -> dict[str, Any]:
    """What the template needs of a table: cells that know how they look."""
    header, rows = _text(table)
    lead = getattr(table, "lead", 1)
    strong: frozenset[tuple[int, int]] = getattr(table, "strong", frozenset())
    numeric = [at >= lead and _is_numeric([row[at] for row in rows]) for at in range(len(header))]
    return {
        "name": table.name,
        "title": table.title,
        "caption": _arrows(table.caption),
        "header": list(zip(header, numeric, strict=True)),
        "rows": [
            {
                "new": lead > 1 and at > 0 and rows[at - 1][0] != row[0],
                "cells": [
                    (text, numeric[i], (at, i) in strong, i < lead) for i, text in enumerate(row)
                ],
            }
            for at, row in enumerate(rows)
        ],
        "lead": lead,
        "tall": len(rows) > TALL,
    }


def _text(table: TableLike) -> tuple[list[str], list[list[str]]]:
    """Header and rows, from a data frame or from lists."""
    cells = table.cells
    if hasattr(cells, "columns"):
        header, rows = list(cells.columns), cells.itertuples(index=False, name=None)
    else:
        header, rows = table.header, cells  # type: ignore[attr-defined]
    return [_arrows(str(c)) for c in header], [[_arrows(str(c)) for c in row] for row in rows]


def _arrows(text: str) -> str:
    """As in the figures; a line may break after an arrow only."""
    return text.replace(" -> ", "\N{NO-BREAK SPACE}→ ")


def _is_numeric(cells: Sequence[str]) -> bool:
    """Whether most cells that say anything begin with a figure."""
    said = [cell for cell in cells if cell.strip(" -–—")]  # noqa: RUF001  (dashes of all lengths)
    return 2 * sum(bool(_FIGURE.match(cell)) for cell in said) > len(said)


def _pairs(value: Any) -> list[tuple[str, str]]:
    """A value of ``about`` as pairs of a name, which may be empty, and words."""
    if isinstance(value, Mapping):
        return [(str(name), _words(inner)) for name, inner in value.items()]
    return [("", _words(value))]


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(_words(inner) for inner in value)
    return str(value)
