"""``sitta bench``: what results come to, as tables, figures, a page, and files to publish."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sitta.cli.bench import AsJson, bench

if TYPE_CHECKING:
    import pandas as pd

    from sitta.benchmark.tables import Table

Where = Annotated[Path, typer.Argument(help="Folder of a run, or a rows.csv.gz.")]
WIDEST = 10_000  # signs in a line of a file; measured within the usual 80, tables would be broken
SUFFIXES = {"csv": "csv", "markdown": "md", "latex": "tex"}


@bench.command()
def table(
    results: Where,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Kinds, or single tables such as trust-finding. All if none is named."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="terminal, csv, markdown or latex.")
    ] = "terminal",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A file each, in here; CSV if --format names no other."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tables: overall, members, methods, strategies, splits, paired, hurts, trust, and more."""
    from sitta.benchmark.rows import load
    from sitta.benchmark.tables import build
    from sitta.errors import InvalidSetting

    if form not in ("terminal", *SUFFIXES):
        allowed = ", ".join(("terminal", *SUFFIXES))
        raise InvalidSetting("There is no such format.", allowed=allowed, got=repr(form))
    if as_json and out is not None:
        raise InvalidSetting(
            "--json writes no files, and --out asks for some.",
            allowed="one of the two",
            fix="leave out --out and send what --json prints to a file, or leave out --json",
        )
    found = build(load(results), names or None)
    _remark(results)
    for name in names or ():
        if not any(_is_of(each.name, name) for each in found):
            typer.echo(f"{name}: the results have no rows for it.", err=True)
    if as_json:
        told = {t.name: json.loads(t.data.to_json(orient="records")) for t in found}
        typer.echo(json.dumps(told))
    elif out is None:
        _show(found, form)
    else:
        _keep(found, "csv" if form == "terminal" else form, out)


def _is_of(name: str, kind: str) -> bool:
    """Whether a table or figure is of the kind that was asked for, such as ``lambda-chest``."""
    return name == kind or name.startswith(f"{kind}-")


def _remark(results: Path) -> None:
    """What is missing goes beside the results, not among them."""
    from sitta.benchmark.results import unfinished

    if said := unfinished(results):
        typer.echo(said, err=True)


def _show(found: list[Table], form: str) -> None:
    from rich.console import Console

    from sitta.benchmark.render import to_rich

    console = Console()
    for each in found:
        if form == "terminal":
            shown = to_rich(each)
            if not console.is_terminal:  # a file has no edge
                wide = console.options.update(width=WIDEST)
                console.width = max(160, console.measure(shown, options=wide).maximum)
            console.print(shown)
        else:
            typer.echo(_text(each, form))


def _keep(found: list[Table], form: str, out: Path) -> None:
    from sitta.storage import finished

    for each in found:
        path = out / f"{each.name}.{SUFFIXES[form]}"
        with finished(path) as draft:
            draft.write_text(_text(each, form), encoding="utf-8")
    typer.echo(f"{len(found)} tables in {out}")


def _text(each: Table, form: str) -> str:
    from sitta.benchmark import render

    ways: dict[str, Any] = {
        "csv": render.to_csv,
        "markdown": render.to_markdown,
        "latex": render.to_latex,
    }
    return str(ways[form](each))


@bench.command()
def figure(
    results: Where,
    names: Annotated[list[str] | None, typer.Argument(help="All if none is named.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder.")] = Path("figures"),
    form: Annotated[str, typer.Option("--format", help="svg, png or pdf, with commas.")] = "svg",
) -> None:
    """Figures: overall, lambda, change, trust, sweep, members."""
    from sitta.benchmark.figures import save
    from sitta.benchmark.rows import load

    formats = [part.strip() for part in form.split(",")]
    written = save(load(results), out, names or None, formats)
    _remark(results)
    for path in written:
        typer.echo(path)
    for name in names or ():
        if not any(_is_of(path.stem, name) for path in written):
            typer.echo(f"{name}: the results have no rows for it.", err=True)


