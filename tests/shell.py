"""The command line for tests: in this process, or in one of its own that can be killed.

Starting Python and importing torch takes seconds. So most tests call ``main`` here, with words,
folder, output and exit code as a shell has them; what must be killed or limited runs in a process
that is forked from one in which everything is imported already.
"""

import io
import multiprocessing
import os
import resource
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    [
        "sitta.cli.predict",
        "sitta.cli.train",
        "sitta.bench.run.scheduler",
        "sitta.bench.plan.load",
        "sitta.inference.run",
        "matplotlib.figure",
    ]
)


@dataclass(frozen=True)
class Done:
    """What a shell would tell of a command that ended."""

    returncode: int
    stdout: str
    stderr: str


def sitta_command(*words, cwd=".", **variables):
    """Run a command in this process; what is not told in a sentence is raised here."""
    from sitta.cli import main

    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", ["sitta", *map(str, words)])
        for name, value in variables.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main()
    return Done(ended.value.code or 0, out.getvalue(), err.getvalue())


def sitta_process(*words, cwd="."):
    """Run a command in a new Python: the slow way, which leaves nothing out."""
    command = [sys.executable, "-m", "sitta", *map(str, words)]
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=200
    )
    return Done(done.returncode, done.stdout, done.stderr)


def start(*words, err=os.devnull, room=None):
    """Start a command in a process of its own.

    Args:
        words: Of the command.
        err: File for what it says of errors.
        room: Bytes that a file may have at the most.
    """
    process = FORKED.Process(target=_run, args=([*map(str, words)], str(err), room))
    process.start()
    return process


def _run(words, err, room):
    import torch

    from sitta.cli import main

    torch.set_num_threads(1)  # tests run side by side
    with open(os.devnull, "w") as silence, open(err, "w") as errors:
        os.dup2(silence.fileno(), 1)
        os.dup2(errors.fileno(), 2)
    if room is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    sys.argv = ["sitta", *words]
    main()
