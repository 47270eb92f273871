"""Little memory, few descriptors, a clock that goes back, two runs in one folder: no loss."""

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from sitta.data import phantom
from sitta.inference import Request, predict

MODEL = "phantom-alder"


@pytest.fixture
def images(tmp_path):
    phantom.write(tmp_path, "cedar", 4, (32, 32))
    return tmp_path / "phantom" / "cedar" / "images"


def started(*words, **limits):
    """The command in a new process that may have this much of some resources."""

    def limit():
        for name, most in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))

    command = [sys.executable, "-m", "sitta", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, preexec_fn=limit, **pipes)


def ended(process):
    """Exit code and what was said of errors."""
    said = process.communicate(timeout=200)[1]
    assert "Traceback" not in said
    return process.returncode, said


def masks(out):
    return {path.name: path.read_bytes() for path in Path(out).glob("masks/*")}


def expected(images, tmp_path):
    predict(Request(MODEL), [images], tmp_path / "expected")
    return masks(tmp_path / "expected")


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is Linux's")
def test_without_memory_a_command_ends_in_a_sentence(images, tmp_path):
    code, said = ended(started("predict", MODEL, images, "-o", tmp_path / "out", AS=400 * 2**20))
    assert code == 2
    assert said.startswith("sitta: There is not enough memory to run this command.")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is Linux's")
def test_an_image_that_memory_does_not_suffice_for_fails_alone(images, tmp_path):
    Image.new("L", (6000, 6000), 7).save(images / "large.png")
    words = ["predict", MODEL, images, "-o", tmp_path / "out", "--threads", 1]
    process = started(*words, AS=1100 * 2**20)
    out = process.communicate(timeout=200)
    assert process.returncode == 1, out
    assert "not enough memory for" in " ".join("".join(out).split())
    assert sorted(masks(tmp_path / "out")) == [f"scene-{n:04d}.png" for n in range(4)]


def test_few_descriptors_are_enough(images, tmp_path):
    for number in range(80):
        (images / f"again-{number}.png").symlink_to(images / "scene-0000.png")
    words = ["predict", MODEL, images, "-o", tmp_path / "out", "--method", "source"]
    code, said = ended(started(*words, "--size", "32x32", NOFILE=64))
    assert (code, len(masks(tmp_path / "out"))) == (0, 84), said


def test_two_runs_in_one_folder_come_to_the_same_as_one(images, tmp_path):
    out = tmp_path / "out"
    both = [started("predict", MODEL, images, "-o", out, "--threads", 1) for _ in range(2)]
    assert [ended(process)[0] for process in both] == [0, 0]
    assert masks(out) == expected(images, tmp_path)
    assert not list(out.rglob(".draft-*"))
    assert (out / "summary.csv").read_text().count("\n") == 1 + 4
    assert predict(Request(MODEL), [images], out).skipped == 4


def test_a_record_that_another_process_has_just_written_stays(images, tmp_path, monkeypatch):
    from sitta.inference import outputs

    predict(Request(MODEL), [images], tmp_path / "out")
    kept = []
    write = outputs.write_mask

    def watching(*args):
        kept.append(len(list((tmp_path / "out" / ".sitta").glob("*.json"))))
        write(*args)

    monkeypatch.setattr(outputs, "write_mask", watching)
    predict(Request(MODEL), [images], tmp_path / "out", overwrite=True)
    assert kept == [4] * 4


def test_a_clock_that_goes_back_changes_nothing(images, tmp_path, monkeypatch):
    before = expected(images, tmp_path)
    out, real = tmp_path / "out", time.time
    monkeypatch.setattr(time, "time", lambda: real() + 1e7)
    predict(Request(MODEL), [images / "scene-0000.png", images / "scene-0001.png"], out)
    hours = iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: real() - 3600.0 * next(hours))
    run = predict(Request(MODEL), [images], out)
    assert run.skipped == 2
    assert run.seconds >= 0
    assert masks(out) == before
