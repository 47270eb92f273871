"""A worker: a process that holds the models and does one job after the other."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from sitta._util.files import is_full
from sitta.core.accel import allocator
from sitta.errors import MissingExtra, SittaError, is_out_of_memory, package_of
from sitta.serve.errors import ApiError, fault
from sitta.serve.quotas import Limits

Reply = tuple[str, Any]  # which kind, and what it holds
PROGRESS = "progress"  # of a reply that others follow


@dataclass(frozen=True)
class WorkerConfig:
    """What a worker is started with: models as on the command line, limits of a job, threads."""

    models: Sequence[str]
    limits: Limits
    threads: int = 1
    given: Mapping[str, Any] = field(default_factory=dict)  # in place of the model's profile


def main(config: WorkerConfig, pipe: Connection) -> None:
    """Load the models, say that they are ready, and work until the server is gone."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # to a whole group: the server ends its workers
    allocator.keep_between_passes()
    from sitta.serve.catalogue import Catalogue
    from sitta.serve.predict_job import warm

    try:
        catalogue = Catalogue(config.models, config.limits, config.threads, config.given)
        warm(catalogue)
        description = catalogue.describe()
    except (SittaError, OSError) as error:
        pipe.send(("unfit", error if isinstance(error, SittaError) else SittaError(str(error))))
        return
    except ModuleNotFoundError as error:
        pipe.send(("unfit", MissingExtra("sitta serve", package=package_of(error))))
        return
    _bound_memory(config.limits.memory_bytes)
    pipe.send(("ready", description))
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):  # the server is gone
            return
        pipe.send(_reply(job, catalogue, lambda content: pipe.send((PROGRESS, content))))


def _reply(job: Any, catalogue: Any, tell: Callable[[Any], None] | None = None) -> Reply:
    """The result of a job, or an error that names neither the patient nor a line of code."""
    from sitta.serve.predict_job import work

    try:
        return "done", work(job, catalogue, tell)
    except ApiError as error:
        return "refused", error
    except Exception as error:
        if is_out_of_memory(error):
            return "spent", None
        if is_full(error):
            return "refused", fault(error)
        return "failed", f"{type(error).__name__} at {place(error)}"


def place(error: BaseException) -> str:
    """Where in the code an error was raised; never its message, which may quote a header."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "an unknown place"
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}"


def _bound_memory(more: int) -> None:
    """A last line of defence: no allocation beyond what is mapped now and ``more`` bytes.

    Linux alone has such a limit. A GPU's driver maps far more addresses than it uses: no limit.
    """
    import psutil

    torch, process = sys.modules.get("torch"), psutil.Process()
    if not hasattr(process, "rlimit") or (torch is not None and torch.cuda.is_available()):
        return
    _, hard = process.rlimit(psutil.RLIMIT_AS)
    most = process.memory_info().vms + more
    if hard != psutil.RLIM_INFINITY:
        most = min(most, hard)
    process.rlimit(psutil.RLIMIT_AS, (most, hard))
