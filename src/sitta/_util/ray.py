"""Ray: joining a cluster, and handing out tasks a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sitta.errors import MissingExtra, SittaError

Task = TypeVar("Task")


@contextmanager
def joined(address: str, cores: int | None = None) -> Iterator[Any]:
    """Ray, connected to a cluster, or to one of its own if the address is ``local``.

    A local one takes all cores, unless it is told how many. A connection that this process had
    already stays.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("--ray", "ray") from error
    if ray.is_initialized():
        yield ray
        return
    local = address == "local"  # a cluster of its own, whatever else runs here
    try:
        ray.init(
            address=address,
            num_cpus=cores if local else None,
            log_to_driver=False,
            logging_level="error",
            include_dashboard=False if local else None,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise SittaError(
            f"There is no Ray cluster at {address!r} ({type(error).__name__}).",
            allowed="auto, an address such as ray://head:10001, or local",
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def core_count(ray: Any) -> int:
    """Cores of the cluster, of which there may be more later."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def in_flight(
    ray: Any, upcoming: Callable[[list[Task]], Iterable[Task]], submit: Callable[[Task], Any]
) -> Iterator[tuple[Task, Any]]:
    """Each task with the promise of ``submit``, once that is ready; ends when nothing is left.

    ``upcoming`` is told what is running, gives what to hand out now, and so bounds how much is.
    """
    running: dict[Any, Task] = {}
    while True:
        for task in upcoming(list(running.values())):
            running[submit(task)] = task
        if not running:
            return
        ready, _ = ray.wait(list(running))
        yield from ((running.pop(promise), promise) for promise in ready)


def absolute(name: str | None) -> str | None:
    """A path of this machine for processes that stand in other folders; other names as they are."""
    if name is None or not Path(name).suffix or not Path(name).exists():
        return name
    return str(Path(name).absolute())
