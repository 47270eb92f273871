"""``sitta demo``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sitta.cli import app, command
from sitta.cli.options import AsJson
from sitta.cli.predict import conclusion
from sitta.cli.show import console, print_json, print_table, progress, track

if TYPE_CHECKING:
    from sitta.inference.demo import Row

CAPTION = """\
1.0 to 0.0: lambda, the weight of the training statistics (1.0: no adaptation)
oracle: the best lambda of each image, known only from the truth
worse: images that lost more than one point by Adapt"""


@command(app, "sitta demo --images 2")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for images, masks, report, picture.")] = Path(
        "sitta-demo"
    ),
    images: Annotated[int, typer.Option(min=1, max=1000, help="Images of each site.")] = 8,
    as_json: AsJson = False,
) -> None:
    """Adapt a small trained model to phantom images of three unseen scanners."""
    with progress("predicting", silent=as_json) as watch:
        from sitta.inference.demo import SITES, draw, predict_files, run

        files = predict_files(out, images, watch)
        rows, scenes = run(track("adapting", silent=as_json)(SITES, len(SITES)), images)
    picture = out / "demo.png"
    draw(scenes, picture)
    if as_json:
        told: dict[str, object] = {"rows": [asdict(r) for r in rows], "picture": str(picture)}
        told |= {"report": str(out / "predictions" / "report.html"), "counts": files.counts}
        print_json(told, indent=None)
        return
    _print(rows)
    where = console()
    site, _, prediction = scenes[0]
    where.print(f"\nThe first image of site {site}, in words:")
    where.print(prediction.summary())
    where.print(f"\nThe same images as files, in {out / 'phantom'}:")
    conclusion(files, out / "predictions")
    where.print(f"Picture: {picture}")


def _print(rows: list[Row]) -> None:
    columns = [
        "site",
        *(f"{lam:.1f}" for lam in rows[0].fixed),
        "InTEnt",
        "Adapt",
        "oracle",
        "worse",
    ]
    cells = [
        [
            row.site,
            *(
                f"{100 * dice:.1f}"
                for dice in (*row.fixed.values(), row.intent, row.adapt, row.oracle)
            ),
            f"{row.worse} of {row.images}",
        ]
        for row in rows
    ]
    images = f"{rows[0].images} image{'s'[: rows[0].images > 1]}"
    title = f"Dice of a model from site alder, mean over {images} of a new site"
    look: dict[str, Any] = {"title": title, "caption": CAPTION}
    look |= {"collapse_padding": True, "pad_edge": False}  # for 80 columns
    print_table(columns, cells, right=columns[1:], **look)
