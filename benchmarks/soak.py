"""The service under load, kills and bad requests: is every answer right, does memory come back?

    python benchmarks/soak.py [--seconds 600] [--clients 16] [--model phantom-alder]

Starts ``sitta serve`` with two workers. Most clients send images, and compare each mask with the
one that was computed before the load. Others send files that are no images, hang up in the middle,
or stall; a worker is killed every few seconds. At the end, memory, descriptors and workers must be
back, and nothing but results may lie in the folder of the service. Prints a summary as JSON; the
exit code is 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from sitta.data import phantom

KILL_SECONDS = 5.0  # between two kills of a worker
IMAGES = 8
DICE = random.Random(0)  # noqa: S311  (no secrets)
GROWTH = 64 * 2**20  # bytes that server and workers may have grown by
CACHES = ("sitta-warm-", "torchinductor_")  # of code, by tests and by torch: no images
REFUSALS = {429, 503}  # of a good image: the queue is full, or the worker was killed


class Service:
    """``sitta serve`` in a process of its own, with a folder for its temporary files."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self.temporary, self.log = folder / "tmp", folder / "log"
        self.temporary.mkdir()
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sitta", "serve", *words, "--port", "0", "--threads", "1"],
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "TMPDIR": str(self.temporary)},
                text=True,
            )
        self.url = self._address()

    def _address(self) -> str:
        for line in self.process.stdout or ():
            address = re.search(r"http://\S+:\d+", line)
            if address:
                return address[0]
        raise SystemExit(self.log.read_text())

    def end(self) -> list[str]:
        """End it; what it should not have left."""
        faults = []
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)
        if self.process.returncode != 0:
            faults.append(f"it ended with {self.process.returncode}")
        there = (path.name for path in self.temporary.iterdir())
        left = [name for name in there if not name.startswith(CACHES)]
        if left:
            faults.append(f"it left {left}")
        if "Traceback" in self.log.read_text():
            faults.append("a traceback in the log")
        return faults


class Soak:
    """One service under load."""

    def __init__(self, model: str, folder: Path) -> None:
        phantom.write(folder, "fir", IMAGES, (96, 112))
        self.images = [p.read_bytes() for p in sorted(folder.glob("phantom/fir/images/*"))]
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.service = Service([model, "--workers", "2", "--keep", "64"], folder)
        self.url = self.service.url
        self.masks = [self._mask(image).content for image in self.images]

    def _mask(self, image: bytes) -> httpx.Response:
        headers, files = {"accept": "image/png"}, {"file": ("a.png", image)}
        return httpx.post(f"{self.url}/api/predict", headers=headers, files=files, timeout=300)

    def good(self) -> None:
        """An image whose mask is known."""
        number = DICE.randrange(IMAGES)
        answer = self._mask(self.images[number])
        self.counts[f"image {answer.status_code}"] += 1
        if answer.status_code in REFUSALS:
            time.sleep(0.2)
        elif answer.status_code != 200 or answer.content != self.masks[number]:
            self.faults.append(f"image {answer.status_code}: {answer.content[:200]!r}")

    def bad(self) -> None:
        """Half of a file, or noise."""
        whole = bytearray(DICE.choice(self.images))
        for _ in range(20):
            whole[DICE.randrange(len(whole))] = DICE.randrange(256)
        answer = self._mask(DICE.choice([bytes(whole), bytes(whole[: len(whole) // 2]), b"junk"]))
        self.counts[f"damaged {answer.status_code}"] += 1
        if answer.status_code >= 500 and answer.status_code not in REFUSALS:
            self.faults.append(f"damaged {answer.status_code}: {answer.text[:200]}")

    def gone(self) -> None:
        """Hang up in the middle of a header or a body."""
        host, port = self.url.removeprefix("http://").split(":")
        head = f"POST /api/predict HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9000\r\n"
        body = "Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(DICE.choice([head, head + body]).encode())
            time.sleep(DICE.random() * 3)
        self.counts["hung up"] += 1

    def kill(self) -> None:
        """Kill a worker."""
        time.sleep(KILL_SECONDS)
        with suppress(psutil.NoSuchProcess, IndexError):  # there is none at this moment
            workers = [p for p in self._processes()[1:] if "spawn_main" in " ".join(p.cmdline())]
            DICE.choice(workers).send_signal(signal.SIGKILL)
            self.counts["kills"] += 1

    def _processes(self) -> list[psutil.Process]:
        server = psutil.Process(self.service.process.pid)
        return [server, *server.children(recursive=True)]

    def level(self) -> dict[str, int]:
        """What it holds when all workers are ready and have done a few images."""
        self.settle()
        server, *_ = processes = self._processes()
        return {
            "bytes": sum(p.memory_info().rss for p in processes),
            "descriptors": server.num_fds(),
            "threads": server.num_threads(),
        }

    def settle(self) -> None:
        """Wait for both workers, and use them."""
        end = time.monotonic() + 120
        while httpx.get(f"{self.url}/healthz", timeout=60).json()["workers"] < 2:
            if time.monotonic() > end:
                self.faults.append("the workers did not come back")
                return
            time.sleep(0.2)
        for image in self.images:
            self._mask(image)

    def load(self, seconds: float, clients: int) -> None:
        """Run all kinds of clients side by side."""
        roles: list[Callable[[], None]] = [self.kill, self.bad, self.bad, self.gone]
        roles += [self.good] * max(1, clients - len(roles))
        end = time.monotonic() + seconds

        def repeat(role: Callable[[], None]) -> None:
            while time.monotonic() < end:
                try:
                    role()
                except Exception as error:  # a client must not end the measurement
                    self.faults.append(f"{role.__name__}: {type(error).__name__} {error}")

        threads = [threading.Thread(target=repeat, args=(role,)) for role in roles]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def soak(model: str, seconds: float, clients: int) -> dict[str, Any]:
    """The counts of one run, what it held before and after, and what went wrong."""
    with tempfile.TemporaryDirectory(prefix="sitta-soak-") as folder:
        run = Soak(model, Path(folder))
        try:
            run.load(min(5.0, seconds), clients)  # until all is set up
            run.counts.clear()
            before = run.level()
            run.load(seconds, clients)
            after = run.level()
        finally:
            run.faults += run.service.end()
        if after["bytes"] - before["bytes"] > GROWTH:
            run.faults.append("memory did not come back")
        if after["descriptors"] - before["descriptors"] > clients:
            run.faults.append("descriptors did not come back")
        log = run.service.log.stat().st_size
    counts = dict(sorted(run.counts.items()))
    return {
        "seconds": seconds,
        "clients": clients,
        "counts": counts,
        "before": before,
        "after": after,
        "log_bytes": log,
        "faults": run.faults,
    }


def main() -> None:
    """Read the command line, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--model", default="phantom-alder")
    chosen = parser.parse_args()
    result = soak(chosen.model, chosen.seconds, chosen.clients)
    print(json.dumps(result, indent=2))
    sys.exit(bool(result["faults"]))


if __name__ == "__main__":
    main()
