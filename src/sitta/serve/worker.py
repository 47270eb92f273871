"""A worker: a process that holds the models, and does one job after the other."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from sitta.errors import MissingExtra, SittaError
from sitta.serve.limits import Limits
from sitta.serve.refusal import Refusal

Reply = tuple[str, Any]  # what kind of answer, and what it says


@dataclass(frozen=True)
class Orders:
    """What a worker is started with.

    Attributes:
        models: As on the command line.
        limits: Of one job.
        threads: How many it may use.
    """

    models: Sequence[str]
    limits: Limits
    threads: int = 1


def main(orders: Orders, pipe: Connection) -> None:
    """Load the models, say that they are ready, and work until the server is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    from sitta.serve.catalogue import Catalogue
    from sitta.serve.job import warm

    try:
        catalogue = Catalogue(orders.models, orders.limits, orders.threads)
        warm(catalogue)
        told = catalogue.describe()
    except (SittaError, OSError) as error:
        pipe.send(("unfit", (isinstance(error, MissingExtra), str(error))))
        return
    _bound_memory(orders.limits.memory_bytes)
    pipe.send(("ready", told))
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):  # the server is gone
            return
        pipe.send(_reply(job, catalogue))


def _reply(job: Any, catalogue: Any) -> Reply:
    """What a job came to, in words that name neither the patient nor a line of code."""
    from sitta.serve.job import work

    try:
        return "done", work(job, catalogue)
    except Refusal as error:
        return "refused", error.plain()
    except Exception as error:
        if isinstance(error, MemoryError) or "allocate" in str(error):
            return "spent", None
        return "failed", f"{type(error).__name__} at {place(error)}"


def place(error: BaseException) -> str:
    """Where in the code something was raised; never what it said, which may quote a header."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "an unknown place"
    return f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"


def _bound_memory(more: int) -> None:
    """A last line of defence: no allocation beyond what is mapped now and some more.

    Not with a GPU, whose driver maps far more addresses than it uses; nor where there is no such
    limit.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            mapped = int(file.read().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = mapped + more
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    except (ImportError, OSError, ValueError):  # not Linux
        return
