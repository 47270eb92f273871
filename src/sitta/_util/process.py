"""Worker processes: started, watched and ended in one way.

A worker is a spawned process. Ctrl-C does not reach it: its parent, which gets the signal too, ends
it. A parent that is killed takes its workers along.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.context import SpawnProcess
from typing import Any

OnProgress = Callable[[int, int], None]  # told how many jobs are done, of how many


def is_alive(pid: int) -> bool:
    """Whether a process is there and has not ended; ``os.kill(pid, 0)`` would end it on Windows."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except (psutil.NoSuchProcess, OverflowError, ValueError):
        return False
    except psutil.Error:  # it is there, but not ours to ask
        return True


def start(target: Callable[..., object], *args: Any) -> SpawnProcess:
    """Start a worker that calls ``target(*args)``; both must be importable or picklable."""
    spawn = multiprocessing.get_context("spawn")
    worker = spawn.Process(target=_work, args=(target, args), daemon=True)
    with _ctrl_c_waits():
        worker.start()
    return worker


def end(process: SpawnProcess) -> None:
    """End a worker at once, and wait until it is gone."""
    process.kill()
    process.join()


@contextmanager
def running(
    target: Callable[..., object], args: Sequence[Any], count: int
) -> Iterator[list[SpawnProcess]]:
    """Several workers that do the same, and end with the block."""
    processes: list[SpawnProcess] = []
    try:
        while len(processes) < count:
            processes.append(start(target, *args))
        yield processes
    finally:
        for process in processes:
            end(process)


def _work(target: Callable[..., object], args: Sequence[Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    target(*args)


def _end_with_parent() -> None:
    """End this process as a kill would: whoever killed the parent meant all of it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Hold Ctrl-C back: a process inherits that, and would else be hit while it imports."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows has no masks of signals
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # else starts with the worker, and lifts the block again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
