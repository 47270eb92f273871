"""Locks: one process has one at a time, on every system."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from sitta._util.locks import is_locked, locked
from tests.shell import FORKED


def claim(path, results):
    with locked(path) as mine:
        results.put(mine)


def elsewhere(path):
    """Whether another process gets the lock."""
    results = FORKED.Queue()
    process = FORKED.Process(target=claim, args=(path, results))
    process.start()
    process.join()
    return results.get()


def test_one_process_has_the_lock(tmp_path):
    path = tmp_path / "locks" / "a.lock"
    assert not is_locked(path)
    with locked(path) as mine:
        assert mine
        assert is_locked(path)
        assert not elsewhere(path)
    assert not is_locked(path)
    assert elsewhere(path)


@pytest.fixture
def windows(monkeypatch):
    """As Windows locks: a byte of a file, never shared, and refused by PermissionError."""
    import fcntl

    def locking(descriptor, mode, count):
        assert (mode, count) == ("without waiting", 1)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(13, "Permission denied") from None

    fake = SimpleNamespace(LK_NBLCK="without waiting", locking=locking)
    monkeypatch.setitem(sys.modules, "msvcrt", fake)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setattr(sys, "platform", "win32")


def test_windows_has_locks_of_its_own(windows, tmp_path):
    path = tmp_path / "a.lock"
    with locked(path) as mine:
        assert mine
        assert is_locked(path)
        with locked(path) as second:
            assert not second
    assert not is_locked(path)


def test_the_benchmark_is_imported_where_there_is_no_fcntl():
    program = "import sys\nsys.modules['fcntl'] = None\nimport sitta.bench.run.scheduler"
    subprocess.run([sys.executable, "-c", program], check=True)
