"""``sitta predict``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sitta.cli import app, command
from sitta.cli import options as o
from sitta.cli.show import console, print_json, print_table, progress, say
from sitta.errors import InvalidSetting

if TYPE_CHECKING:
    from sitta.inference import Run


@command(app, "sitta predict chest-mcu scans/ --out predictions")
def predict(
    model: o.Model,
    inputs: Annotated[list[str], typer.Argument(help="Files, folders or quoted patterns.")],
    *,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for masks, tables and the report.")
    ],
    method: Annotated[
        o.Text, o.option(o.METHOD, "adapt (default), intent, source, ...; see sitta methods.")
    ] = None,
    strategy: o.Strategy = None,
    step: o.Step = None,
    settings: o.Settings = None,
    window: Annotated[o.Text, o.option(o.METHOD, "Sides of a sliding window.")] = None,
    statistics: Annotated[
        o.Text, o.option(o.METHOD, "With --window: statistics of the volume (default) or window.")
    ] = None,
    weights: o.Weights = None,
    reading: o.Reading,
    preprocessing: o.Preprocessing,
    pixel_size: Annotated[
        o.Text, o.option(o.PRE, "Pixel size in mm of files that do not state it: 0.5x0.5.")
    ] = None,
    invert: Annotated[
        bool, o.option(o.PRE, "Invert the grey values before the model sees them.", "--invert")
    ] = False,
    rotate: Annotated[
        int, o.option(o.PRE, "Rotate images clockwise for the model: 90, 180 or 270.")
    ] = 0,
    min_dice: Annotated[
        o.Real, o.option(o.OUTPUT, "Flag masks that may be below this Dice; 0.8, or as calibrated.")
    ] = None,
    save: Annotated[
        str, o.option(o.OUTPUT, "Also write maps: probability,uncertainty,members.")
    ] = "",
    keep_header: Annotated[
        bool,
        o.option(
            o.OUTPUT,
            "Keep the free text of NIfTI headers, which may name a patient.",
            "--keep-header",
        ),
    ] = False,
    folds: Annotated[
        o.Text, o.option(o.PRE, "For nnU-Net: folds such as 0,1; by default all.")
    ] = None,
    trust_checkpoint: Annotated[
        bool,
        o.option(o.PRE, "For nnU-Net: allow unpickling its checkpoints.", "--trust-checkpoint"),
    ] = False,
    calibration: Annotated[
        Path | None, o.option(o.PRE, "Of one fold of nnU-Net, by sitta calibrate.")
    ] = None,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
    device: o.Device = "auto",
    threads: o.Threads = None,
    batch: Annotated[
        o.Whole,
        o.option(
            o.MACHINE, "Files of equal size per pass; by default 1 on a CPU, 8 on a GPU.", min=1
        ),
    ] = None,
    file_timeout: Annotated[
        o.Real, o.option(o.MACHINE, "Seconds to read one file; default 120, 0 is no limit.", min=0)
    ] = None,
    ray: o.Ray = None,
    workers: Annotated[
        o.Whole, o.option(o.MACHINE, "With --ray: processes; by default one per core.", min=1)
    ] = None,
) -> None:
    """Adapt a model to each image separately; write masks, trust scores and a report."""
    with progress("predicting", silent=as_json) as watch:
        from sitta.adaptation import DEFAULT
        from sitta.inference import Request
        from sitta.inference import predict as run
        from sitta.inference.loading import is_graph

        words, own = settings or [], {"strategy": strategy, "step": step}
        if method is None and o.given(**own) and not is_graph(model):
            method = "intent"  # whose options these are
        chosen = (
            o.graph_settings(words) | o.given(**own)
            if is_graph(model)
            else o.method_settings(method or DEFAULT, words, **own)
        )
        more = o.given(file_timeout=file_timeout, statistics=statistics)
        request = Request(
            model,
            method,
            chosen,
            None if weights is None else str(weights),
            preprocessing.changes,
            save=o.comma_separated(save),
            device=device,
            window=o.numbers(window, int),
            batch=batch,
            pixel_size=o.numbers(pixel_size, float),
            keep_header=keep_header,
            invert=invert,
            rotate=rotate,
            min_dice=min_dice,
            **reading.changes,
            **more,
        )
        how: dict[str, Any] = {"overwrite": overwrite, "cluster": ray, "workers": workers}
        how |= {"threads": threads, "watch": watch}
        nnunet = (o.comma_separated(folds or ""), trust_checkpoint, calibration)
        done = _of_nnunet(request, inputs, out, *nnunet, **how) or run(request, inputs, out, **how)
    if as_json:
        told = {"counts": done.counts, "seconds": done.seconds, "failures": done.failures}
        told |= {"warnings": done.warnings}
        print_json({**told, "out": str(out)}, indent=None)
    else:
        conclusion(done, out)
    if done.failures:
        raise typer.Exit(1)


def _of_nnunet(
    request: Any,
    inputs: list[str],
    out: Path,
    folds: tuple[str, ...],
    trusted: bool,
    calibration: Path | None,
    **how: Any,
) -> Run | None:
    """The run of a model of nnU-Net; None if the model is none."""
    if not request.model.startswith("nnunet:"):
        if folds or trusted or calibration:
            raise InvalidSetting(
                "--folds, --trust-checkpoint and --calibration are for models of nnU-Net.",
                allowed="nnunet:FOLDER",
                got=request.model,
                fix="give any other model as a profile, which names its calibration",
            )
        return None
    from sitta.integrations.nnunet_run import predict_folder

    how |= {"folds": folds, "trust_checkpoint": trusted, "calibration": calibration}
    return predict_folder(request, inputs, out, **how)


def conclusion(run: Run, out: Path) -> None:
    """Counts, failures, and what to look at first."""
    from sitta.prediction.notes import note

    for warning in run.warnings:
        say(f"warning: {warning}", err=True)
    columns = ["predicted", "done before", "failed", "seconds"]
    print_table(columns, [[*run.counts.values(), f"{run.seconds:.1f}"]], right=columns)
    where = console()
    for failure in run.failures:
        where.print(f"- {failure['error']}", soft_wrap=True)
    rows = []
    for record in (r for r in run.doubtful(5) if r["doubt"] >= 1):
        row = record["rows"][record["shown"]]
        place = "" if row["slice"] is None else f", slice {row['slice']}"
        notes = [note(code) for code in row["notes"]]
        why = " ".join(n.sentence for n in notes if n.severity != "information")
        sure = row["expected_dice"]
        rows.append((record["name"] + place, "-" if sure is None else f"{sure:.2f}", why))
    if rows:
        columns = ["image", "expected Dice", "why"]
        print_table(columns, rows, wrap=columns, title="Look at these first")
    where.print(f"{out / 'report.html'}  {out / 'summary.csv'}", soft_wrap=True)
