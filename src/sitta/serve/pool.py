"""The workers: separate processes, each ended and replaced when its job must not go on."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from sitta._util import process
from sitta.errors import SittaError
from sitta.serve.errors import ApiError, unavailable
from sitta.serve.worker import PROGRESS, Reply, WorkerConfig, main

START_SECONDS = 300.0  # for a worker to load its models
RETRY_SECONDS = 5.0  # before a worker that did not start is started again
END_SECONDS = 5.0  # for a process to be gone after its end of the pipe is
Tell = Callable[[Any], None]  # is told how far a job is
KILLED = (-signal.SIGTERM, -getattr(signal, "SIGKILL", signal.SIGTERM))  # as exit codes


class Worker:
    """The server's end of a worker."""

    def __init__(self, config: WorkerConfig) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        try:
            self.process = process.start(main, config, theirs)
        except BaseException:
            self._pipe.close()
            raise
        finally:
            theirs.close()
        self._is_loaded = False

    @property
    def is_alive(self) -> bool:
        """Whether the process is there."""
        return self.process.is_alive()

    @property
    def is_ready(self) -> bool:
        """Whether it has loaded its models, and is still there."""
        return self._is_loaded and self.is_alive

    def ready(self) -> dict[str, Any]:
        """Wait until it has loaded its models; returns their description."""
        try:
            if not self._pipe.poll(START_SECONDS):
                raise SittaError(f"A worker was not ready after {START_SECONDS:.0f} s.")
            kind, description = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise SittaError("A worker ended before it was ready.") from error
        if kind == "unfit":
            raise description
        self._is_loaded = True
        return dict(description)

    def ask(self, job: Any, tell: Tell) -> Reply:
        """Do a job; blocks. Raises EOFError or OSError if the process ends meanwhile."""
        self._pipe.send(job)
        while True:
            reply: Reply = self._pipe.recv()
            if reply[0] != PROGRESS:
                return reply
            tell(reply[1])

    def was_killed(self) -> bool:
        """Whether a signal from outside ended it, and not what it was doing; waits for its end."""
        end = time.monotonic() + END_SECONDS
        while self.process.exitcode is None and time.monotonic() < end:
            time.sleep(0.01)  # not join: it returns early if another thread learns of the end
        return self.process.exitcode in KILLED

    def end(self) -> None:
        """End the process at once, whatever it does."""
        process.end(self.process)
        with suppress(OSError):
            self._pipe.close()


