"""Results are bounded in size and age, and leave nothing behind."""

import errno
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sitta.errors import SittaError
from sitta.prediction.decisions import Decision
from sitta.serve import store as store_module
from sitta.serve.errors import ApiError
from sitta.serve.quotas import Limits
from sitta.serve.store import WORKDAY, Store, remove_abandoned


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kept = Store(Limits(keep_bytes=1000, keep_seconds=3600))
    yield kept
    kept.close()
    assert not list(tmp_path.iterdir())


def filled(store, size):
    name = store.new()
    (store.root / f"result-{name}" / "x").write_bytes(bytes(size))
    store.add(name, {})
    return name


def test_the_oldest_go_first(store):
    first, second, third = (filled(store, 400) for _ in range(3))
    assert store.size == 800
    with pytest.raises(ApiError, match="no such result"):
        store.get(first)
    assert not (store.root / f"result-{first}").exists()
    assert store.get(second).size == store.get(third).size == 400


def test_what_is_made_later_counts_too(store):
    first, second = filled(store, 400), filled(store, 400)
    (store.root / f"result-{second}" / "y").write_bytes(bytes(400))
    store.measure(second)
    store.tidy()
    with pytest.raises(ApiError):
        store.get(first)


def test_files_that_go_while_they_are_counted_do_not_matter(store, monkeypatch):
    name = filled(store, 400)
    folder = store.root / f"result-{name}"
    there = list(folder.iterdir())
    draft = folder / "y.draft"  # another request gives it its name at this moment
    monkeypatch.setattr("pathlib.Path.iterdir", lambda _: iter([draft, *there]))
    store.measure(name)
    assert store.size == 400
    monkeypatch.undo()
    store.drop(name)
    store.measure(name)
    assert store.size == 0


def test_one_that_is_too_large_is_kept_until_the_next(store):
    large = filled(store, 5000)
    assert store._entries[large].size == 5000
    filled(store, 1)
    with pytest.raises(ApiError):
        store.get(large)


def test_old_ones_go(store, monkeypatch):
    name = filled(store, 1)
    store.get(name)
    later = time.monotonic() + store.limits.keep_seconds + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    with pytest.raises(ApiError):
        store.get(name)


def test_what_a_person_worked_on_goes_last(store, monkeypatch):
    decided, drawn, plain = (filled(store, 300) for _ in range(3))
    store.get(decided).review[None] = Decision(file="a.png", decision="accept")
    (store.get(drawn).folder / "corrected.npy").touch()
    later = time.monotonic() + store.limits.keep_seconds + 1
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: later)
        assert store.get(decided).review
        assert store.get(drawn).is_corrected
        with pytest.raises(ApiError):
            store.get(plain)
    one, two = filled(store, 300), filled(store, 300)  # no room for all four
    with pytest.raises(ApiError):
        store.get(one)
    assert all(map(store.get, (decided, drawn, two)))
    last = time.monotonic() + WORKDAY + 1
    monkeypatch.setattr(time, "monotonic", lambda: last)
    with pytest.raises(ApiError):
        store.get(decided)


def test_errors_do_not_pile_up_the_places_where_they_were_raised(store):
    lengths = []
    for _ in range(3):
        with pytest.raises(ApiError) as caught:
            store.get("nothing")
        lengths.append(len(caught.traceback))
    assert lengths == lengths[:1] * 3


def test_ids_cannot_be_guessed_and_folders_not_be_read(store):
    names = {store.new() for _ in range(100)}
    assert len(names) == 100
    assert min(map(len, names)) >= 32
    for folder in (store.root, *store.root.iterdir()):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_a_killed_service_left_is_swept(store, tmp_path):
    (store.root / "result").write_bytes(b"of a patient")
    killed = _left_by_a_killed_service(tmp_path)
    same = tmp_path / f"sitta-serve-{os.getpid()}-abcdefgh"  # in a container all have this number
    other, linked = tmp_path / "sitta-serve-mine", tmp_path / "sitta-serve-abcdefgh"
    for folder in (same, other):
        folder.mkdir()
    linked.symlink_to(other)
    remove_abandoned(tmp_path)
    assert not killed.exists()
    assert {*tmp_path.iterdir()} == {store.root, other, linked}
    other.rmdir()
    linked.unlink()


def _left_by_a_killed_service(parent):
    code = (
        "import os, signal; from sitta.serve.quotas import Limits; from sitta.serve.store import "
        "Store; print(Store(Limits()).root, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "TMPDIR": str(parent)}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    folder = Path(done.stdout.strip())
    assert folder.is_dir(), done.stderr
    return folder


def test_a_folder_swept_before_it_was_locked_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    real, swept = store_module.lock_folder, []

    def late(folder):
        if not swept:
            swept.append(folder)
            remove_abandoned(tmp_path)
        return real(folder)

    monkeypatch.setattr(store_module, "lock_folder", late)
    kept = Store(Limits())
    assert swept
    assert kept.root.is_dir()
    assert stat.S_IMODE(kept.root.stat().st_mode) == 0o700
    kept.close()


def test_a_disk_without_locks_is_named_and_nothing_is_left_on_it(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(SittaError, match=r"cannot be locked.*TMPDIR"):
        Store(Limits())
    assert not list(tmp_path.iterdir())
