"""A full disk ends a run at once, in one sentence; what is done stays, and the run resumes."""

import errno
import pickle
import re
from contextlib import suppress

import pytest

from sitta.data import phantom
from sitta.errors import DiskFull
from sitta.inference import Request, predict
from tests.faults import drafts, failing
from tests.shell import sitta_command

REQUEST = Request("phantom-alder", "source", preprocess={"size": (16, 16)})


@pytest.fixture
def images(tmp_path):
    phantom.write(tmp_path, "cedar", 3, (16, 16))
    return tmp_path / "phantom" / "cedar" / "images"


def masks(out):
    return {path.name: path.read_bytes() for path in sorted((out / "masks").iterdir())}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_it_stops_at_the_first_and_resumes(images, tmp_path, code):
    whole, out = tmp_path / "whole", tmp_path / "out"
    with failing(whole) as disk:
        predict(REQUEST, [images], whole)
    renames = [number for number, what in enumerate(disk.steps) if what == "rename"]
    second = renames[4]  # of a claim, a mask and a record each: the second mask is being synced
    with failing(out, second, code, lasting=True) as disk, pytest.raises(DiskFull) as ended:
        predict(REQUEST, [images], out)
    assert len(disk.steps) == second  # nothing is tried after it
    said = str(ended.value)
    assert str(out) in said
    assert re.search(r"needs (up to|more than) [\d,]+ bytes, [\d,]+ are free", said)
    assert "1 of 3 files are done, and the same command does the others" in said
    assert not drafts(out)
    run = predict(REQUEST, [images], out)
    assert run.counts == {"done": 2, "skipped": 1, "failed": 0}
    assert masks(out) == masks(whole)


def test_the_command_says_so_in_one_sentence(images, tmp_path):
    with failing(tmp_path / "out", 5, lasting=True):
        done = sitta_command("predict", "phantom-alder", images, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert done.stderr.startswith("sitta: No space left on device: ")
    assert done.stderr.count("\n") == 1
    assert "the same command" in done.stderr


def test_the_error_travels_between_processes():
    error = DiskFull("Full.", fix="make room")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301  (ours)


def test_other_faults_of_the_disk_end_one_file_only(images, tmp_path):
    with failing(tmp_path / "out", 8, errno.EIO), suppress(OSError):
        run = predict(REQUEST, [images], tmp_path / "out")
    assert run.counts == {"done": 2, "skipped": 0, "failed": 1}
    assert "Input/output error" in run.failures[0]["error"]
