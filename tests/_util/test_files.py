"""Files are written whole or not at all, and what a killed process left is swept away."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sitta._util.files import atomic_write, remove_stale


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "deep" / "a.txt"
    with atomic_write(path) as draft:
        draft.write_text("half")
        assert not path.exists()
        draft.write_text("whole")
    assert path.read_text() == "whole"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="asks as POSIX can")
def test_what_is_flushed_is_open_for_writing_as_windows_wants_it(tmp_path, monkeypatch):
    import fcntl

    modes = []

    def flush(descriptor):
        modes.append(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE)

    monkeypatch.setattr(os, "fsync", flush)
    with atomic_write(tmp_path / "a.txt") as draft:
        draft.write_text("whole")
    assert modes == [os.O_RDWR]


def test_an_error_leaves_the_old_file_and_no_draft(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with atomic_write(path) as draft:
            draft.write_text("new")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_only_drafts_of_the_dead_are_swept(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead = tmp_path / "deep" / f".draft-{gone.pid}-0123abcd.a.png"
    mine = tmp_path / f".draft-{os.getpid()}-0123abcd.b.png"
    other = tmp_path / ".draft-of-mine.txt"
    dead.parent.mkdir()
    for path in (dead, mine, other):
        path.write_text("x")
    remove_stale(tmp_path)
    assert dead.exists()  # too young: another machine may be writing it
    remove_stale(tmp_path, settled=0)
    assert not dead.exists()
    assert mine.exists()
    assert other.exists()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="tells of Linux alone")
def test_a_process_that_nobody_has_waited_for_is_dead(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and still listed
        draft = tmp_path / f".draft-{child.pid}-0123abcd.mask.png"
        draft.write_bytes(b"")
        remove_stale(tmp_path, settled=0)
        assert not draft.exists()