class Pool:
    """Workers, and a queue of bounded length before them; ``log`` takes a line for operators."""

    def __init__(self, config: WorkerConfig, workers: int, log: Callable[[str], None]) -> None:
        self.config, self.size, self._log = config, workers, log
        self.restarts = self.inside = self.running = 0
        self._workers: list[Worker] = []
        self._idle: asyncio.Queue[Worker | None] = asyncio.Queue()
        self._threads = ThreadPoolExecutor(2 * workers + 1, thread_name_prefix="sitta-worker")
        self._renewals: set[asyncio.Task[None]] = set()
        self._draining = self._closed = False

    def start(self) -> dict[str, Any]:
        """Start all workers and wait for them; returns their description of models and methods."""
        self._workers = [Worker(self.config) for _ in range(self.size)]
        try:
            for worker in self._workers:
                description = worker.ready()
                self._idle.put_nowait(worker)
            return description
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        """Of the workers."""
        return [worker.process.pid or 0 for worker in self._workers]

    @property
    def ready(self) -> int:
        """Workers that have loaded their models."""
        return sum(worker.is_ready for worker in self._workers)

    @property
    def waiting(self) -> int:
        """Requests that wait for a worker."""
        return self.inside - self.running

    def require_ready(self) -> None:
        """503 if no worker has loaded its models, or the service ends."""
        if self._draining:
            raise _ending()
        if not self.ready:
            raise unavailable("not-ready", "No worker is ready.")

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place for one request, at a worker or in the queue; 429 if there is none."""
        self.require_place()
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    def require_place(self) -> None:
        """429 if all places are taken, 503 if the service ends."""
        if self._draining:
            raise _ending()
        if self.inside >= self.size + self.config.limits.queue:
            raise ApiError(
                429,
                "busy",
                "All places are taken: the queue is full.",
                fix="try again after the seconds in Retry-After",
                headers={"Retry-After": "1"},
            )

    async def run(self, job: Any, tell: Tell | None = None) -> Any:
        """The result of a job in the next free worker; 503 or 504 if there was no time.

        If this is cancelled, a job that waits is dropped, and one that runs ends with its worker.
        """
        try:
            async with asyncio.timeout(self.config.limits.seconds):
                worker = await self._next_idle()
        except TimeoutError:
            raise unavailable("no-worker", "No worker became free in time.") from None
        self.running += 1
        try:
            return self._result(*await self._exchange(worker, job, tell))
        finally:
            self.running -= 1

    async def _next_idle(self) -> Worker:
        """A worker that is free; those that ended while they were are replaced."""
        while worker := await self._idle.get():
            if worker.is_alive:
                return worker
            self._replace(worker)
        raise _ending()

    def watch(self) -> None:
        """Replace workers that ended while they were free; call it every now and then."""
        for worker in [self._idle.get_nowait() for _ in range(self._idle.qsize())]:
            if worker is None or worker.is_alive:
                self._idle.put_nowait(worker)
            else:
                self._replace(worker)

    async def _exchange(self, worker: Worker, job: Any, tell: Tell | None) -> Reply:
        seconds, healthy = self.config.limits.seconds, False
        loop = asyncio.get_running_loop()

        def told(content: Any) -> None:
            if tell is not None:
                loop.call_soon_threadsafe(tell, content)

        try:
            async with asyncio.timeout(seconds):
                reply: Reply = await self._in_thread(worker.ask, job, told)
            healthy = reply[0] in ("done", "refused")
            return reply
        except TimeoutError:
            message = f"The image was not done within {seconds:g} s."
            fix = "a smaller image, fewer slices, or settings that need fewer passes"
            raise ApiError(504, "too-slow", message, fix=fix) from None
        except (EOFError, OSError):
            if self._closed:
                raise _ending() from None
            killed = await self._in_thread(worker.was_killed)
            return ("killed" if killed else "spent"), None
        finally:
            if healthy and not self._closed:
                self._idle.put_nowait(worker)
            else:
                self._replace(worker)

    def _result(self, kind: str, content: Any) -> Any:
        if kind == "done":
            return content
        if kind == "refused":
            raise content
        if kind == "killed":
            raise unavailable("worker-ended", "The worker was ended from outside during the job.")
        if kind == "spent":
            raise ApiError(
                413,
                "too-much-memory",
                "The image needs more memory than a worker has here, or is damaged in a way that "
                "ended the worker.",
                fix="a smaller image, fewer slices, or settings with fewer members",
            )
        self._log(f"a job failed: {content}")
        raise ApiError(
            500, "failed", "The image could not be processed, by a fault of the service."
        )

    def _in_thread(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._threads, function, *args)

    def _replace(self, worker: Worker) -> None:
        """End a worker and start another, without waiting for either."""
        if worker in self._workers:
            self._workers.remove(worker)
        if self._closed:
            worker.end()
            return
        self.restarts += 1
        task = asyncio.get_running_loop().create_task(self._renew(worker))
        self._renewals.add(task)
        task.add_done_callback(self._renewals.discard)

    async def _renew(self, old: Worker) -> None:
        """Start workers until one is ready, whatever goes wrong: a pool never gets smaller."""
        worker = old
        while not self._closed:
            try:
                await self._in_thread(worker.end)
                worker = await self._in_thread(Worker, self.config)
                self._workers.append(worker)
                await self._in_thread(worker.ready)
                self._idle.put_nowait(worker)
                return
            except Exception as error:  # such as no descriptor, thread or memory left
                if worker in self._workers:
                    self._workers.remove(worker)
                self._log(f"a worker did not start: {error or type(error).__name__}")
                await asyncio.sleep(RETRY_SECONDS)

    def drain(self) -> None:
        """Take no further requests; those that are inside go on."""
        self._draining = True

    def close(self) -> None:
        """End all workers at once, and the jobs with them."""
        self._draining = self._closed = True
        for _ in range(self.waiting):
            self._idle.put_nowait(None)  # wakes who waits for a worker
        for task in self._renewals:
            task.cancel()
        for worker in self._workers:
            worker.end()
        self._workers.clear()
        self._threads.shutdown(wait=False)


def _ending() -> ApiError:
    return unavailable("ending", "The service is ending.")
