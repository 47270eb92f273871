"""``sitta data``: check, show, prepare, phantom."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sitta.cli import app, command, group
from sitta.cli.options import AsJson, Overwrite, comma_separated, numbers
from sitta.cli.show import print_json, print_table, say, track

if TYPE_CHECKING:
    from sitta.data.check import Survey

data = group("Images and masks on disk: check, show, prepare, make.", "sitta data check ROOT")
app.add_typer(data, name="data")

Root = Annotated[Path, typer.Argument(help="ROOT/<task>/<domain>/{images,masks}.")]
Masks = Annotated[str, typer.Option(help="Folder of the masks, beside images.")]
Task = Annotated[str | None, typer.Option(help="Only this task.")]


@command(data, "sitta data check ROOT --task chest")
def check(
    root: Root,
    task: Task = None,
    masks: Masks = "masks",
    classes: Annotated[
        int, typer.Option(min=2, help="Number of values of a mask, 0 included.")
    ] = 2,
    as_json: AsJson = False,
) -> None:
    """Read everything and report pairs, sizes, types, mask fraction, subjects and problems."""
    from sitta.data.check import survey
    from sitta.data.domains import find_domains

    surveys = [
        survey(domain, classes, track(str(domain), silent=as_json))
        for domain in find_domains(root, masks, task)
    ]
    problems = [text for one in surveys for text in one.problems]
    if as_json:
        print_json({"domains": [asdict(one) for one in surveys]})
    else:
        _print(surveys)
        for text in problems:
            say(f"- {text}")
        say(f"{len(problems)} problems" if problems else "No problems.")
    if problems:
        raise typer.Exit(1)


@command(data, "sitta data show ROOT --out overview.png")
def show(
    root: Root,
    out: Annotated[Path, typer.Option("--out", "-o", help="Picture.")] = Path("overview.png"),
    task: Task = None,
    masks: Masks = "masks",
    overwrite: Overwrite = False,
) -> None:
    """Draw one example per domain, with its outline and count."""
    from sitta._util.files import require_free
    from sitta.data.domains import find_domains
    from sitta.data.overview import draw

    domains = find_domains(root, masks, task)
    require_free(out, overwrite, [p for d in domains for side in d.files() for p in side.values()])
    draw(domains, out, track("drawing")(domains, len(domains)))
    say(f"Picture: {out}")


@command(data, "sitta data prepare mcu MontgomerySet/ ROOT")
def prepare(
    domain: Annotated[str, typer.Argument(help="Such as mcu or chest/mcu; see the list below.")],
    source: Annotated[Path, typer.Argument(metavar="FROM", help="The unpacked distribution.")],
    target: Annotated[Path, typer.Argument(metavar="TO", help="The root to write to.")],
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Turn the official distribution of a data set into ROOT/<task>/<domain>/{images,masks}.

    Known: site1, site2, site3, site4 (spinal), mcu, chn, jsrt (chest), chase, hrf, rite (retina).
    """
    from sitta.data import prepare as preparing

    shown = track(domain, silent=as_json)
    report = preparing.prepare(domain, source, target, progress=shown, overwrite=overwrite)
    if as_json:
        print_json(asdict(report))
        return
    say(f"{len(report.written)} pairs in {target / report.task / report.domain}")
    for text in [*report.notes, *(f"left out {name}: {why}" for name, why in report.left_out)]:
        say(f"- {text}")


@command(data, "sitta data phantom ROOT --sites alder,cedar --images 4")
def phantom(
    out: Annotated[Path, typer.Argument(help="The root to write to.")],
    sites: Annotated[str, typer.Option(help="Sites, separated by commas; by default all.")] = "",
    images: Annotated[int, typer.Option(min=1, help="Images of each site.")] = 24,
    size: Annotated[str, typer.Option(help="Two or three sides, such as 128x128.")] = "128x128",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the scenes.")] = 0,
) -> None:
    """Write phantom sites: the same drawn anatomy, seen by different scanners."""
    from sitta.data import phantom as drawing

    names = comma_separated(sites) or tuple(drawing.SITES)
    shape = numbers(size, int) or ()
    for site in track("drawing")(names, len(names)):
        drawing.write(out, site, images, shape, seed)
    each = f"{images} image{'s'[: images > 1]}{' each'[: 5 * (len(names) > 1)]}"
    say(f"{each} from {', '.join(names)} in {out / 'phantom'}")


def _print(surveys: list[Survey]) -> None:
    from sitta.data.check import summary

    rows = [
        (
            one.domain,
            one.pairs,
            one.subjects,
            f"{100 * one.fraction:.2g} %",
            len(one.problems),
            summary(one.sizes),
            summary(one.types),
        )
        for one in surveys
    ]
    columns = ["domain", "pairs", "subjects", "mask", "problems", "sizes", "types"]
    print_table(columns, rows, right=columns[1:5], wrap=("types",))
