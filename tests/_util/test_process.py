"""Worker processes: Ctrl-C passes them by, they end with their parent, and looking harms nobody."""

import os
import signal
import subprocess
import sys
import time

import pytest

from sitta._util import process
from sitta._util.process import end, is_alive, running, start

PARENT = """
import time
from sitta._util.process import start

if __name__ == "__main__":
    print(start(time.sleep, 600).pid, flush=True)
    time.sleep(600)
"""


def gone(pid, seconds=20.0):
    until = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not is_alive(pid)


def test_a_look_does_no_harm(monkeypatch):
    def refused(*_):
        raise AssertionError("os.kill ends processes on Windows")

    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        with monkeypatch.context() as patch:
            patch.setattr(os, "kill", refused)
            assert is_alive(child.pid)
            assert is_alive(os.getpid())
        assert child.poll() is None
        child.stdin.close()
        child.wait()
        assert not is_alive(child.pid)
    assert not is_alive(2**31 + 5)
    assert not is_alive(-3)


def test_an_error_other_than_absence_counts_as_alive(monkeypatch):
    import psutil

    def denied(pid):
        raise psutil.AccessDenied(pid)

    monkeypatch.setattr(psutil, "Process", denied)
    assert is_alive(1)


def test_ctrl_c_does_not_reach_a_worker():
    worker = start(time.sleep, 600)
    os.kill(worker.pid, signal.SIGINT)
    worker.join(3)
    assert worker.is_alive()
    end(worker)
    assert not is_alive(worker.pid)


def test_workers_end_with_the_block():
    def failing():
        with running(time.sleep, (600,), 2) as workers:
            pids.extend(worker.pid for worker in workers)
            raise KeyboardInterrupt

    pids = []
    with pytest.raises(KeyboardInterrupt):
        failing()
    assert len(pids) == 2
    assert not any(map(is_alive, pids))


def test_a_worker_ends_with_a_parent_that_is_killed(tmp_path):
    (tmp_path / "parent.py").write_text(PARENT)
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "parent.py"], stdout=subprocess.PIPE, text=True
    )
    pid = int(parent.stdout.readline())
    time.sleep(2)  # it watches its parent once it is up
    parent.kill()
    parent.communicate()
    assert gone(pid)


def test_windows_has_no_masks_of_signals(monkeypatch):
    monkeypatch.delattr(signal, "pthread_sigmask")
    worker = process.start(time.sleep, 600)
    assert worker.is_alive()
    end(worker)
