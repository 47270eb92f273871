"""``sitta train``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sitta.cli import app, command
from sitta.cli import options as o
from sitta.cli.options import Real, Text, Whole, option
from sitta.cli.show import console, print_json, say, stoppable, track

if TYPE_CHECKING:
    from sitta.training import Callback
    from sitta.training.run_folder import Epoch

DATA, NET, RECIPE, RUN = "Data", "Network", "Recipe (paper, unless said otherwise)", "Run"
STOPPED = "{} of {} epochs done; run the same command with --resume to continue."


@command(app, "sitta train --data ROOT --task chest --source mcu --recipe fast")
def train(
    *,
    data: Annotated[Path, option(DATA, "Root: ROOT/<task>/<domain>/{images,masks}.")],
    task: Annotated[str, option(DATA, "Task, such as chest.")],
    source: Annotated[str, option(DATA, "The domain to train on, such as mcu.")],
    out: Annotated[Path | None, option(RUN, "Folder; by default runs/<task>-<source>.")] = None,
    masks: Annotated[str, option(DATA, "Folder of the masks, beside images.")] = "masks",
    classes: Annotated[
        str, option(DATA, "Names of the foreground classes, separated by commas.")
    ] = "foreground",
    preprocessing: o.Preprocessing,
    preset: Annotated[str, option(NET, "compact, compact3d, paper or reference.")] = "compact",
    recipe: Annotated[str, option(RECIPE, "paper, or fast for machines without a GPU.")] = "paper",
    rate: Annotated[Real, option(RECIPE, "Learning rate; the peak rate with one-cycle.")] = None,
    schedule: Annotated[Text, option(RECIPE, "constant or one-cycle.")] = None,
    batch: Annotated[Whole, option(RECIPE, "Images per step.")] = None,
    epochs: Annotated[Whole, option(RECIPE, "Highest number of epochs.")] = None,
    steps: Annotated[Whole, option(RECIPE, "Length in steps instead of epochs.")] = None,
    patience: Annotated[
        Whole, option(RECIPE, "Stop after this many epochs without a better Dice; 0: never.")
    ] = None,
    momentum: Annotated[Real, option(RECIPE, "Momentum of BatchNorm.")] = None,
    bce: Annotated[Real, option(RECIPE, "Weight of the cross-entropy.")] = None,
    dice: Annotated[Real, option(RECIPE, "Weight of the Dice loss.")] = None,
    validation: Annotated[Real, option(RECIPE, "Share of images held out.")] = None,
    augment: Annotated[Text, option(RECIPE, "Augmentation: none, light or strong.")] = None,
    seed: Annotated[int, option(RECIPE, "Seed of split, weights and order of images.")] = 0,
    resume: Annotated[bool, option(RUN, "Resume the run in --out.", "--resume")] = False,
    overwrite: Annotated[
        bool, option(RUN, "Start again in --out, replacing the run there.", "--overwrite")
    ] = False,
    compiled: Annotated[bool, option(RUN, "Use torch.compile.", "--compile")] = False,
    device: o.Device = "auto",
    threads: o.Threads = None,
    save_every: Annotated[float, option(RUN, "Seconds between saved states.", min=0)] = 20,
    note: Annotated[
        str, option(RUN, "Text to store in the checkpoint, such as the licence of the data.")
    ] = "",
    as_json: o.AsJson = False,
) -> None:
    """Train a source model on one domain, by the recipe of the paper or a fast one."""
    changes = o.given(rate=rate, schedule=schedule, batch=batch, epochs=epochs, steps=steps)
    changes |= o.given(momentum=momentum, bce=bce, dice=dice, validation=validation)
    changes |= o.given(patience=patience, augment=augment, seed=seed)
    if preprocessing.dims is None and preset == "compact3d":
        preprocessing = replace(preprocessing, dims=3)
    if patience == 0:
        changes["patience"] = None
    if epochs is not None and steps is None:
        changes["steps"] = None
    epoch = [0, 0]  # the last one that is done, and of how many
    with stoppable(lambda: STOPPED.format(*epoch)):
        from sitta._util.threads import use_threads
        from sitta.data.domains import find_domain
        from sitta.data.preprocess import TASKS, Preprocess
        from sitta.training import Job, Recipe
        from sitta.training import train as run

        use_threads(threads)
        usual = TASKS.get(task, Preprocess()).as_dict()
        if preprocessing.dims == 3:  # a task's size and spacing are those of slices
            usual |= {"size": (64, 128, 128), "spacing": None}
        job = Job(
            find_domain(data, task, source, masks),
            Recipe.named(recipe, **changes),
            Preprocess(**{**usual, **preprocessing.changes}),
            preset,
            o.comma_separated(classes),
            note,
        )
        how: dict[str, Any] = {"resume": resume, "overwrite": overwrite, "compiled": compiled}
        how |= {"device": device, "save_every": save_every}
        result = run(job, out or Path("runs") / job.name, **how, watch=_watch(epoch, as_json))
    if as_json:
        print_json({**asdict(result), "checkpoint": str(result.checkpoint)}, indent=None)
        return
    say(
        f"validation Dice {result.dice:.4f} at epoch {result.epoch} of {result.epochs}, "
        f"{result.minutes:.1f} minutes\n{result.checkpoint}\nlog.csv, curve.png beside it"
    )


def _watch(count: list[int], silent: bool) -> Callback:
    """Counts epochs; shows a line for each, and a bar on a terminal, unless it is silent."""
    from rich import progress as p

    from sitta.training import Callback

    where = console()
    columns = (p.TextColumn("{task.description}"), p.BarColumn(), p.MofNCompleteColumn())
    off = silent or not where.is_terminal
    bar = p.Progress(*columns, p.TimeRemainingColumn(), console=where, disable=off)
    task = bar.add_task("training", total=None)

    class Progress(Callback):
        def say(self, text: str) -> None:
            if not silent:
                where.print(text, soft_wrap=True)

        def files(self, done: Iterable[Any], count: int) -> Iterable[Any]:
            return track("reading images", silent)(done, count)

        def begin(self, epochs: int, steps: int, done: int) -> None:
            count[:] = done, epochs
            bar.update(task, total=epochs * steps, completed=done * steps)
            bar.start()

        def step(self, loss: float) -> None:
            bar.update(task, advance=1, description=f"training, loss {loss:.3f}")

        def epoch(self, row: Epoch, better: bool) -> None:
            count[0] = row.epoch
            losses = f"cross-entropy {row.bce:.4f}, Dice {row.dice_loss:.4f}"
            scores = f"loss {row.loss:.4f} ({losses})  validation Dice {row.validation_dice:.4f}"
            best = "  best" if better else ""
            self.say(f"epoch {row.epoch:3d}  {scores}  {row.seconds:.1f} s{best}")

        def calibrating(self, done: int, total: int) -> None:
            bar.update(task, description="calibrating", completed=done, total=total)
            if done == 0:
                self.say(f"calibrating on {total} images")
                bar.start()
            if done == total:
                bar.stop()

        def end(self) -> None:
            bar.stop()

    return Progress()
