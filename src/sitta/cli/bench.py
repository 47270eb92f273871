"""``sitta bench``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sitta.cli import app

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from sitta.benchmark.engine import Watch

bench = typer.Typer(
    help="Compare methods on images with masks: train, run, tables, figures.",
    no_args_is_help=True,
)
app.add_typer(bench, name="bench")

PlanFile = Annotated[Path, typer.Argument(help="A plan (TOML); see docs/how-to/benchmark.md.")]
Data = Annotated[Path | None, typer.Option(help="Root of the images, in place of the plan's.")]
Repeats = Annotated[
    list[int] | None,
    typer.Option("--repeat", help="Only this repeat, from 0; may be given several times."),
]
Tasks = Annotated[
    list[str] | None, typer.Option("--task", help="Only this task; may be given several times.")
]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


@bench.command()
def plan(
    plan: PlanFile,
    data: Data = None,
    repeat: Repeats = None,
    task: Tasks = None,
    as_json: AsJson = False,
) -> None:
    """Check a plan and show what it comes to, without running anything."""
    from sitta.benchmark.planfile import read_plan
    from sitta.benchmark.scope import scope
    from sitta.benchmark.selection import select

    checked = read_plan(plan, data)
    found = scope(checked, select(checked, repeat or (), task or ()))
    if as_json:
        typer.echo(found.to_json(orient="records"))
        return
    _print(found, "What the plan comes to")
    passes = int(found["passes"].sum())
    typer.echo(
        f"{int(found['cells'].sum())} cells; about {passes:,} forward passes of one image "
        "besides training (a backward pass counted as two)."
    )


@bench.command()
def run(
    plan: PlanFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder; goes on with what is there.")],
    data: Data = None,
    repeat: Repeats = None,
    task: Tasks = None,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes, each with one thread.")
    ] = os.cpu_count() or 1,
    ray: Annotated[
        str | None, typer.Option(help="On a Ray cluster: its address, auto, or local.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train and evaluate all that is not done yet. May be stopped and started at any time."""
    from sitta.benchmark.engine import run as start
    from sitta.benchmark.planfile import read_plan

    with _progress(silent=as_json) as watch:
        results = start(
            read_plan(plan, data),
            out,
            repeats=repeat or (),
            tasks=task or (),
            workers=workers,
            cluster=ray,
            watch=watch,
        )
    _tell(results.status(), results.failures(), as_json)
    if results.failures():
        raise typer.Exit(1)


@bench.command()
def status(
    results: Annotated[Path, typer.Argument(help="Folder of a run.")], as_json: AsJson = False
) -> None:
    """What is done, what is under way, what failed."""
    from sitta.benchmark.results import Results

    found = Results(results)
    _tell(found.status(), found.failures(), as_json)


def _tell(status: pd.DataFrame, failures: dict[str, str], as_json: bool) -> None:
    if as_json:
        rows = json.loads(status.to_json(orient="records"))
        typer.echo(json.dumps({"work": rows, "failures": failures}))
        return
    _print(status, "Models and cells")
    typer.echo(f"{status['done'].sum()} of {status['of'].sum()} done")
    for work, why in failures.items():
        last = why.strip().splitlines()[-1]
        typer.echo(f"- {work}: {last}")


def _print(found: pd.DataFrame, title: str) -> None:
    from rich.console import Console

    Console().print(_table(found, title))


def _table(found: pd.DataFrame, title: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for name in found.columns:
        number = found[name].dtype.kind in "iufb"
        table.add_column(name, justify="right" if number else "left")
    for row in found.itertuples(index=False):
        table.add_row(*(f"{v:,}" if isinstance(v, int) else str(v) for v in row))
    return table


@contextmanager
def _progress(silent: bool) -> Iterator[Watch]:
    """Tells how much is done: by a bar on a terminal, by lines in a file, or not at all."""
    from rich import progress as p
    from rich.console import Console

    console = Console(stderr=True)
    if silent:
        yield lambda done, total: None
    elif not console.is_terminal:
        yield _lines()
    else:
        columns = (p.TextColumn("benchmark"), p.BarColumn(), p.MofNCompleteColumn())
        with p.Progress(*columns, p.TimeRemainingColumn(), console=console, transient=True) as bar:
            task = bar.add_task("", total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines() -> Watch:
    """A line each time that more is done; a run looks every few seconds, mostly in vain."""
    said = -1

    def tell(done: int, total: int) -> None:
        nonlocal said
        if done != said:
            said = done
            typer.echo(f"{done} of {total} pieces of work done", err=True)

    return tell
