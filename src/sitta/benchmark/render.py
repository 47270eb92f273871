"""A table as text: for the terminal, for machines, for a web page, for a paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.table

    from sitta.benchmark.tables import Table

ESCAPED = {
    "\\": r"\textbackslash{}",
    "->": r"$\to$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "[": "{[}",  # after the end of a line a bracket would be its argument
    "]": "{]}",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}


def to_rich(table: Table) -> rich.table.Table:
    """For the terminal."""
    from rich import box
    from rich.table import Table as Rich
    from rich.text import Text

    shown = Rich(box=box.SIMPLE, title=table.title, caption=table.caption)
    shown.title_justify = shown.caption_justify = "left"
    for at, header in enumerate(table.cells.columns):
        shown.add_column(Text(header), justify="left" if at < table.lead else "right")
    for row, cells in enumerate(table.cells.itertuples(index=False)):
        strong = ["bold" if (row, at) in table.strong else "" for at in range(len(cells))]
        shown.add_row(*(Text(cell, style) for cell, style in zip(cells, strong, strict=True)))
    return shown


def to_csv(table: Table) -> str:
    """Plain numbers, for machines."""
    return str(table.data.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def to_markdown(table: Table) -> str:
    """A table of GitHub's Markdown under its title, with its caption below."""
    signs = str.maketrans({sign: "\\" + sign for sign in "\\|*_<>[]"})
    lines = [[header.translate(signs) for header in table.cells.columns]]
    lines.append([":--" if at < table.lead else "--:" for at in range(len(lines[0]))])
    for row, cells in enumerate(table.cells.itertuples(index=False)):
        plain = [cell.translate(signs) for cell in cells]
        lines.append([f"**{c}**" if (row, i) in table.strong else c for i, c in enumerate(plain)])
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"### {table.title.translate(signs)}\n\n{body}\n\n{table.caption.translate(signs)}\n"


def to_latex(table: Table) -> str:
    """A floating table with the rules of booktabs."""
    rows = []
    for row, cells in enumerate(table.cells.itertuples(index=False)):
        plain = [escape(cell) for cell in cells]
        bold = [rf"\textbf{{{c}}}" if (row, i) in table.strong else c for i, c in enumerate(plain)]
        rows.append(" & ".join(bold) + r" \\")
    form = "l" * table.lead + "r" * (table.cells.shape[1] - table.lead)
    lines = [
        r"\begin{table}",
        rf"\caption{{{escape(table.title)}. {escape(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\centering",
        rf"\begin{{tabular}}{{{form}}}",
        r"\toprule",
        " & ".join(map(escape, table.cells.columns)) + r" \\",
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    r"""Text for LaTeX.

    Example:
        >>> escape("mcu -> chn: 5 % of a_b")
        'mcu $\\to$ chn: 5 \\% of a\\_b'
    """
    found, at = "", 0
    while at < len(text):
        sign = text[at : at + 2] if text[at : at + 2] in ESCAPED else text[at]
        found += ESCAPED.get(sign, sign)
        at += len(sign)
    return found
