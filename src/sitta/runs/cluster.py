"""The same run over a Ray cluster: actors that hold the model, files handed out a few at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sitta.errors import MissingExtra, SittaError
from sitta.runs.engine import Result, Worker, attempts
from sitta.runs.inputs import Item
from sitta.runs.plan import Plan
from sitta.storage import sweep

AHEAD = 2  # tasks that wait at each actor, so that none is idle while results travel
MOST = 32  # files in one task: enough that the driver has little to do, few enough to do again
TURNS = 8  # tasks for each actor at least, so that all end at about the same time


class Station:
    """An actor: holds a model on its node and predicts what it is given."""

    def __init__(self, plan: Plan, out: Path, overwrite: bool) -> None:
        self.worker = Worker(plan, out, overwrite, threads=1)  # one actor a core

    def predict(self, items: Sequence[Item]) -> list[Result]:
        """Some files; their masks and records are written from here, and pictures stay here."""
        results = list(attempts(self.worker, items))
        for _, record, _ in results:
            if record is not None:
                record.pop("picture", None)
        return results


def spread(
    worker: Worker, items: Sequence[Item], address: str, workers: int | None = None
) -> Iterator[Result]:
    """Results as they come; files whose actor died are done again by a new one.

    Args:
        worker: What to do and where to write; all nodes must see inputs and outputs at these paths.
        items: The files.
        address: Of a cluster, or ``local`` for one on this machine.
        workers: How many actors; one for each core if None.
    """
    with joined(address, workers) as ray:
        yield from _shared_out(ray, worker, items, workers)
    if address == "local":  # nobody else is at work: what a lost actor was writing can go at once
        sweep(worker.outputs.folder, settled=0.0)


@contextmanager
def joined(address: str, cores: int | None = None) -> Iterator[Any]:
    """Ray, connected to a cluster; one that this process was in already stays.

    Args:
        address: Of a cluster, or ``local`` for one on this machine.
        cores: For ``local``: what the cluster shall take for its cores; all there are if None.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("--ray", "ray") from error
    stay = ray.is_initialized()
    if not stay:
        _join(ray, address, cores)
    try:
        yield ray
    finally:
        if not stay:
            ray.shutdown()


def _join(ray: Any, address: str, cores: int | None) -> None:
    try:
        ray.init(
            address=address,  # by "local" Ray means a cluster of its own, whatever else runs here
            num_cpus=cores if address == "local" else None,
            log_to_driver=False,
            logging_level="error",
            include_dashboard=False if address == "local" else None,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise SittaError(
            f"There is no Ray cluster at {address!r} ({type(error).__name__}).",
            allowed="auto, an address such as ray://head:10001, or local",
        ) from error


def _shared_out(
    ray: Any, worker: Worker, items: Sequence[Item], workers: int | None
) -> Iterator[Result]:
    cores = int(ray.cluster_resources().get("CPU", 1))
    number = max(1, min(workers or cores, cores, len(items)))  # one more would wait for ever
    kind = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(Station)
    given = (worker.plan, worker.outputs.folder.resolve(), worker.overwrite)
    actors = [kind.remote(*given) for _ in range(number)]
    tasks = _tasks(items, max(worker.batch, min(MOST, len(items) // (number * TURNS)), 1))
    running = {
        actor.predict.remote(task): actor
        for actor, task in zip(actors * AHEAD, tasks, strict=False)
    }
    while running:
        (ready, *_), _ = ray.wait(list(running))
        actor = running.pop(ready)
        if task := next(tasks, None):
            running[actor.predict.remote(task)] = actor
        yield from ray.get(ready)


def _tasks(items: Sequence[Item], size: int) -> Iterator[list[Item]]:
    for start in range(0, len(items), size):
        yield [_absolute(item) for item in items[start : start + size]]


def _absolute(item: Item) -> Item:
    return Item(item.path.resolve(), item.name, item.output)
