"""Tables, JSON and progress on the terminal. ``[brackets]`` in a text are no markup."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import typer

from sitta._util.text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from sitta._util.process import OnProgress


def console(stderr: bool = False) -> Console:
    """Where commands print."""
    from rich.console import Console
    from rich.text import Text

    class Plain(Console):
        """Shows control characters of a text in place of obeying them."""

        def render_str(self, text: str, **how: Any) -> Text:
            return super().render_str(printable(text, keep="\n\t"), **how)

    return Plain(stderr=stderr, markup=False, highlight=False, emoji=False)


def say(text: object, *, err: bool = False) -> None:
    """Print a line; what names of files hold beside letters is shown, not obeyed."""
    typer.echo(printable(str(text), keep="\n\t"), err=err)


def print_json(value: object, indent: int | None = 2) -> None:
    """For programs."""
    typer.echo(json.dumps(value, indent=indent))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Collection[str] = (),
    wrap: Collection[str] = (),
    **more: Any,
) -> None:
    """The first column is bold; some columns are justified to the right, or wrapped."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left", **more)
    for number, name in enumerate(columns):
        made.add_column(
            name,
            justify="right" if name in right else "left",
            style="" if number else "bold",
            no_wrap=name not in wrap,
            overflow="fold",
        )
    for row in rows:
        made.add_row(*map(str, row))
    console().print(made)


def track(text: str, silent: bool = False) -> Callable[[Iterable[Any], int], Iterable[Any]]:
    """Wraps a loop in a progress bar, on a terminal."""
    from rich.progress import track

    where = console()
    off = silent or not where.is_terminal
    return lambda items, total: track(
        items, text, total, console=where, transient=True, disable=off
    )


@contextmanager
def progress(text: str, *, silent: bool = False, lines: bool = False) -> Iterator[OnProgress]:
    """Shows how many are done, on a terminal with rate and time left.

    With ``lines`` and without a terminal, each step is a line on standard error. Ctrl-C ends the
    command with the number that is done and exit code 130.
    """
    from rich import progress as p

    count = (0, 0)
    where = console(stderr=True)
    shown = where.is_terminal and not silent
    columns = (p.TextColumn(text), p.BarColumn(), p.MofNCompleteColumn())
    rate = p.TextColumn("{task.fields[rate]}")
    bar = p.Progress(*columns, rate, p.TimeRemainingColumn(), console=where, transient=True)
    task = bar.add_task("", total=None, rate="")

    def watch(done: int, total: int) -> None:
        nonlocal count
        speed = bar.tasks[task].speed
        bar.update(task, completed=done, total=total, rate=f"{speed:.1f}/s" if speed else "")
        if lines and not shown and not silent and count != (done, total):
            say(f"{done} of {total} done", err=True)
        count = done, total

    def stopped() -> str:
        done, total = count
        return (
            f"{done} of {total} done; the same command resumes."
            if total
            else "Nothing is done yet."
        )

    with stoppable(stopped), bar if shown else nullcontext():
        yield watch


@contextmanager
def stoppable(sentence: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C ends the command with a sentence in place of a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        after = "\n" if sys.stderr.isatty() else ""  # terminals show ^C
        say(after + sentence(), err=True)
        raise typer.Exit(130) from None  # as shells have it
