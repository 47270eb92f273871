"""``sitta bench``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sitta.cli import app, command, group
from sitta.cli.options import MACHINE, AsJson, FewThreads, Ray, option
from sitta.cli.show import print_json, print_table, progress, say

if TYPE_CHECKING:
    import pandas as pd

bench = group(
    "Compare methods on images with masks: train, run, tables, figures.",
    "sitta bench run plan.toml --out results",
)
app.add_typer(bench, name="bench")

PlanFile = Annotated[Path, typer.Argument(help="A plan (TOML); see docs/how-to/benchmark.md.")]
Data = Annotated[Path | None, typer.Option(help="Root of the images; by default that of the plan.")]
SEVERAL = "may be given several times."
Repeats = Annotated[list[int] | None, typer.Option(help=f"Only this repeat, from 0; {SEVERAL}")]
Tasks = Annotated[list[str] | None, typer.Option(help=f"Only this task; {SEVERAL}")]


@command(bench, "sitta bench plan plan.toml")
def plan(
    plan: PlanFile,
    data: Data = None,
    repeat: Repeats = None,
    task: Tasks = None,
    as_json: AsJson = False,
) -> None:
    """Check a plan and show its jobs and their cost, without running anything."""
    from sitta.bench.plan.cells import select
    from sitta.bench.plan.estimate import estimate
    from sitta.bench.plan.load import read_plan

    checked = read_plan(plan, data)
    costs = estimate(checked, select(checked, repeat or (), task or ()))
    if as_json:
        say(costs.to_json(orient="records"))
        return
    _print(costs, "Jobs of the plan")
    say(
        f"{costs['cells'].sum()} cells; about {costs['passes'].sum():,} forward passes of one "
        "image besides training (a backward pass counted as two)."
    )


@command(bench, "sitta bench run plan.toml --out results")
def run(
    plan: PlanFile,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Results folder; an existing run resumes.")
    ],
    data: Data = None,
    repeat: Repeats = None,
    task: Tasks = None,
    workers: Annotated[int, option(MACHINE, "Worker processes.", min=1)] = os.cpu_count() or 1,
    threads: FewThreads = 1,
    ray: Ray = None,
    as_json: AsJson = False,
) -> None:
    """Train and evaluate what is not done yet. Stop and resume at any time."""
    with progress("benchmark", silent=as_json, lines=True) as watch:
        from sitta.bench.plan.load import read_plan
        from sitta.bench.run.scheduler import run as start

        results = start(
            read_plan(plan, data),
            out,
            repeats=repeat or (),
            tasks=task or (),
            workers=workers,
            threads=threads,
            cluster=ray,
            watch=watch,
        )
    _tell(results.status(), results.failures(), as_json)
    if results.failures():
        raise typer.Exit(1)


@command(bench, "sitta bench status results")
def status(
    results: Annotated[Path, typer.Argument(help="Folder of a run.")], as_json: AsJson = False
) -> None:
    """Show which jobs are done, running and failed."""
    from sitta.bench.run.results import Results

    run = Results(results)
    _tell(run.status(), run.failures(), as_json)


def _tell(status: pd.DataFrame, failures: dict[str, str], as_json: bool) -> None:
    if as_json:
        rows = json.loads(status.to_json(orient="records"))
        print_json({"work": rows, "failures": failures}, indent=None)
        return
    _print(status, "Models and cells")
    say(f"{status['done'].sum()} of {status['of'].sum()} done")
    for work, why in failures.items():
        say(f"- {work}: {why.strip().splitlines()[-1]}")


def _print(frame: pd.DataFrame, title: str) -> None:
    right = [name for name in frame.columns if frame[name].dtype.kind in "iufb"]
    rows = [
        [f"{cell:,}" if isinstance(cell, int) else cell for cell in row]
        for row in frame.itertuples(index=False)
    ]
    print_table(list(frame.columns), rows, right=right, wrap=frame.columns, title=title)