@bench.command()
def report(
    results: Where,
    out: Annotated[Path, typer.Option("--out", "-o", help="One HTML file.")] = Path("bench.html"),
) -> None:
    """One self-contained page of all tables and figures."""
    from sitta.benchmark.figures import plates
    from sitta.benchmark.findings import findings
    from sitta.benchmark.page import write
    from sitta.benchmark.results import unfinished
    from sitta.benchmark.rows import load
    from sitta.benchmark.tables import build

    rows = load(results)
    tasks = list(dict.fromkeys(rows["task"]))
    shown = build(rows), plates(rows), _about(results, rows)
    said = [*filter(None, [unfinished(results)]), *findings(rows)]
    write(out, *shown, findings=said, tasks=tasks)
    typer.echo(out)


def _about(results: Path, rows: pd.DataFrame) -> dict[str, Any]:
    """For the foot of the page: what the numbers are from."""
    import platform
    from importlib.metadata import version

    counted = rows.drop_duplicates(["task", "target", "image", "slice"])
    sizes = counted.groupby(["task", "target"], sort=False).size()
    plan = results / "plan.toml"
    return {
        "Images": {f"{task}/{name}": str(count) for (task, name), count in sizes.items()},
        "Rows": f"{len(rows):,}",
        "Repeats": str(rows["repeat"].nunique()),
        "Versions": {
            "sitta": version("sitta"),
            "torch": version("torch"),
            "python": platform.python_version(),
        },
        **({"Plan": plan.read_text(encoding="utf-8")} if plan.is_file() else {}),
    }


@bench.command()
def collect(
    results: Annotated[
        list[Path], typer.Argument(help="Folders of runs of one plan, or their rows.csv.gz.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder.")],
    limit: Annotated[float, typer.Option(min=0, help="MB that rows.csv.gz may have.")] = 8.0,
) -> None:
    """Files to publish: rows without names of files, means of splits, tables and figures."""
    from sitta.benchmark.collect import Part, contradictions, merge
    from sitta.benchmark.collect import collect as gather
    from sitta.benchmark.figures import save
    from sitta.benchmark.rows import load
    from sitta.benchmark.tables import build

    parts = [Part.load(path) for path in results]
    whole = merge(parts)
    gather(whole, out, limit)
    written = load(out / "rows.csv.gz")  # with fewer digits: tables are those of what is published
    tables = build(written)
    for form in SUFFIXES:
        _keep(tables, form, out / "tables")
    save(written, out / "figures")
    for path, part in zip(results, parts, strict=True):
        _remark(path)
        if len(parts) > 1 and not part.known:
            said = "images were compared by their number alone: no digest of them is beside it."
            typer.echo(f"{path}: {said}", err=True)
    if count := contradictions(parts):
        said = "rows are in several of these with another Dice: those of the first count."
        typer.echo(f"{count:,} {said}", err=True)
    typer.echo(f"{len(written):,} rows in {out}")


@bench.command()
def publish(
    results: Annotated[Path, typer.Argument(help="Folder of a run.")],
    zoo: Annotated[Path, typer.Option(help="The zoo.")] = Path("zoo"),
) -> None:
    """Put the plain models of the first repeat into the zoo, with cards and checksums."""
    from sitta.benchmark.publish import publish as put
    from sitta.benchmark.rows import load
    from sitta.errors import SittaError
    from sitta.models.checkpoint import card

    kept = {p.stem.removesuffix("-r0"): p for p in sorted((results / "models").glob("[!.]*-r0.*"))}
    # The source is "task/domain"; what follows it in a name is another way of training.
    domains = {
        name: str(card(path).get("source", "")).split("/")[-1] for name, path in kept.items()
    }
    plain = {name: path for name, path in kept.items() if name.endswith(f"-{domains[name]}")}
    if not plain:
        raise SittaError(f"{results} holds no trained model.", allowed="the --out of a run")
    put(plain, zoo, load(results))
    typer.echo(f"{len(plain)} models in {zoo}")
