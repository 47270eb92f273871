"""Install Sitta as a user does, in an environment of its own outside the clone, and use it there.

``make wheel-test [PYTHON=python3.13] [TORCH=2.8.0]``. Builds the sdist, builds the wheel from the
sdist, installs that, and runs zoo, demo, predict, export, the exported graph and the service.
Needs nothing but Python and an index of packages.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = "Scripts" if os.name == "nt" else "bin"
NEWEST = "newest"


class Place:
    """A folder outside the clone, with an environment, in which commands run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "env" / BIN
        self.work = folder / "work"
        self.work.mkdir()
        hidden = ("PYTHON", "SITTA_", "VIRTUAL_ENV", "COVERAGE_")
        self.variables = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
        self.variables["PATH"] = os.pathsep.join([str(self.programs), os.environ["PATH"]])
        venv.create(folder / "env", with_pip=True)

    def run(self, program: str, *words: str | Path) -> str:
        """Run a program of the environment; its output, or the end of the whole test."""
        began = time.monotonic()
        command = [str(self.programs / program), *map(str, words)]
        done = subprocess.run(  # noqa: S603
            command, cwd=self.work, env=self.variables, capture_output=True, text=True, check=False
        )
        shown = " ".join([program, *(Path(word).name for word in words)])[:90]
        print(f"wheel-test: {time.monotonic() - began:5.1f} s  {shown}", flush=True)
        if done.returncode:
            sys.exit(f"wheel-test: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def pip(self, *words: str | Path) -> None:
        """Install; modules that are never imported are not compiled."""
        quiet = ("--quiet", "--disable-pip-version-check")
        self.run("python", "-m", "pip", "install", *quiet, "--no-compile", *words)


def constraints(folder: Path, torch: str) -> Path:
    """The tested versions, with another torch or the newest one where that is asked for."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    if torch:
        lines = [line for line in lines if not line.startswith("torch==")]
        lines += [] if torch == NEWEST else [f"torch=={torch}"]
    (folder / "constraints.txt").write_text("\n".join(lines) + "\n", "utf-8")
    return folder / "constraints.txt"


def build(place: Place, pins: Path) -> Path:
    """The wheel, built from the sdist, which must hold what the clone's own wheel holds."""
    place.pip("-c", pins, "hatchling")
    (sdist,) = built(place, ROOT, "sdist", "*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(place.folder / "unpacked", filter="data")
    (unpacked,) = (place.folder / "unpacked").iterdir()
    (wheel,) = built(place, unpacked, "wheel", "*.whl")
    missing = set(tracked()) - {
        n for n in zipfile.ZipFile(wheel).namelist() if "dist-info" not in n
    }
    if missing:
        sys.exit(f"wheel-test: the wheel lacks {', '.join(sorted(missing)[:10])}")
    return wheel


def built(place: Place, source: Path, kind: str, pattern: str) -> list[Path]:
    """What hatchling makes of a folder."""
    command = [str(place.programs / "hatchling"), "build", "-t", kind, "-d", str(place.folder)]
    subprocess.run(command, cwd=source, env=place.variables, check=True, capture_output=True)  # noqa: S603
    return list(place.folder.glob(pattern))


def tracked() -> list[str]:
    """Files of the package that git knows; none outside a clone."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "src"],  # noqa: S607  (whatever git there is)
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return [name.removeprefix("src/") for name in listed.stdout.split("\0") if name]


def use(place: Place) -> None:
    """Every way in that a user has, each with a result that is looked at."""
    version = place.run("sitta", "--version").split()[1]
    home = Path(place.run("python", "-c", "import sitta; print(sitta.__file__)").strip())
    check(place.folder in home.parents, f"sitta is imported from {home}")
    told = json.loads(place.run("sitta", "doctor", "--json"))
    check(told["versions"]["sitta"] == version and told["healthy"], f"doctor: {told['findings']}")
    models = json.loads(place.run("sitta", "zoo", "--verify", "--json"))
    check(len(models) > 10 and all(model["whole"] for model in models), f"zoo: {models}")
    place.run("sitta", "demo", "--images", "1", "--out", "demo")
    check((place.work / "demo" / "predictions" / "report.html").is_file(), "demo wrote no report")
    place.run("sitta", "data", "phantom", "data", "--sites", "cedar", "--images", "2")
    images = place.work / "data" / "phantom" / "cedar" / "images"
    place.run("sitta", "predict", "phantom-alder", images, "--out", "torch", "--method", "intent")
    place.run("sitta", "export", "phantom-alder", "model.onnx")
    place.run("sitta", "predict", "model.onnx", images, "--out", "graph")
    masks = {path.read_bytes() for path in place.work.glob("*/masks/scene-0000.png")}
    check(len(masks) == 1, "the exported graph gives another mask")
    with service(place) as address:
        check(b"<html" in get(address), "the service has no page")
        check(version in get(f"{address}/openapi.json").decode(), "the service has another version")


@contextmanager
def service(place: Place) -> Iterator[str]:
    """A service that takes images, until the end of the block; its address."""
    command = [str(place.programs / "sitta"), "serve", "phantom-alder", "--port", "8651"]
    began, address = time.monotonic(), "http://127.0.0.1:8651"
    process = subprocess.Popen(command, cwd=place.work, env=place.variables)  # noqa: S603
    try:
        while True:
            try:
                get(f"{address}/readyz")
                break
            except OSError:
                check(process.poll() is None, "the service ended")
                check(time.monotonic() - began < 120, "the service is not ready after two minutes")
                time.sleep(0.2)
        print(
            f"wheel-test: {time.monotonic() - began:5.1f} s  sitta serve, until ready", flush=True
        )
        yield address
    finally:
        process.terminate()
        process.wait(timeout=60)


def get(address: str) -> bytes:
    """A page of the service."""
    with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310  (loopback)
        body: bytes = answer.read()
        return body


def check(holds: bool, otherwise: str) -> None:
    """End the test with a sentence unless something holds."""
    if not holds:
        sys.exit(f"wheel-test: {otherwise}")


def main() -> None:
    """Build, install and use."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", default="", help="a version, newest, or the tested one")
    torch, began = parser.parse_args().torch, time.monotonic()
    name = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["name"]
    with tempfile.TemporaryDirectory(prefix="sitta-wheel-") as folder:
        place = Place(Path(folder).resolve())
        pins = constraints(place.folder, torch)
        wheel = build(place, pins)
        place.pip("-c", pins, f"{name}[onnx,serve] @ {wheel.as_uri()}")
        use(place)
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"wheel-test: all is well on Python {version} in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
