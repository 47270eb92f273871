"""``sitta data``: check, show, prepare, phantom."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sitta.cli import app

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from sitta.data.check import Survey

data = typer.Typer(
    help="Images and masks on disk: check, show, prepare, make.", no_args_is_help=True
)
app.add_typer(data, name="data")

Root = Annotated[Path, typer.Argument(help="ROOT/<task>/<domain>/{images,masks}.")]
Masks = Annotated[str, typer.Option(help="Folder of the masks, beside images.")]
Task = Annotated[str | None, typer.Option(help="This task alone.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]


@data.command()
def check(
    root: Root,
    task: Task = None,
    masks: Masks = "masks",
    classes: Annotated[int, typer.Option(min=2, help="Values of a mask, 0 included.")] = 2,
    as_json: Json = False,
) -> None:
    """Read everything and report pairs, sizes, types, mask fraction, subjects and problems."""
    from rich.console import Console

    from sitta.data.check import survey
    from sitta.data.domains import find_domains

    console = Console()
    found = [
        survey(domain, classes, _track(console, str(domain), silent=as_json))
        for domain in find_domains(root, masks, task)
    ]
    problems = [text for one in found for text in one.problems]
    if as_json:
        typer.echo(json.dumps({"domains": [asdict(one) for one in found]}, indent=2))
    else:
        console.print(_table(found))
        for text in problems:
            console.print(f"- {text}", highlight=False, markup=False, soft_wrap=True)
        typer.echo(f"{len(problems)} problems" if problems else "No problems.")
    if problems:
        raise typer.Exit(1)


@data.command()
def show(
    root: Root,
    out: Annotated[Path, typer.Option("--out", "-o", help="Picture.")] = Path("overview.png"),
    task: Task = None,
    masks: Masks = "masks",
) -> None:
    """Draw one example a domain, with its outline and count."""
    from rich.console import Console

    from sitta.data.domains import find_domains
    from sitta.data.overview import draw

    domains = find_domains(root, masks, task)
    draw(domains, out, _track(Console(), "drawing")(domains, len(domains)))
    typer.echo(f"Picture: {out}")


@data.command()
def prepare(
    domain: Annotated[str, typer.Argument(help="Such as mcu or chest/mcu; see the list below.")],
    source: Annotated[Path, typer.Argument(metavar="FROM", help="The unpacked distribution.")],
    target: Annotated[Path, typer.Argument(metavar="TO", help="The root to write to.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    as_json: Json = False,
) -> None:
    """Turn the official distribution of a data set into ROOT/<task>/<domain>/{images,masks}.

    Known: site1, site2, site3, site4 (spinal), mcu, chn, jsrt (chest), chase, hrf, rite (retina).
    """
    from rich.console import Console

    from sitta.data import prepare as preparing

    console = Console()
    track = _track(console, domain, silent=as_json)
    report = preparing.prepare(domain, source, target, progress=track, overwrite=overwrite)
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=2))
    else:
        place = target / report.task / report.domain
        typer.echo(f"{len(report.written)} pairs in {place}")
        told = [*report.notes, *(f"left out {name}: {why}" for name, why in report.left_out)]
        for text in told:
            console.print(f"- {text}", highlight=False, markup=False, soft_wrap=True)


@data.command()
def phantom(
    out: Annotated[Path, typer.Argument(help="The root to write to.")],
    sites: Annotated[str, typer.Option(help="With commas; all by default.")] = "",
    images: Annotated[int, typer.Option(min=1, help="Images of each site.")] = 24,
    size: Annotated[str, typer.Option(help="Two or three sides, such as 128x128.")] = "128x128",
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other scenes.")] = 0,
) -> None:
    """Write phantom sites: the same drawn anatomy, seen by different scanners."""
    from rich.console import Console

    from sitta.cli.options import sides
    from sitta.data import phantom as drawing

    names = [s.strip() for s in sites.split(",")] if sites else list(drawing.SITES)
    shape = sides(size, int) or ()
    for site in _track(Console(), "drawing")(names, len(names)):
        drawing.write(out, site, images, shape, seed)
    typer.echo(f"{images} images of each of {len(names)} sites in {out / 'phantom'}")


def _track(
    console: Console, text: str, silent: bool = False
) -> Callable[[Iterable[Any], int], Iterable[Any]]:
    """Wraps a loop in a progress bar, on a terminal."""
    from rich.progress import track

    off = silent or not console.is_terminal
    return lambda items, total: track(
        items, text, total, console=console, transient=True, disable=off
    )


def _table(found: list[Survey]) -> Table:
    from rich import box
    from rich.table import Table

    from sitta.data.check import summary

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("domain", style="bold", no_wrap=True)
    for name in ("pairs", "subjects", "mask", "problems"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("sizes", no_wrap=True)
    table.add_column("types")
    for one in found:
        wrong = f"[red]{len(one.problems)}[/red]" if one.problems else "0"
        share = f"{100 * one.fraction:.2g} %"
        counts = (str(one.pairs), str(one.subjects), share, wrong)
        table.add_row(one.domain, *counts, summary(one.sizes), summary(one.types))
    return table
