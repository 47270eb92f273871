"""``sitta bench``: what results come to, as tables, figures, a page, and files to publish."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sitta.cli import command
from sitta.cli.bench import bench
from sitta.cli.options import AsJson, Overwrite
from sitta.cli.show import console, print_json, say

if TYPE_CHECKING:
    import pandas as pd

    from sitta.bench.tables import Table

Where = Annotated[Path, typer.Argument(help="Folder of a run, or a rows.csv.gz.")]
WIDEST = 10_000  # signs in a line of a file; measured within the usual 80, tables would be broken
SUFFIXES = {"csv": "csv", "markdown": "md", "latex": "tex"}


@command(bench, "sitta bench table results overall --format markdown")
def table(
    results: Where,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Kinds of tables, or single ones such as trust-finding; by default all."
        ),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="terminal, csv, markdown or latex.")
    ] = "terminal",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder for one file per table; CSV unless --format says otherwise."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print tables: overall, members, classes, methods, splits, paired, hurts, trust, and more."""
    from sitta._util.names import unknown_name
    from sitta.bench.stats.rows import load
    from sitta.bench.tables import build
    from sitta.errors import InvalidSetting

    if form not in ("terminal", *SUFFIXES):
        raise unknown_name("format", form, ("terminal", *SUFFIXES))
    if as_json and out is not None:
        raise InvalidSetting(
            "--json writes no files, and --out asks for some.",
            allowed="one of the two",
            fix="leave out --out and send what --json prints to a file, or leave out --json",
        )
    tables = build(load(results), names or None)
    _remark(results, names or (), [table.name for table in tables])
    if as_json:
        told = {t.name: json.loads(t.data.to_json(orient="records")) for t in tables}
        print_json(told, indent=None)
    elif out is None:
        _show(tables, form)
    else:
        _keep(tables, "csv" if form == "terminal" else form, out)


def _remark(results: Path, kinds: Sequence[str] = (), made: Sequence[str] = ()) -> None:
    """Say beside the results what is missing; ``lambda-chest`` is of the kind ``lambda``."""
    from sitta.bench.run.results import unfinished

    if said := unfinished(results):
        say(said, err=True)
    for kind in kinds:
        if not any(name == kind or name.startswith(f"{kind}-") for name in made):
            say(f"{kind}: the results have no rows for it.", err=True)


def _show(tables: list[Table], form: str) -> None:
    from sitta.bench.publish.render import to_rich

    where = console()
    for table in tables:
        if form != "terminal":
            say(_text(table, form))
            continue
        shown = to_rich(table)
        if not where.is_terminal:  # a file has no edge
            wide = where.options.update(width=WIDEST)
            where.width = max(160, where.measure(shown, options=wide).maximum)
        where.print(shown)


def _keep(tables: list[Table], form: str, out: Path) -> None:
    from sitta._util.files import atomic_write

    for table in tables:
        with atomic_write(out / f"{table.name}.{SUFFIXES[form]}") as draft:
            draft.write_text(_text(table, form), encoding="utf-8")
    say(f"{len(tables)} tables in {out}")


def _text(table: Table, form: str) -> str:
    from sitta.bench.publish import render

    return str(getattr(render, f"to_{form}")(table))


@command(bench, "sitta bench figure results lambda --out figures")
def figure(
    results: Where,
    names: Annotated[list[str] | None, typer.Argument(help="Figures; by default all.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder.")] = Path("figures"),
    form: Annotated[
        str, typer.Option("--format", help="svg, png or pdf, separated by commas.")
    ] = "svg",
) -> None:
    """Draw figures: overall, lambda, change, trust, sweep, members."""
    from sitta.bench.figures import save
    from sitta.bench.stats.rows import load

    formats = [part.strip() for part in form.split(",")]
    written = save(load(results), out, names or None, formats)
    _remark(results, names or (), [path.stem for path in written])
    for path in written:
        say(path)


@command(bench, "sitta bench report results --out bench.html")
def report(
    results: Where,
    out: Annotated[Path, typer.Option("--out", "-o", help="One HTML file.")] = Path("bench.html"),
) -> None:
    """Write all tables and figures on one self-contained page."""
    from sitta.bench.figures import render
    from sitta.bench.publish.findings import findings
    from sitta.bench.publish.page import write
    from sitta.bench.run.results import unfinished
    from sitta.bench.stats.rows import load
    from sitta.bench.tables import build

    rows = load(results)
    said = [*filter(None, [unfinished(results)]), *findings(rows)]
    shown = build(rows), render(rows), _about(results, rows)
    write(out, *shown, findings=said, tasks=list(rows["task"].unique()))
    say(out)


def _about(results: Path, rows: pd.DataFrame) -> dict[str, Any]:
    """For the foot of the page: what the numbers are from."""
    from importlib.metadata import version
    from platform import python_version

    from sitta._version import __version__

    counted = rows.drop_duplicates(["task", "target", "image", "slice"])
    sizes = counted.groupby(["task", "target"], sort=False).size()
    versions = {"sitta": __version__, "torch": version("torch")}
    plan = results / "plan.toml"
    return {
        "Images": {f"{task}/{name}": str(count) for (task, name), count in sizes.items()},
        "Rows": f"{len(rows):,}",
        "Repeats": str(rows["repeat"].nunique()),
        "Versions": {**versions, "python": python_version()},
        **({"Plan": plan.read_text(encoding="utf-8")} if plan.is_file() else {}),
    }


@command(bench, "sitta bench collect results --out published")
def collect(
    results: Annotated[
        list[Path], typer.Argument(help="Folders of runs of one plan, or their rows.csv.gz.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder.")],
    limit: Annotated[float, typer.Option(min=0, help="Largest rows.csv.gz, in MB.")] = 8.0,
    overwrite: Overwrite = False,
) -> None:
    """Write files to publish: rows without file names, means of splits, tables, figures."""
    from sitta.bench.figures import save
    from sitta.bench.publish.collect import Part, contradictions, merge, require_all_kept
    from sitta.bench.publish.collect import collect as gather
    from sitta.bench.stats.rows import load
    from sitta.bench.tables import build

    parts = [Part.load(path) for path in results]
    whole = merge(parts)
    if not overwrite:
        require_all_kept(whole, out)
    gather(whole, out, limit)
    written = load(out / "rows.csv.gz")  # with fewer digits: tables are those of what is published
    tables = build(written)
    for form in SUFFIXES:
        _keep(tables, form, out / "tables")
    save(written, out / "figures")
    for path, part in zip(results, parts, strict=True):
        _remark(path)
        if len(parts) > 1 and not part.has_digests:
            said = "images were compared by their number alone: no digest of them is beside it."
            say(f"{path}: {said}", err=True)
    if count := contradictions(parts):
        said = "rows are in several of these with another Dice: those of the first count."
        say(f"{count:,} {said}", err=True)
    say(f"{len(written):,} rows in {out}")


@command(bench, "sitta bench publish results --zoo zoo")
def publish(
    results: Annotated[Path, typer.Argument(help="Folder of a run.")],
    zoo: Annotated[Path, typer.Option(help="Folder of the zoo.")] = Path("zoo"),
) -> None:
    """Put the plain models of the first repeat into the zoo, with cards and checksums."""
    from sitta.bench.publish.zoo import publish as put
    from sitta.bench.stats.rows import load
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
    say(f"{len(plain)} models in {zoo}")
