"""The same run over a Ray cluster: actors that hold the model, files handed out a few at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from sitta._util.files import remove_stale
from sitta._util.ray import absolute, core_count, in_flight, joined
from sitta.core.accel import allocator
from sitta.inference.inputs import InputFile
from sitta.inference.request import Request
from sitta.inference.worker import Attempt, Stopped, Worker, attempts

AHEAD = 2  # tasks that wait at each actor, so that none is idle while results travel
MOST_FILES = 32  # in one task: enough that the driver has little to do, few enough to do again
TURNS = 8  # tasks for each actor at least, so that all end at about the same time
Task = tuple[int, Sequence[InputFile]]  # the number of an actor, and files for it


class Station:
    """An actor: holds a model on its node and predicts the files that it is given."""

    def __init__(self, request: Request, out: Path, overwrite: bool) -> None:
        allocator.keep_between_passes()
        self.worker = Worker(request, out, overwrite, threads=1)  # one actor per core

    def predict(self, files: Sequence[InputFile]) -> list[Attempt]:
        """Several files; masks and records are written from here."""
        return list(attempts(self.worker, files))


def spread(
    worker: Worker, files: Sequence[InputFile], address: str, workers: int | None = None
) -> Iterator[Attempt]:
    """Results as they come; files whose actor died are predicted again by a new one.

    All nodes must see inputs and outputs at the same paths. There is one actor for each core,
    unless ``workers`` says how many.
    """
    with joined(address, workers) as ray:
        cores = core_count(ray)
        count = max(1, min(workers or cores, cores, len(files)))  # one more would wait for ever
        actors = _actors(ray, worker, count)
        size = max(worker.batch, min(MOST_FILES, len(files) // (count * TURNS)), 1)
        tasks = iter([files[start : start + size] for start in range(0, len(files), size)])

        def upcoming(running: list[Task]) -> Iterator[Task]:
            waiting = Counter(number for number, _ in running)
            for turn, number in product(range(AHEAD), range(count)):  # all actors in turn
                if waiting[number] <= turn and (task := next(tasks, None)):
                    waiting[number] += 1
                    yield number, task

        def submit(task: Task) -> Any:
            return actors[task[0]].predict.remote(task[1])

        for _, promise in in_flight(ray, upcoming, submit):
            try:
                yield from ray.get(promise)
            except ray.exceptions.RayTaskError as error:
                raise error.cause if isinstance(error.cause, Stopped) else error from None
    if address == "local":  # no other process writes here: drafts of lost actors can go at once
        remove_stale(worker.outputs.folder, settled=0.0)


def _actors(ray: Any, worker: Worker, count: int) -> list[Any]:
    request = worker.request
    paths: dict[str, Any] = {"model": absolute(request.model), "weights": absolute(request.weights)}
    given = (replace(request, **paths), worker.outputs.folder.resolve(), worker.overwrite)
    kind = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(Station)
    return [kind.remote(*given) for _ in range(count)]
