"""``sitta predict``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sitta.cli import app
from sitta.cli.options import PRE, Channels, Dims, Fit, Plane, Scale, Size, Spacing, given, sides

if TYPE_CHECKING:
    from rich.console import Console

    from sitta.runs import Run

METHOD, OUT = "Method", "Output"


@app.command()
def predict(
    model: Annotated[
        str, typer.Argument(help="A model's name, a checkpoint, .onnx, or package.module:factory.")
    ],
    inputs: Annotated[list[str], typer.Argument(help="Files, folders, patterns.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for all that is written.")],
    method: Annotated[
        str, typer.Option(help="See: sitta methods", rich_help_panel=METHOD)
    ] = "intent",
    strategy: Annotated[
        str | None, typer.Option(help="Of intent: how members weigh.", rich_help_panel=METHOD)
    ] = None,
    step: Annotated[
        float | None, typer.Option(help="Of intent: grid step.", rich_help_panel=METHOD)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Any setting of the method.", rich_help_panel=METHOD
        ),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="For a factory: .safetensors or .pt.", rich_help_panel=PRE)
    ] = None,
    size: Size = None,
    fit: Fit = None,
    spacing: Spacing = None,
    channels: Channels = None,
    scale: Scale = None,
    plane: Plane = None,
    dims: Dims = None,
    window: Annotated[
        str | None, typer.Option(help="Slide a window over large inputs.", rich_help_panel=METHOD)
    ] = None,
    statistics: Annotated[
        str, typer.Option(help="With --window: volume or window.", rich_help_panel=METHOD)
    ] = "volume",
    save: Annotated[
        str, typer.Option(help="probability,uncertainty,members", rich_help_panel=OUT)
    ] = "",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Do again what is done.", rich_help_panel=OUT)
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda.", rich_help_panel=OUT)] = "auto",
    ray: Annotated[
        str | None,
        typer.Option(
            help="Spread over a Ray cluster: its address, auto, or local.", rich_help_panel=OUT
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="With --ray: how many; one a core if not given.", rich_help_panel=OUT
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Files of equal size in one pass: 1 on a CPU, 8 on a GPU.",
            rich_help_panel=OUT,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="What it came to, as JSON.", rich_help_panel=OUT)
    ] = False,
) -> None:
    """Adapt a model to every image by itself: masks, trust figures and a report."""
    from rich.console import Console

    from sitta.runs import Plan
    from sitta.runs import predict as run
    from sitta.runs.graph import is_graph

    changes = given(size=sides(size, int), fit=fit, spacing=sides(spacing, float))
    changes |= given(channels=channels, scale=scale, plane=plane, dims=dims)
    words = settings or []
    chosen = _plain_settings(words) if is_graph(model) else method_settings(method, words)
    chosen |= given(strategy=strategy, step=step)
    plan = Plan(
        model,
        method,
        chosen,
        None if weights is None else str(weights),
        _sized(changes),
        tuple(name.strip() for name in save.split(",") if name.strip()),
        device,
        window=sides(window, int),
        statistics=statistics,
        batch=batch,
    )
    console = Console()
    with bar(console, silent=as_json) as watch:
        found = run(
            plan, inputs, out, overwrite=overwrite, watch=watch, cluster=ray, workers=workers
        )
    if as_json:
        told = {"counts": found.counts, "seconds": found.seconds, "failures": found.failures}
        typer.echo(json.dumps({**told, "out": str(out)}))
    else:
        conclusion(console, found, out)
    if found.failures:
        raise typer.Exit(1)


def _sized(changes: dict[str, Any]) -> dict[str, Any]:
    """No size goes with fit none."""
    return {**changes, "size": None} if changes.get("fit") == "none" else changes


def method_settings(method: str, words: list[str]) -> dict[str, Any]:
    """NAME=VALUE as the method's registry types them."""
    from sitta.adaptation import methods
    from sitta.errors import InvalidSetting
    from sitta.settings import rules

    if method not in methods():
        raise InvalidSetting(
            "There is no such method.", allowed=", ".join(methods()), got=repr(method)
        )
    known, found = rules(methods()[method]), {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in known:
            raise InvalidSetting(
                f"{method} has no setting {name!r}." if equals else "A setting is NAME=VALUE.",
                allowed=", ".join(known),
                got=word,
            )
        found[name] = known[name][1].parse(value)
    return found


def _plain_settings(words: list[str]) -> dict[str, Any]:
    """NAME=VALUE for a graph, whose file knows them: without the registry, which needs torch."""
    from sitta.errors import InvalidSetting
    from sitta.settings import Rule

    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise InvalidSetting("A setting is NAME=VALUE.", got=word)
        found[name] = Rule("", low=0, many="," in value, optional=True).parse(value)
    return found


def bar(console: Console, silent: bool) -> Any:
    """A progress bar with rate and time left, on a terminal."""
    from contextlib import contextmanager

    from rich import progress as p

    @contextmanager
    def shown() -> Any:
        columns = (p.TextColumn("predicting"), p.BarColumn(), p.MofNCompleteColumn())
        rate = p.TextColumn("{task.fields[rate]}")
        off = silent or not console.is_terminal
        with p.Progress(
            *columns, rate, p.TimeRemainingColumn(), console=console, transient=True, disable=off
        ) as bar:
            task = bar.add_task("", total=None, rate="")

            def watch(done: int, total: int) -> None:
                speed = bar.tasks[task].speed
                text = f"{speed:.1f} a second" if speed else ""
                bar.update(task, completed=done, total=total, rate=text)

            yield watch

    return shown()


def conclusion(console: Console, run: Run, out: Path) -> None:
    """Counts, failures, and what to look at first."""
    from rich import box
    from rich.table import Table

    from sitta.notes import NOTES

    counts = Table(box=box.SIMPLE_HEAD)
    told = {"predicted": "done", "done before": "skipped", "failed": "failed"}
    for title in told:
        counts.add_column(title, justify="right")
    counts.add_column("seconds", justify="right")
    counts.add_row(*(str(run.counts[name]) for name in told.values()), f"{run.seconds:.1f}")
    console.print(counts)
    for failure in run.failures:
        console.print(f"- {failure['error']}", highlight=False, markup=False, soft_wrap=True)
    first = [r for r in run.doubtful(5) if r["doubt"] >= 1]
    if first:
        table = Table(title="Look at these first", box=box.SIMPLE_HEAD, title_justify="left")
        for column in ("image", "agreement", "why"):
            table.add_column(column, overflow="fold")
        for record in first:
            row = record["rows"][record["shown"]]
            where = "" if row["slice"] is None else f", slice {row['slice']}"
            why = " ".join(NOTES[code] for code in row["notes"])
            table.add_row(record["name"] + where, f"{row['agreement']:.2f}", why)
        console.print(table)
    console.print(f"{out / 'report.html'}  {out / 'summary.csv'}", highlight=False, soft_wrap=True)
