"""Figures of the benchmark, each from the rows alone; what has no rows is not drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from sitta.benchmark.figures.curves import over_lambda, sweep
from sitta.benchmark.figures.forest import overall
from sitta.benchmark.figures.markup import svg
from sitta.benchmark.figures.scatter import trust
from sitta.benchmark.figures.strip import members
from sitta.benchmark.figures.style import STYLE
from sitta.benchmark.figures.waterfall import change
from sitta.benchmark.figures.words import WORDS
from sitta.errors import InvalidSetting
from sitta.storage import finished

FIGURES: dict[str, Callable[..., Figure | None]] = {
    "overall": overall,
    "lambda": over_lambda,
    "change": change,
    "trust": trust,
    "sweep": sweep,
    "members": members,
}
BY_TASK = ("lambda", "change", "trust")  # drawn once a task, as lambda-<task>
FORMATS = ("svg", "png", "pdf")
UNDATED = {"pdf": {"CreationDate": None}, "png": {"Software": None}}


@dataclass(frozen=True)
class Plate:
    """A figure for a page.

    Attributes:
        name: Such as ``lambda-chest``.
        title: A few words.
        caption: How to read it.
        alt: What it shows, for those who do not see it.
        svg: The figure, with ids of its own and no style.
    """

    name: str
    title: str
    caption: str
    alt: str
    svg: str


def names(rows: pd.DataFrame) -> list[str]:
    """Every figure that these rows may have, by name."""
    tasks = sorted(rows["task"].unique())
    found = [[f"{kind}-{t}" for t in tasks] if kind in BY_TASK else [kind] for kind in FIGURES]
    return [name for some in found for name in some]


def draw(rows: pd.DataFrame, name: str) -> Figure | None:
    """One figure; None if the rows for it are missing.

    Args:
        rows: See ``rows.load``.
        name: One of ``names``.

    Raises:
        InvalidSetting: There is no such figure.
    """
    if name not in names(rows):
        allowed = ", ".join(names(rows))
        raise InvalidSetting("There is no such figure.", allowed=allowed, got=repr(name))
    kind, _, task = name.partition("-")
    return FIGURES[kind](rows, task) if task else FIGURES[kind](rows)


def plates(rows: pd.DataFrame, chosen: Iterable[str] | None = None) -> list[Plate]:
    """Figures with their words, for ``page.write``.

    Args:
        rows: See ``rows.load``.
        chosen: Names of figures, or kinds such as ``lambda`` for all tasks; all if None.
    """
    found = []
    for name in _chosen(rows, chosen):
        figure = draw(rows, name)
        if figure is not None:
            title, caption, alt = words(name, figure)
            found.append(Plate(name, title, caption, alt, svg(figure, name, alt)))
    return found


def words(name: str, figure: Figure) -> tuple[str, str, str]:
    """Title, caption and description of a drawn figure."""
    kind, _, task = name.partition("-")
    title, caption = WORDS[kind]
    title = f"{title}: {task}" if task else title
    return title, caption, f"{title}. {figure.get_label()}"


def save(
    rows: pd.DataFrame,
    folder: str | Path,
    names: Iterable[str] | None = None,
    formats: Iterable[str] = ("svg",),
) -> list[Path]:
    """Write figures to ``folder/<name>.<format>``, each whole or not at all.

    Args:
        rows: See ``rows.load``.
        folder: Made if it is not there.
        names: Of figures, or kinds such as ``lambda`` for all tasks; all if None.
        formats: Any of ``svg``, ``png`` and ``pdf``.

    Returns:
        The files, in order; figures without rows have none.
    """
    written = []
    wanted = tuple(formats)
    for ending in wanted:
        if ending not in FORMATS:
            allowed = ", ".join(FORMATS)
            raise InvalidSetting("There is no such format.", allowed=allowed, got=repr(ending))
    for name in _chosen(rows, names):
        figure = draw(rows, name)
        for ending in wanted if figure is not None else ():
            assert figure is not None  # noqa: S101  (said above)
            path = Path(folder) / f"{name}.{ending}"
            _write(figure, name, path)
            written.append(path)
    return written


def _write(figure: Figure, name: str, path: Path) -> None:
    with finished(path) as draft, matplotlib.rc_context(STYLE):
        ending = path.suffix[1:]
        if ending == "svg":
            draft.write_text(svg(figure, name, words(name, figure)[2]), encoding="utf-8")
        else:
            figure.savefig(draft, format=ending, dpi=200, metadata=UNDATED[ending])


def _chosen(rows: pd.DataFrame, chosen: Iterable[str] | None) -> list[str]:
    """Names, with each kind that is asked for in its place for every task."""
    known = names(rows)
    if chosen is None:
        return known
    found: list[str] = []
    for name in chosen:
        found += [k for k in known if k.startswith(f"{name}-")] if name in BY_TASK else [name]
    return found
