"""Tables as text: for the terminal, for machines, in Markdown and in LaTeX."""

import csv
import io
import math

import pandas as pd
import pytest
from rich.console import Console

from sitta.bench.publish import render
from sitta.bench.tables import Table, build
from tests.bench.synthetic import make


@pytest.fixture(scope="module")
def tables():
    rows = make(images=3, drawn=2)
    return build(rows[rows["task"] == "chest"])


@pytest.fixture
def awkward():
    data = pd.DataFrame(
        {"name": ["a_b & 50 % {x}", "[p] | q<r> ~^\\#$"], "value": [1.25, math.nan]}
    )
    cells = pd.DataFrame({"Name|_": data["name"], "Value %": ["1.2", "-"]})
    title, caption = "A & B", "From a -> b_c, 95 % of it."
    return Table("odd", title, caption, data, cells, strong=frozenset({(0, 1)}))


def test_latex_escapes_and_has_as_many_columns_in_every_row(awkward):
    text = render.to_latex(awkward)
    assert r"a\_b \& 50 \% \{x\} & \textbf{1.2} \\" in text
    tail = r"{[}p{]} | q\textless{}r\textgreater{} \textasciitilde{}\textasciicircum{}"
    assert tail + r"\textbackslash{}\#\$ & - \\" in text
    assert r"\caption{A \& B. From a $\to$ b\_c, 95 \% of it.}" in text
    assert r"\begin{tabular}{lr}" in text


def test_latex_of_all_tables_is_well_formed(tables):
    for table in tables:
        text = render.to_latex(table)
        lines = text.splitlines()
        form = next(line for line in lines if line.startswith(r"\begin{tabular}"))
        columns = form.count("l", len(r"\begin{tabular}")) + form.count(
            "r", len(r"\begin{tabular}")
        )
        body = [line for line in lines if line.endswith(r" \\")]
        assert len(body) == len(table.cells) + 1
        assert {line.replace(r"\&", "").count("&") + 1 for line in body} == {columns}
        assert columns == table.cells.shape[1]
        assert text.count("{") == text.count("}")
        plain = text.replace(r"\%", "").replace(r"\_", "").replace(r"$\to$", "")
        assert not set("%_$#<>~^") & set(plain)


def test_markdown_has_a_row_for_each_and_no_stray_bars(awkward, tables):
    lines = render.to_markdown(awkward).splitlines()
    assert lines[0] == "### A & B"
    assert lines[2] == r"| Name\|\_ | Value % |"
    assert lines[3] == "| :-- | --: |"
    assert lines[4] == r"| a\_b & 50 % {x} | **1.2** |"
    assert r"\[p\] \| q\<r\>" in lines[5]
    for table in tables:
        body = [x for x in render.to_markdown(table).splitlines() if x.startswith("|")]
        assert len(body) == len(table.cells) + 2
        assert {x.replace(r"\|", "").count("|") - 1 for x in body} == {table.cells.shape[1]}


def test_csv_reads_back_as_the_numbers(tables):
    for table in tables:
        again = pd.read_csv(io.StringIO(render.to_csv(table)))
        assert list(again.columns) == list(table.data.columns)
        for name in table.data.select_dtypes("number"):
            assert again[name].tolist() == pytest.approx(
                table.data[name].tolist(), rel=1e-5, nan_ok=True
            )


def test_csv_quotes_what_has_commas(awkward):
    odd = Table("odd", "", "", pd.DataFrame({"a, b": ['x, "y"']}), awkward.cells)
    assert list(csv.reader(io.StringIO(render.to_csv(odd)))) == [["a, b"], ['x, "y"']]


def test_terminal_shows_cells_as_they_are(awkward):
    out = io.StringIO()
    Console(file=out, width=90).print(render.to_rich(awkward))
    text = out.getvalue()
    for part in ("A & B", "a_b & 50 % {x}", "[p] | q<r>", "1.2", "From a -> b_c, 95 % of it."):
        assert part in text
    colour = io.StringIO()
    Console(file=colour, width=90, force_terminal=True).print(render.to_rich(awkward))
    assert "\x1b[1m" in colour.getvalue().split("50 %")[1].split("\n")[0]
