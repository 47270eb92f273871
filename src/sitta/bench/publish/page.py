"""The benchmark as one page: findings, figures and tables, in one file that needs no network."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sitta._util.files import atomic_write
from sitta.bench.figures import FigurePanel
from sitta.bench.tables import Table
from sitta.report.html import fill

TALL = 30  # rows from which on a table scrolls under its header
NUMERIC = re.compile(r"^[-+−±<]?\d[\d.,]*\b")  # noqa: RUF001  (a minus is what people print)


def write(
    path: str | Path,
    tables: Sequence[Table],
    figures: Sequence[FigurePanel],
    about: Mapping[str, str | Mapping[str, str]],
    *,
    tasks: Sequence[str],
    findings: Sequence[str] = (),
    title: str = "Single-image adaptation, measured",
) -> None:
    """Write the page, whole or not at all.

    A table or figure with the name of a task between hyphens, such as ``lambda-chest``, stands
    under that task; the figure ``members`` is an example; all others are the overview. About are
    versions, plan, sizes of datasets: words, or words by name.
    """
    template = Path(__file__).with_name("bench.html")
    sections = _sections(tables, figures, tasks)
    facts = [
        (name, value.items() if isinstance(value, Mapping) else [("", value)])
        for name, value in about.items()
    ]
    page = fill(template, title=title, findings=list(findings), sections=sections, about=facts)
    with atomic_write(Path(path)) as draft:
        draft.write_text(page, encoding="utf-8")


def _sections(
    tables: Sequence[Table], figures: Sequence[FigurePanel], tasks: Sequence[str]
) -> list[dict[str, Any]]:
    """Overview, tasks, examples; none that is empty."""
    titles = {"overview": "All tasks", **{t: t.capitalize() for t in tasks}, "examples": "Examples"}
    sections = []
    for name, title in titles.items():
        inside: dict[str, Any] = {
            "figures": [_figure(f) for f in figures if _place(f.name, tasks) == name],
            "tables": [_table(t) for t in tables if _place(t.name, tasks, "overview") == name],
        }
        if any(inside.values()):
            sections.append({"name": name, "title": title, **inside})
    return sections


def _place(name: str, tasks: Sequence[str], members: str = "examples") -> str:
    other = members if name == "members" else "overview"
    return next((task for task in tasks if f"-{task}-" in f"-{name}-"), other)


def _figure(figure: FigurePanel) -> dict[str, Any]:
    encoded = base64.b64encode(figure.svg.encode()).decode("ascii")
    return {**vars(figure), "source": f"data:image/svg+xml;base64,{encoded}"}


def _table(table: Table) -> dict[str, Any]:
    """What the template needs of a table: cells that know how they look."""
    header = [_arrows(name) for name in table.cells]
    rows = [[_arrows(text) for text in row] for row in table.cells.itertuples(index=False)]
    lead = table.lead
    numeric = [at >= lead and _is_numeric([row[at] for row in rows]) for at in range(len(header))]
    shown = []
    for at, row in enumerate(rows):
        cells = [
            (text, numeric[i], (at, i) in table.strong, i < lead) for i, text in enumerate(row)
        ]
        shown.append({"new": lead > 1 and at > 0 and rows[at - 1][0] != row[0], "cells": cells})
    return {
        **vars(table),
        "caption": _arrows(table.caption),
        "header": list(zip(header, numeric, strict=True)),
        "rows": shown,
        "tall": len(rows) > TALL,
    }


def _arrows(text: str) -> str:
    """As in the figures; a line may break after an arrow only."""
    return text.replace(" -> ", "\N{NO-BREAK SPACE}→ ")


def _is_numeric(cells: Sequence[str]) -> bool:
    """Whether most cells that are not a dash begin with a number."""
    filled = [cell for cell in cells if cell.strip(" -")]
    return 2 * sum(bool(NUMERIC.match(cell)) for cell in filled) > len(filled)
