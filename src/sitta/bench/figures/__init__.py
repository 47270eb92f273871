"""Figures of the benchmark, each from the rows alone; a figure without its rows is not drawn.

A figure is a function in a module of this package that ``style.figure`` registers.
"""

from __future__ import annotations

import io
import itertools
import pkgutil
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from sitta._util.files import atomic_write
from sitta.bench.figures.style import KINDS, STYLE
from sitta.bench.stats.scores import shifted
from sitta.bench.tables.table_data import TableData
from sitta.errors import InvalidSetting

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)

FIGURES = dict(sorted(KINDS.items(), key=lambda item: item[1].order))
# Formats, each with what makes its files name no date and no version.
FORMATS: dict[str, dict[str, str | None]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
}
FONTS = "'DejaVu Sans', Verdana"  # Verdana is as wide, so that nothing overflows
DIGITS = re.compile(r"(\.\d\d)\d+(?=[ \"]|$)")


@dataclass(frozen=True, eq=False)
class FigurePanel:
    """A drawn figure with its words."""

    name: str  # such as ``lambda-chest``
    title: str
    caption: str  # how to read it
    alt: str  # what it shows, for those who do not see it
    figure: Figure

    @cached_property
    def svg(self) -> str:
        """As SVG text, with a title for screen readers."""
        text = self.encoded("svg", dpi=150, Title=self.alt).decode()
        lines = text.replace("'DejaVu Sans'", FONTS).splitlines()
        # A hundredth of a pixel is enough for a place, and too little for a scale.
        short = [x if "matrix(" in x else DIGITS.sub(r"\1", x.strip()) for x in lines]
        return "\n".join(short) + "\n"

    def encoded(self, form: str, dpi: int = 200, **metadata: str) -> bytes:
        """As matplotlib writes it: the same bytes every time."""
        draft = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            self.figure.savefig(draft, format=form, dpi=dpi, metadata=FORMATS[form] | metadata)
        return draft.getvalue()


def names(rows: pd.DataFrame) -> list[str]:
    """Every figure that these rows may have, by name."""
    tasks = sorted(rows["task"].unique())
    every = []
    for kind, figure in FIGURES.items():
        every += [f"{kind}-{task}" for task in tasks] if figure.by_task else [kind]
    return every


def draw(rows: pd.DataFrame, name: str) -> Figure | None:
    """One figure of ``names``, whatever the user's own style; None if its rows are missing."""
    if name not in names(rows):
        allowed = ", ".join(names(rows))
        raise InvalidSetting("There is no such figure.", allowed=allowed, got=repr(name))
    kind, _, task = name.partition("-")
    shown = shifted(rows)
    if task:
        shown = shown[(shown["task"] == task) & shown["dice"].notna()]
    with matplotlib.rc_context(STYLE):
        return FIGURES[kind].draw(TableData(shown))


def render(rows: pd.DataFrame, chosen: Iterable[str] | None = None) -> list[FigurePanel]:
    """Figures by their names, or by kinds such as ``lambda`` for all tasks; all if None."""
    every = names(rows)
    wanted = []
    for name in every if chosen is None else chosen:
        by_task = name in FIGURES and FIGURES[name].by_task
        wanted += [n for n in every if n.startswith(f"{name}-")] if by_task else [name]
    panels = []
    for name in wanted:
        if figure := draw(rows, name):
            kind, _, task = name.partition("-")
            title = FIGURES[kind].title + (f": {task}" if task else "")
            alt = f"{title}. {figure.get_label()}"
            panels.append(FigurePanel(name, title, FIGURES[kind].caption, alt, figure))
    return panels


def save(
    rows: pd.DataFrame,
    folder: str | Path,
    chosen: Iterable[str] | None = None,
    formats: Iterable[str] = ("svg",),
) -> list[Path]:
    """Write what ``render`` gives to ``folder/<name>.<format>``, each whole or not at all."""
    formats = tuple(formats)
    for form in formats:
        if form not in FORMATS:
            allowed = ", ".join(FORMATS)
            raise InvalidSetting("There is no such format.", allowed=allowed, got=repr(form))
    written = []
    for panel, form in itertools.product(render(rows, chosen), formats):
        written.append(Path(folder) / f"{panel.name}.{form}")
        with atomic_write(written[-1]) as draft:
            draft.write_bytes(panel.svg.encode() if form == "svg" else panel.encoded(form))
    return written
