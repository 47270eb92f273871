"""A calibration that was stopped goes on, to the same result bit for bit, and leaves no names."""

import json
import os
import signal
import time

import numpy as np
import pytest
import torch

import sitta
from sitta.calibration import calibrate as module
from sitta.calibration.journal import Journal
from sitta.data import phantom
from tests.nets import Net, trained
from tests.shell import sitta_command, start


@pytest.fixture(scope="module")
def scenes():
    return phantom.batch("alder", 6, (24, 24))


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return trained(Net(), (1, 24, 24))


@pytest.fixture(autouse=True)
def few_looks(monkeypatch):
    monkeypatch.setattr(module, "PER_IMAGE", (2, 2))


def text(calibration):
    return json.dumps(calibration.as_dict(), sort_keys=True)


def stopped_after(count, net, scenes, path, **settings):
    def watch(done, _):
        if done == count:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sitta.calibrate(net, *scenes, watch=watch, journal=Journal(path), **settings)


def predictions(monkeypatch):
    """Counts the images that are looked at from now on."""
    seen, whole = [], module._at
    monkeypatch.setattr(module, "_at", lambda *given: seen.append(1) or whole(*given))
    return seen


def test_it_goes_on_where_it_was_to_the_same_result(net, scenes, tmp_path, monkeypatch):
    plain = text(sitta.calibrate(net, *scenes))
    path = tmp_path / "part"
    stopped_after(4, net, scenes, path)
    with open(path, "a") as file:
        file.write('{"image": 4, "looks": [{"kin')  # as a process leaves it that is killed
    seen = predictions(monkeypatch)
    assert text(sitta.calibrate(net, *scenes, journal=Journal(path))) == plain
    assert len(seen) == 2
    assert text(sitta.calibrate(net, *scenes, journal=Journal(path))) == plain
    assert len(seen) == 2
    Journal(path).remove()
    assert not path.exists()


@pytest.mark.parametrize("other", ["weights", "images", "masks", "seed", "public"])
def test_what_was_done_otherwise_does_not_count(other, net, scenes, tmp_path, monkeypatch):
    path = tmp_path / "part"
    stopped_after(4, net, scenes, path)
    images, masks = (part.clone() for part in scenes)
    settings = {"seed": {"seed": 1}, "public": {"public": True}}.get(other, {})
    if other == "weights":
        torch.manual_seed(1)
        net = trained(Net(), (1, 24, 24))
    images[0, 0, 0, 0] += other == "images"
    masks[0, 0, 0] ^= other == "masks"
    seen = predictions(monkeypatch)
    sitta.calibrate(net, images, masks, journal=Journal(path), **settings)
    assert len(seen) == 6


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[1]\n[2]\n", b'{"calibration": 1}\n'])
def test_a_file_of_anything_else_is_begun_anew(content, net, scenes, tmp_path):
    path = tmp_path / "part"
    path.write_bytes(content)
    made = sitta.calibrate(net, *scenes, journal=Journal(path))
    assert made.images == 6
    assert len(path.read_text().splitlines()) == 7


def test_it_holds_no_name_and_no_picture(net, scenes, tmp_path):
    path = tmp_path / "part"
    names = [f"Jane Doe {n}" for n in range(6)]
    sitta.calibrate(net, *scenes, subjects=names, journal=Journal(path))
    assert "Jane" not in path.read_text()
    assert path.stat().st_size < 6 * 3 * 1000  # scores only


def test_numbers_come_back_bit_for_bit(tmp_path):
    looks = [
        {
            "kinds": ("gamma", "blur"),
            "evidence": [{"a": 0.1, "b": float("nan")}],
            "dice": np.array([1 / 3], np.float32),
            "members": np.array([[np.nan, 2 / 3]]),
        }
    ]
    first = Journal(tmp_path / "part")
    first.open("key")
    first.add(3, looks)
    again = Journal(tmp_path / "part")
    again.open("key")
    (look,) = again.looks(3)
    assert (look["kinds"], again.looks(0)) == (["gamma", "blur"], None)
    for name in ("dice", "members"):
        assert look[name].dtype == looks[0][name].dtype
        np.testing.assert_array_equal(look[name], looks[0][name])


def test_a_command_that_is_killed_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PER_IMAGE", (12, 12))  # as the process has it
    phantom.write(tmp_path, "alder", 8, (64, 64))
    images, part = tmp_path / "phantom/alder/images", tmp_path / "a.calibration.partial"
    words = (
        "calibrate",
        "phantom-alder",
        "--images",
        images,
        "--threads",
        "1",
        "--size",
        "32x32",
        "-o",
    )
    process = start(*words, tmp_path / "a.toml")
    while process.is_alive() and not (part.exists() and part.read_bytes().count(b"\n") > 3):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not (tmp_path / "a.toml").exists()
    seen = predictions(monkeypatch)
    done = sitta_command(*words, tmp_path / "a.toml")
    assert done.returncode == 0, done.stderr
    assert 0 < len(seen) < 6
    assert not part.exists()
    assert sitta_command(*words, tmp_path / "b.toml").returncode == 0
    kept = [(tmp_path / f"{name}.calibration.json").read_text() for name in "ab"]
    assert kept[0] == kept[1]
