"""The workers: separate processes, each ended and replaced when its job must not go on."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from sitta.errors import MissingExtra, SittaError
from sitta.serve.refusal import Refusal
from sitta.serve.worker import Orders, Reply, main

START_SECONDS = 300.0  # for a worker to load its models
AGAIN_SECONDS = 5.0  # before a worker that did not start is started again


class Worker:
    """The server's end of a worker."""

    def __init__(self, orders: Orders) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would share what torch has started
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=main, args=(orders, theirs), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid or 0

    def ready(self) -> dict[str, Any]:
        """Wait until it has loaded its models; what they are."""
        try:
            if not self._pipe.poll(START_SECONDS):
                raise SittaError(f"A worker was not ready after {START_SECONDS:.0f} s.")
            kind, told = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise SittaError("A worker ended before it was ready.") from error
        if kind == "unfit":
            raise _MissingHere(told[1]) if told[0] else SittaError(told[1])
        found: dict[str, Any] = told
        return found

    def ask(self, job: Any) -> Reply:
        """Do a job; blocks. Raises EOFError or OSError if the process ends meanwhile."""
        self._pipe.send(job)
        reply: Reply = self._pipe.recv()
        return reply

    def end(self) -> None:
        """End the process at once, whatever it does."""
        self._process.kill()
        self._process.join()
        with suppress(OSError):
            self._pipe.close()


class _MissingHere(MissingExtra):
    """A missing extra, in the words of the worker that missed it."""

    def __init__(self, said: str) -> None:
        SittaError.__init__(self, said)


class Pool:
    """Workers and those who wait for one, of whom there are never more than the queue holds.

    Args:
        orders: What each worker is started with.
        workers: How many.
        log: Is told what an operator should know.
    """

    def __init__(self, orders: Orders, workers: int, log: Callable[[str], None]) -> None:
        self.orders, self.size, self._log = orders, workers, log
        self.restarts = self.inside = self.running = 0
        self.known: dict[str, Any] = {}
        self._workers: list[Worker] = []
        self._starting = 0
        self._idle: asyncio.Queue[Worker] = asyncio.Queue()
        self._threads = ThreadPoolExecutor(2 * workers + 1, thread_name_prefix="sitta-worker")
        self._renewals: set[asyncio.Task[None]] = set()
        self._closed = False

    def start(self) -> None:
        """Start all workers and wait for them.

        Raises:
            SittaError: A model cannot be loaded.
        """
        self._workers = [Worker(self.orders) for _ in range(self.size)]
        try:
            for worker in self._workers:
                self.known = worker.ready()
                self._idle.put_nowait(worker)
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        """Of the workers."""
        return [worker.pid for worker in self._workers]

    @property
    def ready(self) -> int:
        """Workers that have loaded their models."""
        return max(0, len(self._workers) - self._starting)

    @property
    def waiting(self) -> int:
        """Requests that are inside and not being worked on."""
        return self.inside - self.running

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place among those who are worked for or wait.

        Raises:
            Refusal: 429, there is none.
        """
        if self.inside >= self.size + self.orders.limits.queue:
            raise Refusal(
                429,
                "busy",
                "All places are taken: the queue is full.",
                fix="try again after the seconds in Retry-After",
                headers={"Retry-After": "1"},
            )
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    async def run(self, job: Any) -> dict[str, Any]:
        """Do a job in the next free worker, within the time limit.

        If this is cancelled, a job that waits is dropped, and one that runs ends with its worker.

        Raises:
            Refusal: What the worker refused; 503 or 504 if there was no time.
        """
        seconds = self.orders.limits.seconds
        try:
            async with asyncio.timeout(seconds):
                worker = await self._idle.get()
        except TimeoutError:
            raise Refusal(
                503,
                "no-worker",
                "No worker became free in time.",
                fix="try again later",
                headers={"Retry-After": "5"},
            ) from None
        self.running += 1
        try:
            reply = await self._exchange(worker, job, seconds)
        finally:
            self.running -= 1
        return self._result(reply)

    async def _exchange(self, worker: Worker, job: Any, seconds: float) -> Reply:
        healthy = False
        try:
            async with asyncio.timeout(seconds):
                loop = asyncio.get_running_loop()
                reply = await loop.run_in_executor(self._threads, worker.ask, job)
            healthy = reply[0] in ("done", "refused")
            return reply
        except TimeoutError:
            raise Refusal(
                504,
                "too-slow",
                f"The image was not done within {seconds:g} s.",
                fix="a smaller image, fewer slices, or settings that need fewer passes",
            ) from None
        except (EOFError, OSError):
            return "ended", None
        finally:
            if healthy and not self._closed:
                self._idle.put_nowait(worker)
            else:
                self._replace(worker)

    def _result(self, reply: Reply) -> dict[str, Any]:
        kind, told = reply
        if kind == "done":
            found: dict[str, Any] = told
            return found
        if kind == "refused":
            raise Refusal(**told)
        if kind in ("spent", "ended"):
            raise Refusal(
                413,
                "too-much-memory",
                "The image needs more memory than a worker has here, or is damaged in a way that "
                "ended the worker.",
                fix="a smaller image, fewer slices, or settings with fewer members",
            )
        self._log(f"a job failed: {told}")
        raise Refusal(500, "failed", "The image could not be processed, by a fault of the service.")

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
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, old.end)
        while not self._closed:
            worker = await loop.run_in_executor(self._threads, Worker, self.orders)
            self._workers.append(worker)
            self._starting += 1
            try:
                await loop.run_in_executor(self._threads, worker.ready)
            except SittaError as error:
                self._workers.remove(worker)
                await loop.run_in_executor(self._threads, worker.end)
                self._log(f"a worker did not start: {error}")
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                self._idle.put_nowait(worker)
                return
            finally:
                self._starting -= 1

    def close(self) -> None:
        """End all workers at once."""
        self._closed = True
        for task in self._renewals:
            task.cancel()
        for worker in self._workers:
            worker.end()
        self._workers.clear()
        self._threads.shutdown(wait=False)
