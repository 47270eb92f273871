"""Let the n-th open, write, sync, rename or new folder fail, for n = 1, 2, 3, ... to the last.

After each fault nothing is half written, what has its final name is whole, and the same command
gives what it gives on a disk that never fails. This is how SQLite tests its files.
"""

import errno
import itertools
from contextlib import suppress
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from safetensors.numpy import load_file

from sitta.bench.plan.cells import expand
from sitta.bench.plan.load import read_plan
from sitta.bench.run.jobs import attempt
from sitta.bench.run.results import Results
from sitta.bench.stats import rows
from sitta.calibration import calibrate
from sitta.data import phantom
from sitta.data.domains import find_domain
from sitta.data.preprocess import Preprocess
from sitta.errors import SittaError
from sitta.inference import Request, predict
from sitta.models.unet import PRESETS
from sitta.training import Job, Recipe, train
from tests.bench import tiny
from tests.faults import drafts, failing

PLAN = """\
data = "data"
repeats = 1
images_per_target = 1
train = { steps = 1, batch = 2 }
tasks.phantom = { domains = ["alder", "birch"], size = [16, 16] }
members = { lambdas = [1.0, 0.0], strategies = ["ent-baln"] }
"""


@pytest.fixture
def small(monkeypatch):
    """Networks of a few channels and curves without ink: it is files that are tested."""
    monkeypatch.setattr(calibrate, "PER_IMAGE", (1, 1))
    monkeypatch.setattr(Figure, "savefig", lambda _, path, **how: Path(path).write_bytes(b"curve"))
    monkeypatch.setitem(PRESETS, "compact", {"channels": 4, "multipliers": (1, 2), "blocks": 1})


def sweep(folder, act, content, code, stride=1):
    """Fail once at each step; returns how many steps an undisturbed run takes."""
    act(folder / "whole")
    expected = content(folder / "whole")
    assert expected
    for number in itertools.count(1, stride):
        out = folder / str(number)
        with failing(out, number, code) as disk, suppress(OSError, SittaError):
            act(out)
        if not disk.failed:
            assert content(out) == expected
            return len(disk.steps)
        assert drafts(out) == []
        assert content(out).items() <= expected.items()
        act(out)
        assert content(out) == expected
    raise AssertionError


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_predict(tmp_path, code):
    phantom.write(tmp_path, "cedar", 2, (16, 16))
    images = tmp_path / "phantom" / "cedar" / "images"
    request = Request("phantom-alder", "source", preprocess={"size": (16, 16)})

    def masks(out):
        return {path.name: path.read_bytes() for path in out.glob("masks/*")}

    steps = sweep(tmp_path / "out", lambda out: predict(request, [images], out), masks, code)
    assert steps > 20


def weights(path):
    """Bytes of each tensor of a checkpoint, which also holds how long its training took."""
    return {name: tensor.tobytes() for name, tensor in load_file(path).items()}


def test_a_step_of_training(tmp_path, small):
    phantom.write(tmp_path, "alder", 4, (16, 16))
    recipe = Recipe.named("fast", steps=1, batch=2)
    job = Job(find_domain(tmp_path, "phantom", "alder"), recipe, Preprocess(size=(16, 16)))

    def act(out):
        train(job, out, resume=out.exists(), save_every=0)

    def content(out):
        return {k: v for path in out.glob("*.safetensors") for k, v in weights(path).items()}

    assert sweep(tmp_path / "out", act, content, errno.ENOSPC) > 10


def test_a_cell_of_a_benchmark(tmp_path, small):
    plan = read_plan(tiny.make(tmp_path, PLAN, images=3))
    jobs = expand(plan)
    trained = Results(tmp_path / "models")
    trained.open(plan, jobs)
    training = next(job for job in jobs if job.kind == "train")
    cells = next(job for job in jobs if job.kind != "train")
    assert attempt(plan, trained, training)
    model = trained.checkpoint(cells.model)

    def act(out):
        results = Results(out)
        results.open(plan, jobs)
        results.checkpoint(cells.model).parent.mkdir(parents=True, exist_ok=True)
        results.checkpoint(cells.model).write_bytes(model.read_bytes())
        results.forgive()
        attempt(plan, results, cells)

    def content(out):
        tables = {path: rows.read(path) for path in out.glob("cells/**/*.csv")}
        return {
            str(p.relative_to(out)): t.drop(columns="seconds").to_csv() for p, t in tables.items()
        }

    assert sweep(tmp_path / "out", act, content, errno.ENOSPC) > 5
