"""A table as text: for the terminal, for machines, for a web page, for a paper."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from sitta._util.text import cell
from sitta.bench.tables import Table

MARKDOWN = str.maketrans({sign: "\\" + sign for sign in "\\|*_<>[]"})
LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "→": r"$\to$",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "[": "{[}",  # after the end of a line a bracket would be its argument
        "]": "{]}",
        **{sign: "\\" + sign for sign in "&%$#_{}"},
    }
)


def to_rich(table: Table) -> RichTable:
    """For the terminal."""
    shown = RichTable(box=box.SIMPLE, title=table.title, caption=table.caption)
    shown.title_justify = shown.caption_justify = "left"
    for at, header in enumerate(table.cells.columns):
        shown.add_column(Text(header), justify="left" if at < table.lead else "right")
    for cells in _cells(table):
        shown.add_row(*(Text(text, "bold" if bold else "") for text, bold in cells))
    return shown


def _cells(table: Table) -> Iterator[list[tuple[str, bool]]]:
    """The text of each cell of a row, and whether it is bold."""
    for row, cells in enumerate(table.cells.itertuples(index=False)):
        yield [(text, (row, at) in table.strong) for at, text in enumerate(cells)]


def to_csv(table: Table) -> str:
    """Plain numbers, for machines and spreadsheets."""
    return str(table.data.map(cell).to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def to_markdown(table: Table) -> str:
    """A table of GitHub's Markdown under its title, with its caption below."""
    title, caption = table.title.translate(MARKDOWN), table.caption.translate(MARKDOWN)
    columns = [header.translate(MARKDOWN) for header in table.cells.columns]
    ruler = [":--" if at < table.lead else "--:" for at in range(len(columns))]
    rows = [
        [f"**{c.translate(MARKDOWN)}**" if bold else c.translate(MARKDOWN) for c, bold in cells]
        for cells in _cells(table)
    ]
    body = "\n".join(f"| {' | '.join(line)} |" for line in (columns, ruler, *rows))
    return f"### {title}\n\n{body}\n\n{caption}\n"


def to_latex(table: Table) -> str:
    """A floating table with the rules of booktabs."""
    rows = [
        " & ".join(rf"\textbf{{{_escape(c)}}}" if bold else _escape(c) for c, bold in cells)
        + r" \\"
        for cells in _cells(table)
    ]
    form = "l" * table.lead + "r" * (table.cells.shape[1] - table.lead)
    lines = [
        r"\begin{table}",
        rf"\caption{{{_escape(table.title)}. {_escape(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\centering",
        rf"\begin{{tabular}}{{{form}}}",
        r"\toprule",
        " & ".join(map(_escape, table.cells.columns)) + r" \\",
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("->", "→").translate(LATEX)
