"""Notebooks run while the site is built: what a page shows is what its code just printed.

A cell is Python; a line that starts with ``!`` is a command of the shell, as in Jupyter. Shown are
printed text, the value of a last expression, and figures. An exception fails the build.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx

SHELL = re.compile(r"^!(.+)$", re.MULTILINE)


@dataclass
class Output:
    """What a cell shows."""

    text: str = ""
    figures: list[bytes] = field(default_factory=list)  # PNG


def run(cells: list[dict[str, Any]]) -> Iterator[Output]:
    """Run the code cells of a notebook in order, in one namespace."""
    import matplotlib

    matplotlib.use("Agg")
    space: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells, start=1):
        if cell["cell_type"] == "code":
            yield _run("".join(cell["source"]), space, f"cell {number}")


def _run(source: str, space: dict[str, Any], name: str) -> Output:
    output, printed = Output(), io.StringIO()
    tree = ast.parse(SHELL.sub(r"_shell(\1)", _quoted(source)), name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    space["_shell"] = _shell
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), space)  # noqa: S102  (our own notebook)
        value = None
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), space)  # noqa: S307
        if hasattr(value, "savefig"):
            output.figures.append(_png(value))
        elif value is not None:
            printed.write(f"{value}\n")
    output.text = printed.getvalue()
    return output


def _quoted(source: str) -> str:
    """Commands as string literals, with names in braces filled in as Jupyter does."""
    return SHELL.sub(lambda found: f"!f{found[1]!r}", source)


def _shell(line: str) -> None:
    """Run a command with this Python's own programs first; what it prints is shown."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(  # noqa: S602  (our own notebook)
        line,
        shell=True,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PATH": path, "COLUMNS": "80"},
    )
    if done.returncode:
        raise RuntimeError(f"{line}: exit code {done.returncode}\n{done.stdout}")
    sys.stdout.write(done.stdout)


def _png(figure: Any) -> bytes:
    draft = io.BytesIO()
    figure.savefig(draft, format="png", dpi=110, bbox_inches="tight", metadata={"Software": None})
    return draft.getvalue()


def markdown(cells: list[dict[str, Any]], figures: Path, base: Path) -> str:
    """A notebook as a page: text, code, and below each cell what it shows."""
    outputs, parts, drawn = run(cells), [], 0
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        output = next(outputs)
        language = "sh" if source.startswith("!") else "python"
        parts.append(f"```{language}\n{source.removeprefix('!')}\n```")
        if output.text.strip():
            parts.append(f"```text\n{output.text.rstrip()}\n```")
        for picture in output.figures:
            drawn += 1
            figures.mkdir(parents=True, exist_ok=True)
            path = figures / f"{drawn}.png"
            path.write_bytes(picture)
            said = cell.get("metadata", {}).get("alt", "Figure drawn by the code above")
            parts.append(f"![{said}]({os.path.relpath(path, base)})")
    return "\n\n".join(parts) + "\n"


class NotebookParser(MystParser):
    """Reads ``.ipynb``; the rest is Markdown."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Run the notebook and parse its page, with a link to the file itself."""
        source = Path(document.current_source or document["source"])
        env = document.settings.env
        figures = Path(env.doctreedir).parent / "notebooks" / env.docname
        with contextlib.chdir(source.parent):  # as in Jupyter
            page = markdown(json.loads(inputstring)["cells"], figures, source.parent)
        title, _, rest = page.partition("\n")
        link = f"[Download this notebook](<path:{source.name}>)"
        super().parse(f"{title}\n\n{link}\n{rest}", document)


def setup(app: Sphinx) -> dict[str, Any]:
    """Entry point of the extension."""
    app.add_source_parser(NotebookParser)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
