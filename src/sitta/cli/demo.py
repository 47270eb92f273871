"""``sitta demo``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sitta.cli import app

if TYPE_CHECKING:
    from rich.table import Table

    from sitta.demo import Row


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for images, masks, report, picture.")] = Path(
        "sitta-demo"
    ),
    images: Annotated[int, typer.Option(min=1, max=1000, help="Images of each site.")] = 8,
    as_json: Annotated[bool, typer.Option("--json", help="Figures as JSON.")] = False,
) -> None:
    """Adapt a small trained model to phantom images of three unseen scanners."""
    from rich.console import Console
    from rich.progress import track

    from sitta.cli.predict import bar, conclusion
    from sitta.demo import SITES, draw, predict_files, run

    console = Console()
    silent = as_json or not console.is_terminal
    with bar(console, silent=as_json) as watch:
        files = predict_files(out, images, watch)
    rows, scenes = run(track(SITES, "adapting", disable=silent, transient=True), images)
    picture = out / "demo.png"
    draw(scenes, picture)
    if as_json:
        told: dict[str, object] = {"rows": [asdict(r) for r in rows], "picture": str(picture)}
        told |= {"report": str(out / "predictions" / "report.html"), "counts": files.counts}
        typer.echo(json.dumps(told))
        return
    console.print(_table(rows))
    console.print(f"\nThe first image of site {scenes[0].site}, in words:")
    console.print(scenes[0].prediction.summary(), highlight=False)
    console.print(f"\nThe same images as files, in {out / 'phantom'}:", highlight=False)
    conclusion(console, files, out / "predictions")
    console.print(f"Picture: {picture}", highlight=False)


def _table(rows: list[Row]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(
        title=f"Dice of a model from site alder, mean over {rows[0].images} images of a new site",
        caption="1.0 to 0.0: lambda, the weight of the training statistics (1.0: no adaptation)\n"
        "oracle: the best lambda of each image, known only from the truth\n"
        "worse: images that lost more than one point by InTEnt",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("site")
    for lam in rows[0].fixed:
        table.add_column(f"{lam:.1f}", justify="right")
    table.add_column("InTEnt", justify="right", style="bold")
    table.add_column("oracle", justify="right")
    table.add_column("worse", justify="right")
    for row in rows:
        figures = [*row.fixed.values(), row.intent, row.oracle]
        worse = f"{row.worse} of {row.images}"
        table.add_row(row.site, *[f"{100 * d:.1f}" for d in figures], worse)
    return table
