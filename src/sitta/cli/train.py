"""``sitta train``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sitta.cli import app
from sitta.cli.options import given, sides

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from sitta.data.preprocess import Preprocess
    from sitta.training import Watch
    from sitta.training.journal import Epoch

DATA, NET, RECIPE, RUN = "Data", "Network", "Recipe (paper, unless said otherwise)", "Run"
Whole = int | None
Real = float | None


def _option(panel: str, text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=True, **more)


@app.command()
def train(
    data: Annotated[Path, _option(DATA, "Root: ROOT/<task>/<domain>/{images,masks}.")],
    task: Annotated[str, _option(DATA, "Such as chest.")],
    source: Annotated[str, _option(DATA, "The domain to train on, such as mcu.")],
    out: Annotated[Path | None, _option(RUN, "Folder; runs/<task>-<source> if not given.")] = None,
    masks: Annotated[str, _option(DATA, "Folder of the masks, beside images.")] = "masks",
    classes: Annotated[str, _option(DATA, "Foreground classes, with commas.")] = "foreground",
    size: Annotated[str | None, _option(DATA, "Sides of the input, such as 128x128.")] = None,
    fit: Annotated[str | None, _option(DATA, "resize, crop or none.")] = None,
    spacing: Annotated[str | None, _option(DATA, "mm a pixel, such as 0.5x0.5.")] = None,
    channels: Annotated[Whole, _option(DATA, "1 grey, 3 colours.")] = None,
    plane: Annotated[str | None, _option(DATA, "axial, coronal or sagittal slices.")] = None,
    scale: Annotated[str | None, _option(DATA, "min-max, z-score or none.")] = None,
    dims: Annotated[Whole, _option(DATA, "2 images or slices, 3 volumes.")] = None,
    preset: Annotated[str, _option(NET, "compact, paper or reference.")] = "compact",
    recipe: Annotated[str, _option(RECIPE, "paper, or fast for machines without a GPU.")] = "paper",
    rate: Annotated[Real, _option(RECIPE, "Learning rate; of one-cycle, its peak.")] = None,
    schedule: Annotated[str | None, _option(RECIPE, "constant or one-cycle.")] = None,
    batch: Annotated[Whole, _option(RECIPE, "Images a step.")] = None,
    epochs: Annotated[Whole, _option(RECIPE, "At most.")] = None,
    steps: Annotated[Whole, _option(RECIPE, "Length in steps instead of epochs.")] = None,
    patience: Annotated[
        Whole, _option(RECIPE, "Epochs without a better Dice, then stop; 0: never.")
    ] = None,
    momentum: Annotated[Real, _option(RECIPE, "Of BatchNorm.")] = None,
    bce: Annotated[Real, _option(RECIPE, "Weight of the cross-entropy.")] = None,
    dice: Annotated[Real, _option(RECIPE, "Weight of the Dice loss.")] = None,
    validation: Annotated[Real, _option(RECIPE, "Share of images held out.")] = None,
    augment: Annotated[str | None, _option(RECIPE, "none, light or strong.")] = None,
    seed: Annotated[int, _option(RECIPE, "Of split, weights and order.")] = 0,
    resume: Annotated[bool, _option(RUN, "Go on with the run in --out.", "--resume")] = False,
    overwrite: Annotated[bool, _option(RUN, "Begin anew in --out.", "--overwrite")] = False,
    compiled: Annotated[bool, _option(RUN, "Use torch.compile.", "--compile")] = False,
    device: Annotated[str, _option(RUN, "auto, cpu, cuda.")] = "auto",
    save_every: Annotated[float, _option(RUN, "Seconds between saved states.", min=0)] = 20,
    note: Annotated[str, _option(RUN, "Kept in the checkpoint, e.g. the licence.")] = "",
    as_json: Annotated[bool, _option(RUN, "The result as JSON.", "--json")] = False,
) -> None:
    """Train a source model on one domain, by the recipe of the paper or a fast one."""
    from sitta.data.domains import find_domain
    from sitta.training import Job, Recipe
    from sitta.training import train as run

    changes = given(rate=rate, schedule=schedule, batch=batch, epochs=epochs, steps=steps)
    changes |= given(momentum=momentum, bce=bce, dice=dice, validation=validation)
    changes |= given(patience=patience, augment=augment, seed=seed)
    if patience == 0:
        changes["patience"] = None
    if epochs is not None and steps is None:
        changes["steps"] = None
    wanted = given(size=sides(size, int), fit=fit, spacing=sides(spacing, float))
    wanted |= given(channels=channels, plane=plane, scale=scale, dims=dims)
    job = Job(
        find_domain(data, task, source, masks),
        Recipe.named(recipe, **changes),
        _preprocess(task, wanted),
        preset,
        tuple(name.strip() for name in classes.split(",")),
        note,
    )
    folder = out or Path("runs") / job.name
    how: dict[str, Any] = {"resume": resume, "overwrite": overwrite, "compiled": compiled}
    how |= {"device": device, "save_every": save_every}
    result = run(job, folder, **how, watch=_watch(silent=as_json))
    if as_json:
        typer.echo(json.dumps({**asdict(result), "checkpoint": str(result.checkpoint)}))
        return
    typer.echo(
        f"validation Dice {result.dice:.4f} at epoch {result.epoch} of {result.epochs}, "
        f"{result.minutes:.1f} minutes\n{result.checkpoint}\nlog.csv, curve.png beside it"
    )


def _preprocess(task: str, changes: dict[str, Any]) -> Preprocess:
    """That of the task, with some values changed."""
    from sitta.data.preprocess import TASKS, Preprocess

    kept = TASKS.get(task, Preprocess()).as_dict()
    if changes.get("dims") == 3 and "size" not in changes:
        kept["size"] = (64, 128, 128)
    if changes.get("dims") == 3 and "spacing" not in changes:
        kept["spacing"] = None
    if changes.get("fit") == "none":
        kept["size"] = None
    return Preprocess(**{**kept, **changes})


def _watch(silent: bool) -> Watch:
    """A bar on a terminal, a line an epoch elsewhere, nothing if silent."""
    from rich.console import Console

    from sitta.training import Watch

    console = Console(stderr=silent, highlight=False)

    class Lines(Watch):
        def say(self, text: str) -> None:
            console.print(text, soft_wrap=True)

        def epoch(self, row: Epoch, better: bool) -> None:
            console.print(_line(row, better), soft_wrap=True)

    class Bar(Lines):
        progress: Progress
        bar: TaskID

        def files(self, done: Iterable[Any], count: int) -> Iterable[Any]:
            from rich.progress import track

            return track(done, "reading images", count, console=console, transient=True)

        def begin(self, epochs: int, steps: int, done: int) -> None:
            from rich import progress as p

            columns = (p.TextColumn("{task.description}"), p.BarColumn(), p.MofNCompleteColumn())
            self.progress = p.Progress(*columns, p.TimeRemainingColumn(), console=console)
            self.epochs, self.steps = epochs, steps
            self.progress.start()
            total, before = epochs * steps, done * steps
            self.bar = self.progress.add_task("training", total=total, completed=before)

        def step(self, loss: float) -> None:
            self.progress.update(self.bar, advance=1, description=f"training, loss {loss:.3f}")

        def end(self) -> None:
            self.progress.stop()

    if silent:
        return Watch()
    return Bar() if console.is_terminal else Lines()


def _line(row: Epoch, better: bool) -> str:
    star = "  best" if better else ""
    losses = f"cross-entropy {row.bce:.4f}, Dice {row.dice_loss:.4f}"
    figures = f"loss {row.loss:.4f} ({losses})  validation Dice {row.validation_dice:.4f}"
    return f"epoch {row.epoch:3d}  {figures}  {row.seconds:.1f} s{star}"
