"""The same run over a Ray cluster: actors that hold the model, files handed out one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sitta.errors import MissingExtra, SittaError
from sitta.runs.engine import Result, Worker, attempt
from sitta.runs.inputs import Item
from sitta.runs.plan import Plan

AHEAD = 2  # files that wait at each actor, so that none is idle while results travel


class Station:
    """An actor: holds a model on its node and predicts what it is given."""

    def __init__(self, plan: Plan, out: Path, overwrite: bool) -> None:
        self.worker = Worker(plan, out, overwrite, threads=1)  # one actor a core

    def predict(self, item: Item) -> Result:
        """One file; its masks are written from here."""
        return attempt(self.worker, item)


def spread(worker: Worker, items: Sequence[Item], address: str) -> Iterator[Result]:
    """Results as they come; a file whose actor died is done again by a new one.

    Args:
        worker: What to do and where to write; all nodes must see inputs and outputs at these paths.
        items: The files.
        address: Of a cluster, or ``local`` for one on this machine.
    """
    with joined(address) as ray:
        yield from _shared_out(ray, worker, items)


@contextmanager
def joined(address: str) -> Iterator[Any]:
    """Ray, connected to a cluster; one that this process was in already stays.

    Args:
        address: Of a cluster, or ``local`` for one on this machine.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("--ray", "ray") from error
    stay = ray.is_initialized()
    if not stay:
        _join(ray, address)
    try:
        yield ray
    finally:
        if not stay:
            ray.shutdown()


def _join(ray: Any, address: str) -> None:
    try:
        ray.init(
            address=None if address == "local" else address,
            log_to_driver=False,
            logging_level="error",
            include_dashboard=False if address == "local" else None,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise SittaError(
            f"There is no Ray cluster at {address!r} ({type(error).__name__}).",
            allowed="auto, an address such as ray://head:10001, or local",
        ) from error


def _shared_out(ray: Any, worker: Worker, items: Sequence[Item]) -> Iterator[Result]:
    cores = int(ray.cluster_resources().get("CPU", 1))
    kind = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(Station)
    given = (worker.plan, worker.outputs.folder.resolve(), worker.overwrite)
    actors = [kind.remote(*given) for _ in range(max(1, min(cores, len(items))))]
    waiting = list(reversed([_absolute(item) for item in items]))
    running: dict[Any, Any] = {}
    for actor in actors * AHEAD:
        if waiting:
            running[actor.predict.remote(waiting.pop())] = actor
    while running:
        (ready, *_), _ = ray.wait(list(running))
        actor = running.pop(ready)
        if waiting:
            running[actor.predict.remote(waiting.pop())] = actor
        yield ray.get(ready)


def _absolute(item: Item) -> Item:
    return Item(item.path.resolve(), item.name, item.output)
