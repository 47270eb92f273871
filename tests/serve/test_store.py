"""Results are bounded in size and age, and leave nothing behind."""

import os
import stat
import time
from dataclasses import replace

import pytest

from sitta.serve.limits import Limits
from sitta.serve.refusal import Refusal
from sitta.serve.store import Store, sweep


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
    with pytest.raises(Refusal, match="no such result"):
        store.get(first)
    assert not (store.root / f"result-{first}").exists()
    assert store.get(second).size == store.get(third).size == 400


def test_what_is_made_later_counts_too(store):
    first, second = filled(store, 400), filled(store, 400)
    (store.root / f"result-{second}" / "y").write_bytes(bytes(400))
    store.measure(second)
    store.tidy()
    with pytest.raises(Refusal):
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
    with pytest.raises(Refusal):
        store.get(large)


def test_old_ones_go(store):
    store.limits = replace(store.limits, keep_seconds=0.05)
    name = filled(store, 1)
    store.get(name)
    time.sleep(0.06)
    with pytest.raises(Refusal):
        store.get(name)


def test_ids_cannot_be_guessed_and_folders_not_be_read(store):
    names = {store.new() for _ in range(100)}
    assert len(names) == 100
    assert min(map(len, names)) >= 32
    for folder in (store.root, *store.root.iterdir()):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_a_killed_service_left_is_swept(tmp_path):
    dead = tmp_path / f"sitta-serve-{2**22 + 1}-abc"
    alive = tmp_path / f"sitta-serve-{os.getpid()}-abc"
    other = tmp_path / "sitta-serve-mine"
    for folder in (dead, alive, other):
        folder.mkdir()
    sweep(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {alive.name, other.name}
