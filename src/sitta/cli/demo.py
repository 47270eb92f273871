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
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("sitta-demo"),
    images: Annotated[int, typer.Option(min=1, max=1000, help="Images of each site.")] = 8,
    as_json: Annotated[bool, typer.Option("--json", help="Figures as JSON.")] = False,
) -> None:
    """Adapt a small trained model to phantom images of three unseen scanners."""
    from rich.console import Console

    from sitta.demo import draw, run

    rows, scenes = run(images=images)
    picture = out / "demo.png"
    draw(scenes, picture)
    if as_json:
        typer.echo(json.dumps({"rows": [asdict(r) for r in rows], "picture": str(picture)}))
        return
    console = Console()
    console.print(_table(rows))
    for scene in scenes[:1]:
        console.print(f"The first image of {scene.site}, in words:", style="bold")
        console.print(scene.prediction.summary(), highlight=False)
    console.print(f"\nPicture: {picture}", highlight=False)


def _table(rows: list[Row]) -> Table:
    from rich.table import Table

    table = Table(
        title="Mean Dice of a model trained at site alder",
        caption="lambda: weight of the training statistics; 1 is the model as it was trained. "
        "oracle: the best lambda of each image, known only from the truth.",
    )
    table.add_column("site")
    table.add_column("images", justify="right")
    for lam in rows[0].fixed:
        table.add_column(f"λ {lam:.1f}" + (" source" if lam == 1 else ""), justify="right")
    table.add_column("InTEnt", justify="right", style="bold")
    table.add_column("oracle λ", justify="right")
    for row in rows:
        figures = [*row.fixed.values(), row.intent, row.oracle]
        table.add_row(row.site, str(row.images), *[f"{100 * d:.1f}" for d in figures])
    return table
