"""Files of equal size in one pass come to what each of them comes to alone."""

import csv
import shutil

import numpy as np
import pytest
from PIL import Image as Pillow

import sitta
from sitta.data import phantom
from sitta.errors import InvalidImage
from sitta.inference import Request, predict
from sitta.inference.inputs import find_inputs
from sitta.inference.worker import Worker, attempts


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Seven of one size; after the third, one of another size; a broken one; and a volume."""
    root = tmp_path_factory.mktemp("batches")
    phantom.write(root, "rowan", 7, (32, 40))
    phantom.write(root, "fir", 1, (48, 32))
    phantom.write(root, "elm", 1, (8, 32, 40))
    folder = root / "in"
    shutil.copytree(root / "phantom" / "rowan" / "images", folder)
    shutil.copy(root / "phantom" / "fir" / "images" / "scene-0000.png", folder / "scene-0002a.png")
    shutil.copy(root / "phantom" / "elm" / "images" / "scene-0000.nii.gz", folder / "volume.nii.gz")
    (folder / "scene-0004a.png").write_bytes(b"no image")
    return folder


def plan(**more):
    return Request("phantom-alder", "intent", preprocess={"size": None, "fit": "none"}, **more)


@pytest.fixture(scope="module")
def alone(images, tmp_path_factory):
    out = tmp_path_factory.mktemp("alone")
    assert predict(plan(), [images], out).counts == {"done": 9, "skipped": 0, "failed": 1}
    return out


def table(out):
    return list(csv.DictReader((out / "summary.csv").read_text().splitlines()))


def same(out, expected):
    masks = {p.name: p.read_bytes() for p in (expected / "masks").iterdir() if p.suffix == ".png"}
    assert {p.name: p.read_bytes() for p in (out / "masks").glob("*.png")} == masks
    for ours, theirs in zip(table(out), table(expected), strict=True):
        for name in ours.keys() - {"seconds"}:
            try:
                assert float(ours[name]) == pytest.approx(float(theirs[name]), rel=1e-4, abs=1e-5)
            except ValueError:
                assert ours[name] == theirs[name]


def watched(monkeypatch, fail=lambda images: False):
    """Shapes that the model was given."""
    seen, adapter = [], Worker.__init__

    def build(self, *given, **more):
        adapter(self, *given, **more)
        adapt = self.adapt

        def counted(values):
            seen.append(values.shape)
            if fail(values):
                raise InvalidImage("Too much for this model.")
            return adapt(values)

        self.adapt = counted

    monkeypatch.setattr(Worker, "__init__", build)
    return seen


def test_neighbours_of_equal_size_share_a_pass(images, alone, tmp_path, monkeypatch):
    seen, told = watched(monkeypatch), []
    run = predict(plan(batch=4), [images], tmp_path, watch=lambda done, total: told.append(done))
    assert run.counts == {"done": 9, "skipped": 0, "failed": 1}
    assert [f["name"] for f in run.failures] == ["scene-0004a.png"]
    assert [shape[0] for shape in seen] == [3, 1, 4, 8]  # the last one: slices of the volume
    assert told == list(range(11))
    same(tmp_path, alone)
    seconds = [float(row["seconds"]) for row in table(tmp_path) if not row["slice"]]
    assert 0 < sum(seconds) < run.seconds + 0.01  # shares of passes, not passes


def test_what_is_done_is_skipped_and_the_rest_goes_on_in_groups(
    images, alone, tmp_path, monkeypatch
):
    predict(plan(batch=4), [images / "scene-0001.png", images / "scene-0005.png"], tmp_path)
    seen = watched(monkeypatch)
    run = predict(plan(batch=3), [images], tmp_path)
    assert run.counts == {"done": 7, "skipped": 2, "failed": 1}
    assert [shape[0] for shape in seen] == [2, 1, 3, 8]
    same(tmp_path, alone)


def test_an_image_that_spoils_the_pass_is_the_only_one_lost(images, alone, tmp_path, monkeypatch):
    path = images / "scene-0005.png"
    values = np.asarray(Pillow.open(path), dtype=np.float32)
    values = (values - values.min()) / (values.max() - values.min())

    def fail(given):
        fits = given.shape[2:] == values.shape
        return fits and any(np.allclose(one[0], values, atol=0.02) for one in given)

    seen = watched(monkeypatch, fail)
    run = predict(plan(batch=4), [images], tmp_path)
    assert run.counts == {"done": 8, "skipped": 0, "failed": 2}
    assert run.failures[1]["name"] == "scene-0005.png"
    assert "Too much" in run.failures[1]["error"]
    assert [shape[0] for shape in seen] == [3, 1, 4, 1, 1, 1, 1, 8]
    rows = {row["file"]: row for row in table(alone)}
    for row in table(tmp_path):
        assert float(row["area"]) == pytest.approx(float(rows[row["file"]]["area"]), abs=1e-5)


def test_no_more_files_are_open_than_go_together(images, tmp_path, monkeypatch):
    worker = Worker(plan(batch=2), tmp_path)
    taken = []

    def items():
        for item in find_inputs([images], tmp_path):
            taken.append(item)
            yield item

    results = attempts(worker, items())
    next(results)
    assert len(taken) == 2


def test_a_batch_of_none_is_refused():
    with pytest.raises(sitta.InvalidSetting, match="batch is out of range"):
        plan(batch=0)
