"""Fuzz every reader: damage files of the corpus and read them, until the time is over.

``make fuzz`` runs this. A child reads; what is no image and no ``InvalidImage``, takes more than 5
seconds of a core or 1 GB is a fault: the file is kept, and the exit code is 1. A file that is fine
when a new child reads it alone is kept and named; several of them are a fault, such as a leak.
"""

import argparse
import itertools
import math
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from sitta.data.images import read
from sitta.errors import InvalidImage

CORPUS = Path(__file__).parent / "corpus"
SECONDS = 5  # of a core, for one file
GROWTH = 2**20  # kB, over all files of a child
ALONE_FINE = 1  # files that failed among others only; more are a leak
CONTEXT = multiprocessing.get_context("spawn")
EXTREMES = [b"\0", b"\xff", b"\x80", b"\0\0", b"\xff\xff", b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff"]
EXTREMES += [bytes(4), b"\xff" * 4, b"\xff" * 8, b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\1\0\0\0"]


def seeds():
    """The files of the corpus, by name."""
    return {path.name: path.read_bytes() for path in sorted(CORPUS.iterdir())}


def damaged(number, seed, corpus):
    """A file of the corpus, damaged: the same for the same numbers."""
    draw = random.Random(f"{seed} {number}")  # noqa: S311  (no secret)
    name = draw.choice(list(corpus))
    made = bytearray(corpus[name])
    for _ in range(draw.randint(1, 6)):
        at = int(draw.random() ** 3 * len(made))  # more often in the header than in the pixels
        value = draw.choice([draw.choice(EXTREMES), draw.randbytes(draw.randint(1, 8))])
        how = draw.choice(["write", "write", "flip", "insert", "remove", "repeat", "splice"])
        if how == "flip" and at < len(made):
            made[at] ^= 1 << draw.randrange(8)
        elif how == "repeat":
            made[at:at] = made[at : at + draw.randint(1, 200)]
        elif how == "splice":
            other = corpus[draw.choice(list(corpus))]
            made[at:] = other[min(at, len(other)) :]
        else:
            end = at if how == "insert" else at + len(value)
            made[at:end] = b"" if how == "remove" else value
    return name, bytes(made[: int(len(made) * draw.choice([1, 1, 1, 1, 0.9, 0.5]))])


def attempt(path):
    """Read a file: a fault is raised, an image or the one error is fine; a hang ends all."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    refusal, size = None, 0
    try:
        size = read(path).pixels.size
    except InvalidImage as error:
        refusal = str(error)
    assert size or (refusal or "").startswith(str(path)), "neither pixels nor a message"
    signal.setitimer(signal.ITIMER_PROF, 0)


def work(folder, numbers, seed, until, done):
    """Read damaged files until the time is over; a hang ends the process by SIGPROF."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libtiff talks
    corpus = seeds()
    for name, content in corpus.items():  # loads all decoders
        (folder / name).write_bytes(content)
        attempt(folder / name)
        (folder / name).unlink()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in numbers:
        if time.time() > until:
            sys.exit(0)
        name, content = damaged(number, seed, corpus)
        path = folder / name
        path.write_bytes(content)
        done.value = number
        attempt(path)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < GROWTH, f"took {grown / 2**20:.1f} GB"
        path.unlink()


def child(*args):
    """``work``, with one line on standard output for what went wrong."""
    try:
        work(*args)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        print(f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})")
        sys.exit(1)


def fuzz(seconds, seed, faults):
    """Run children until the time is over; returns how many files were read, and the faults."""
    done = CONTEXT.Value("q", -1)
    until, first, kept, fine = time.time() + seconds, 0, [], []
    while time.time() < until:
        code, path = run(itertools.count(first), seed, until, done, faults)
        first = done.value + 1
        assert first or not code, "a file of the corpus itself is a fault"
        if code:
            alone, _ = run([done.value], seed, math.inf, done, faults)
            print(f"fault: {path} (exit {code}; -27 is a hang; alone {alone})")
            (kept if alone else fine).append(path)
    return first, kept + (fine if len(fine) > ALONE_FINE else [])


def run(numbers, seed, until, done, faults):
    """The exit code of a child, and where the file that ended it is kept."""
    with tempfile.TemporaryDirectory() as name:
        folder, kept = Path(name), None
        process = CONTEXT.Process(target=child, args=(folder, numbers, seed, until, done))
        process.start()
        process.join()
        for path in folder.iterdir() if process.exitcode else ():
            faults.mkdir(parents=True, exist_ok=True)
            kept = faults / f"{seed}-{done.value}-{path.name}"
            shutil.copy(path, kept)
    return process.exitcode, kept


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--faults", type=Path, default=Path("fuzz-faults"))
    given = options.parse_args()
    count, kept = fuzz(given.seconds, given.seed, given.faults)
    print(f"fuzz: {count:,} files read, {len(kept)} faults")
    sys.exit(bool(kept))


if __name__ == "__main__":
    main()
