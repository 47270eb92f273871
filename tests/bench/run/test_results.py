"""A folder of results can be looked at while others work in it, and by who may not write there."""

import builtins
from pathlib import Path

import pytest

from sitta.bench.plan.cells import expand
from sitta.bench.run.results import Results, unfinished
from sitta.bench.stats import rows
from sitta.errors import SittaError
from tests.bench import synthetic


@pytest.fixture
def begun(plan, tmp_path):
    """A folder in which somebody has been at all work once."""
    results = Results(tmp_path / "begun")
    results.open(plan, expand(plan))
    for work in expand(plan):
        with results.claim(work):
            pass
    return results


@pytest.fixture
def guard(monkeypatch):
    """Refuses as a system does: to write anywhere, or to open certain files at all."""
    real = builtins.open

    def start(refused=()):
        def guarded(path, mode="r", *args, **settings):
            if {*mode} & {*"wax+"} or Path(str(path)).suffix in refused:
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, mode, *args, **settings)

        monkeypatch.setattr(builtins, "open", guarded)

    return start


def test_who_may_only_read_sees_what_is_under_way(plan, begun, guard):
    with begun.claim(expand(plan)[0]):
        guard()
        assert begun.status()["running"].sum() == 1
        assert begun.status()["running"].sum() == 1  # to look takes nothing from anybody
    assert begun.status()["running"].sum() == 0


def test_a_lock_that_cannot_be_read_is_nobodys(plan, begun, guard):
    with begun.claim(expand(plan)[0]):
        guard([".lock"])
        assert begun.status()["running"].sum() == 0


def test_what_is_unfinished_asks_no_locks(begun, monkeypatch):
    from sitta.bench.run import results

    def held(path):
        raise AssertionError(path)

    monkeypatch.setattr(results, "is_locked", held)
    assert unfinished(begun.folder).startswith("The run is not finished: phantom members 0 of")


def test_failures_that_are_forgiven_meanwhile_are_none(plan, begun, monkeypatch):
    first, second, third = expand(plan)[:3]
    for work in (first, second):
        begun.fail(work, "wet")
    assert [begun.failed(work) for work in (first, second, third)] == [True, True, False]
    real = Path.read_text

    def read_text(path, *args, **settings):
        if path.stem == str(first):
            path.unlink()  # by another run, which has just begun
        return real(path, *args, **settings)

    monkeypatch.setattr(Path, "read_text", read_text)
    assert begun.failures() == {str(second): "wet"}
    assert not begun.failed(first)


@pytest.mark.parametrize("damage", ["cut", "altered", "last byte", "head"])
def test_rows_that_are_cut_or_damaged_say_so(damage, tmp_path):
    path = tmp_path / "rows.csv.gz"
    rows.write(synthetic.make(images=2, repeats=1, drawn=1), path)
    whole = path.read_bytes()
    half = len(whole) // 2
    path.write_bytes(
        {
            "cut": whole[:half],
            "altered": whole[:half] + bytes(64) + whole[half + 64 :],
            "last byte": whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:],
            "head": b"no" + whole[2:],
        }[damage]
    )
    with pytest.raises(SittaError, match="cut or damaged") as caught:
        rows.load(path)
    assert "copy or collect it again" in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", '[{"work": 1}]', "3", "[" * 5000])
def test_damaged_lists_of_jobs_and_settings_are_told_in_a_sentence(plan, begun, text):
    (begun.folder / "work.json").write_text(text)
    with pytest.raises(SittaError, match=r"work\.json is damaged"):
        begun.status()
    (begun.folder / "settings.json").write_text(text)
    with pytest.raises(SittaError, match=r"settings\.json is damaged"):
        begun.open(plan, [])
