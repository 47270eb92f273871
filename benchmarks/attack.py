"""Attack a service, one way after the other: does it stay up, and open to others?

    python benchmarks/attack.py [--model phantom-alder]

Starts ``sitta serve`` with a token, and sends half of a header over 1,100 connections, 100 uploads
that stall, hostile settings of every method, and wrong tokens. After each attack, somebody else
sends an image. Prints a summary as JSON; the exit code is 1 if the service failed anyone.
"""

from __future__ import annotations

import argparse
import json
import resource
import socket
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx

from sitta.data import phantom
from soak import Service

TOKEN = "correct-horse-battery"  # noqa: S105  (of a service that lives for a minute)
HEADERS, STALLED, GUESSES = 1100, 100, 600
SECONDS = 180.0  # for any answer: above the time limit of a job
LOG_BYTES = 2**20  # that an attack may write into the log
DEEP, LONG = "[" * 900 + "]" * 900, "9" * 4000
VALUES = ["NaN", "-Infinity", "1e999", "-1", "1e300", "2e9", LONG, f"-{LONG}", DEEP, '"\\udfff"']
VALUES += ["null", "true", "{}", "[]", '""', '"' + "x" * 5000 + '"', str(list(range(5000)))]
VALUES += ['"../../etc/passwd"', '"=cmd"', '{"__class__": 1}', "0.1.2", "'", "[NaN]", '["a"]']
WHOLE = [DEEP, LONG, "{", "[1]", "null", "\x00", '{"a": ' * 900, "x" * 2**17, '{"\\ud800": 1}']


class Attack:
    """One service, what is done to it, and what went wrong."""

    def __init__(self, model: str, folder: Path) -> None:
        phantom.write(folder, "fir", 1, (32, 32))
        self.image = next(folder.glob("phantom/fir/images/*")).read_bytes()
        self.service = Service([model, "--token", TOKEN, "--queue", "4"], folder)
        host, port = self.service.url.removeprefix("http://").split(":")
        self.address = (host, int(port))
        own = {"Authorization": f"Bearer {TOKEN}"}
        self.client = httpx.Client(base_url=self.service.url, headers=own, timeout=SECONDS)
        self.results: dict[str, Any] = {}
        self.faults: list[str] = []

    def run(self) -> dict[str, Any]:
        """All attacks; counts by their name."""
        self._somebody_else("nothing")
        for name in ("headers", "uploads", "settings", "tokens"):
            before = self.service.log.stat().st_size
            self.results[name] = getattr(self, name)()
            if self.service.log.stat().st_size - before > LOG_BYTES:
                self.faults.append(f"{name}: too much was written into the log")
        return self.results

    def send(self, **fields: Any) -> httpx.Response:
        """An image, with these fields."""
        files = {"file": ("a.png", self.image)}
        return self.client.post("/api/predict", files=files, data=fields)

    def headers(self) -> dict[str, Any]:
        """Connections that send half a header and stay."""
        half = f"GET / HTTP/1.1\r\nHost: {self.address[0]}\r\n".encode()
        return self._held([half] * HEADERS, "headers")

    def uploads(self) -> dict[str, Any]:
        """Uploads of which 100 bytes come."""
        head = (
            f"POST /api/predict HTTP/1.1\r\nHost: {self.address[0]}\r\n"
            f"Authorization: Bearer {TOKEN}\r\nContent-Length: 9000\r\n"
            "Content-Type: multipart/form-data; boundary=x\r\n\r\n"
        )
        body = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
        content = (head + body).encode() + b"x" * 100
        return self._held([content] * STALLED, "uploads")

    def _held(self, contents: list[bytes], name: str) -> dict[str, Any]:
        """Send each over a connection of its own; somebody else asks while all are held open."""
        with ExitStack() as stack:
            for content in contents:
                held = stack.enter_context(closing(socket.create_connection(self.address, SECONDS)))
                try:
                    held.sendall(content)
                except ConnectionError:  # it has made way for a later one
                    continue
            waited = self._somebody_else(name)
        return {"count": len(contents), "seconds to serve somebody else": waited}

    def _somebody_else(self, attack: str) -> float:
        start = time.monotonic()
        try:
            status = self.send().status_code
        except httpx.HTTPError as error:
            status = type(error).__name__
        if status != 200:
            self.faults.append(f"{attack}: somebody else got {status}")
        return round(time.monotonic() - start, 1)

    def settings(self) -> dict[str, Any]:
        """Every setting of every method with values that nobody means."""
        methods = self.client.get("/api/methods").json()["methods"]
        asked = [(method["name"], text) for method in methods for text in WHOLE]
        for method in methods:
            for setting in [*method["settings"], {"name": "no-such"}, {"name": "__init__"}]:
                key = json.dumps(setting["name"])
                asked += [(method["name"], f"{{{key}: {value}}}") for value in VALUES]
        seen: Counter[str] = Counter()
        for name, text in asked:
            answer = self.send(method=name, settings=text)
            seen[str(answer.status_code)] += 1
            problem = answer.status_code != 200
            if answer.status_code >= 500 or (problem and "error" not in answer.json()):
                self.faults.append(f"settings: {answer.status_code} for {name} {text[:60]}")
        self._somebody_else("settings")
        return {"count": len(asked), "answers": dict(sorted(seen.items()))}

    def tokens(self) -> dict[str, Any]:
        """Guesses as fast as they go, then the right token once its time has come."""
        seen: Counter[str] = Counter()
        start, wait = time.monotonic(), 0
        for number in range(GUESSES):
            wrong = {"Authorization": f"Bearer {TOKEN[:-4]}{number:04}"}
            answer = self.client.get("/api/models", headers=wrong)
            seen[str(answer.status_code)] += 1
            wait = int(answer.headers.get("retry-after", wait))
        seconds = round(time.monotonic() - start, 1)
        if set(seen) != {"401", "429"}:
            self.faults.append(f"tokens: {dict(seen)}")
        time.sleep(wait)
        self._somebody_else("tokens")
        return {"count": GUESSES, "looked at": seen["401"], "seconds": seconds}


def attack(model: str) -> dict[str, Any]:
    """The counts of all attacks, and what went wrong."""
    with tempfile.TemporaryDirectory(prefix="sitta-attack-") as folder:
        run = Attack(model, Path(folder))
        try:
            run.run()
        finally:
            run.faults += run.service.end()
    return {**run.results, "faults": run.faults}


def main() -> None:
    """Read the command line, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="phantom-alder")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    result = attack(parser.parse_args().model)
    print(json.dumps(result, indent=2))
    sys.exit(bool(result["faults"]))


if __name__ == "__main__":
    main()
