"""A run: its figures equal the API's, it goes on past what is broken and after what is done."""

import csv
import json
import signal

import nibabel as nib
import numpy as np
import pytest
import torch
from PIL import Image as Pillow

import sitta
from sitta.calibration.calibrate import fingerprint
from sitta.data import phantom
from sitta.data.images import read, read_mask
from sitta.data.preprocess import TASKS
from sitta.errors import InvalidSetting
from sitta.inference import Request, load_model, predict
from sitta.inference import worker as worker_module
from tests.data.files import series, stack
from tests.data.fuzz_tables import CALIBRATION
from tests.inference import bad

SMALL = {"size": (32, 32)}


@pytest.fixture
def images(tmp_path):
    phantom.write(tmp_path, "cedar", 3, (40, 48))
    return tmp_path / "phantom" / "cedar" / "images"


def table(out):
    return list(csv.DictReader((out / "summary.csv").read_text().splitlines()))


def plan(**more):
    return Request("phantom-alder", **{"method": "intent", "preprocess": SMALL, **more})


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("intent", {}),
        ("adapt", {"budget": "full"}),
        ("intent", {"strategy": "vote", "step": 0.5}),
        ("source", {}),
        ("tent", {}),
    ],
)
def test_figures_and_masks_equal_those_of_the_api(images, tmp_path, method, settings):
    run = predict(plan(method=method, settings=settings), [images], tmp_path / "out")
    assert run.counts == {"done": 3, "skipped": 0, "failed": 0}
    loaded = load_model("phantom-alder", changes=SMALL)
    adapt = sitta.method(method, loaded.model, **settings)
    for row, path in zip(table(tmp_path / "out"), sorted(images.iterdir()), strict=True):
        ready = loaded.preprocess.apply(read(path))
        p = adapt(ready.values[0])
        assert row["file"] == path.name
        for name in ("agreement", "area"):
            assert float(row[name]) == float(getattr(p, name))
        for name in ("uncertainty", "disagreement"):
            mean = float(getattr(p, name).double().mean())
            assert float(row[name]) == pytest.approx(mean, rel=1e-9)
        assert row["change"] == ("" if p.change is None else str(float(p.change)))
        assert row["distance"] == ("" if method == "source" else str(float(p.distance)))
        assert row["notes"] == " ".join(p.notes)
        for k, name in enumerate(p.record.names):
            assert float(row[f"weight@{name}"]) == float(p.weights[k])
            assert float(row[f"entropy@{name}"]) == float(p.entropies[k])
            assert float(row[f"area@{name}"]) == float(p.areas[k])
        native = ready.inverse.restore(p.probability[None])[0] > 0.5
        found = np.asarray(Pillow.open(tmp_path / "out" / "masks" / path.name))
        assert np.array_equal(found, 255 * native.astype(np.uint8))


def test_maps_are_saved_in_the_geometry_of_the_image(images, tmp_path):
    save = ("probability", "uncertainty", "members")
    predict(plan(method="intent", save=save, settings={"step": 0.5}), [images], tmp_path / "out")
    names = {p.relative_to(tmp_path / "out").parts[0] for p in (tmp_path / "out").glob("*/*.png")}
    members = {"member-1.00", "member-0.50", "member-0.00"}
    assert names == {"masks", "probability", "uncertainty"} | members
    found = read(tmp_path / "out" / "probability" / "scene-0001.png")
    assert found.pixels.shape == (1, 40, 48)
    mask = read_mask(tmp_path / "out" / "masks" / "scene-0001.png")
    assert np.array_equal(found.pixels[0] > 32768, mask > 0)


def test_what_is_done_is_not_done_again_unless_something_changed(images, tmp_path, monkeypatch):
    out = tmp_path / "out"
    predict(plan(), [images], out)
    first = (out / "summary.csv").read_text()

    def counts(wanted, **more):
        return predict(wanted, [images], out, **more).counts

    assert counts(plan()) == {"done": 0, "skipped": 3, "failed": 0}
    assert (out / "summary.csv").read_text() == first
    assert counts(plan(method="intent", settings={"step": 0.5}))["done"] == 3
    assert counts(plan(method="intent", settings={"step": 0.5}))["skipped"] == 3
    assert counts(plan(method="intent", settings={"step": 0.5}), overwrite=True)["done"] == 3
    image, _ = phantom.draw("rowan", size=(40, 48))
    values = (image[0].numpy() * 255).astype(np.uint8)
    Pillow.fromarray(values).save(images / "scene-0001.png")
    assert counts(plan(method="intent", settings={"step": 0.5})) == {
        "done": 1,
        "skipped": 2,
        "failed": 0,
    }
    (out / "masks" / "scene-0002.png").unlink()
    assert counts(plan(method="intent", settings={"step": 0.5}))["done"] == 1


def test_a_calibration_that_is_made_again_under_its_name_changes_what_is_done(images, tmp_path):
    (tmp_path / "net.toml").write_text(
        'profile = 1\ncalibration = "net.calibration.json"\n[model]\ncheckpoint = "phantom-alder"\n'
    )
    file = tmp_path / "net.calibration.json"
    known = {**CALIBRATION, "weights": fingerprint(sitta.load("phantom-alder"))}
    file.write_text(json.dumps(known))
    asked = Request(str(tmp_path / "net.toml"), preprocess=SMALL)
    assert predict(asked, [images], tmp_path / "out").skipped == 0
    assert predict(asked, [images], tmp_path / "out").skipped == 3
    file.write_text(json.dumps({**known, "limit": 0.6}))
    assert predict(asked, [images], tmp_path / "out").skipped == 0


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"key": 1}', b"\xff", b"[" * 100_000])
def test_a_damaged_record_of_a_file_does_not_count(images, tmp_path, content):
    whole = predict(plan(), [images], tmp_path / "out").records
    record = min((tmp_path / "out" / ".sitta").glob("*.json"))
    record.write_bytes(content)
    with pytest.raises(InvalidSetting, match="holds results of other inputs"):
        predict(plan(), [images], tmp_path / "out")  # nobody can say whose mask it is
    run = predict(plan(), [images], tmp_path / "out", overwrite=True)
    assert run.counts == {"done": 3, "skipped": 0, "failed": 0}
    assert [r["output"] for r in run.records] == [r["output"] for r in whole]


def test_twenty_kinds_of_bad_input_give_twenty_clear_sentences(tmp_path):
    folder = bad.fill(tmp_path / "in")
    phantom.write(tmp_path, "elm", 1, (40, 40))
    good = tmp_path / "phantom" / "elm" / "images"
    run = predict(plan(), [folder, good], tmp_path / "out")
    assert [r["name"] for r in run.records] == ["phantom/elm/images/scene-0000.png"]
    assert run.counts == {"done": 1, "skipped": 0, "failed": len(bad.REASONS)}
    assert len(bad.REASONS) >= 20
    said = {f["name"].removeprefix("in/"): f["error"] for f in run.failures}
    assert said.keys() == bad.REASONS.keys()
    for name, reason in bad.REASONS.items():
        assert reason in said[name], (name, said[name])
        assert "Traceback" not in said[name]
    assert len(set(said.values())) == len(said)
    kept = json.loads((tmp_path / "out" / "run.json").read_text())
    assert kept["failures"] == run.failures
    assert "Doe" not in (tmp_path / "out" / "run.json").read_text()


def test_a_series_of_16_bits_gives_a_mask_that_overlays(tmp_path):
    from monai.data import PydicomReader

    image, _ = phantom.draw("alder", size=(8, 48, 40))
    values = (image[0].numpy() * 4000).astype(np.int16)  # (D, H, W)
    folder = series(tmp_path / "scan", stack(values, step=(0.3, 0, 2.5)))
    run = predict(Request("phantom-alder", "intent"), [folder], tmp_path / "out")
    assert [r["slice"] for r in run.records[0]["rows"]] == list(range(8))
    mask = nib.load(tmp_path / "out" / "masks" / "scan.nii.gz")
    assert np.asarray(mask.dataobj).any()
    reader = PydicomReader()  # an independent reading of the same series
    theirs, meta = reader.get_data(reader.read(str(folder)))
    to_ras = np.eye(4) if meta["space"] == "RAS" else np.diag([-1.0, -1.0, 1.0, 1.0])
    ours = np.stack(np.meshgrid(*map(np.arange, mask.shape), indexing="ij")).reshape(3, -1)
    world = mask.affine[:3, :3] @ ours + mask.affine[:3, 3:]
    inverse = np.linalg.inv(to_ras @ np.asarray(meta["affine"]))
    there = inverse[:3, :3] @ world + inverse[:3, 3:]
    np.testing.assert_allclose(there, np.round(there), atol=1e-3)
    at = tuple(np.round(there).astype(int))
    assert np.array_equal(theirs[at], values[ours[2], ours[1], ours[0]])


class Labels(torch.nn.Module):
    """Three labels, each on its own."""

    def __init__(self):
        super().__init__()
        self.net = sitta.models.UNet(1, 3, channels=4, multipliers=(1, 2))

    def forward(self, x):
        return self.net(x)


def test_several_labels_go_to_a_file_each(images, tmp_path, monkeypatch):
    loaded = load_model("phantom-alder", changes=SMALL)
    torch.manual_seed(0)
    labelled = type(loaded)("x", Labels().eval(), loaded.preprocess, ("a", "b", "c"), "0")
    monkeypatch.setattr(worker_module, "load_model", lambda *_: labelled)
    three = Request("x", "intent", settings={"activation": "sigmoid"})
    assert predict(three, [images], tmp_path / "out").counts["failed"] == 0
    names = sorted(p.name for p in (tmp_path / "out" / "masks").iterdir())
    assert names[:3] == ["scene-0000-1.png", "scene-0000-2.png", "scene-0000-3.png"]
    assert predict(three, [images], tmp_path / "out").counts["skipped"] == 3


def test_classes_without_names_keep_their_numbers(images, tmp_path, monkeypatch):
    loaded = load_model("phantom-alder", changes=SMALL)
    model = Labels().eval()
    model.net.head[-1].bias.data[1] = 5.0  # the first class everywhere
    nameless = type(loaded)("x", model, loaded.preprocess, ("foreground",), "0")
    monkeypatch.setattr(worker_module, "load_model", lambda *_: nameless)
    assert predict(Request("x", "intent"), [images], tmp_path / "out").counts["failed"] == 0
    mask = np.asarray(Pillow.open(tmp_path / "out" / "masks" / "scene-0000.png"))
    assert set(np.unique(mask)) == {1}  # and not 255, which would mean two classes


def test_a_model_of_volumes_whole_and_by_windows(tmp_path, monkeypatch):
    phantom.write(tmp_path, "fir", 1, (16, 24, 24))
    volumes = tmp_path / "phantom" / "fir" / "images"
    torch.manual_seed(0)
    net = sitta.models.UNet(dims=3, channels=4, multipliers=(1, 2)).eval()
    path = tmp_path / "net.safetensors"
    keep = {"size": None, "fit": "none", "dims": 3}
    sitta.models.save(net, path, {"preprocess": {**TASKS["chest"].as_dict(), **keep}})
    for name, more in {"whole": {}, "parts": {"window": (16, 16, 16)}}.items():
        run = predict(Request(str(path), "intent", **more), [volumes], tmp_path / name)
        assert run.counts["done"] == 1, run.failures
        assert run.records[0]["slices"] == 1
        mask = nib.load(tmp_path / name / "masks" / "scene-0000.nii.gz")
        image = nib.load(volumes / "scene-0000.nii.gz")
        assert mask.shape == image.shape
        assert np.array_equal(mask.affine, image.affine)


def test_a_wrong_plan_is_refused_before_anything_is_read(images, tmp_path):
    with pytest.raises(sitta.InvalidSetting, match=r"no map masks.*probability"):
        plan(save=("masks",))
    with pytest.raises(sitta.InvalidSetting, match="no setting 'speed'"):
        predict(plan(settings={"speed": 3}), [images], tmp_path / "out")
    with pytest.raises(sitta.InvalidSetting, match="cannot go window by window"):
        predict(plan(method="tent", window=(16, 16)), [images], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_never_ends_is_a_failure_and_the_others_are_done(images, tmp_path, monkeypatch):
    real, stuck = worker_module.prepare_file, sorted(images.iterdir())[1]

    def prepare_file(file, *args, **more):
        while file.path == stuck:
            signal.raise_signal(signal.SIGALRM)  # its time is over
        return real(file, *args, **more)

    monkeypatch.setattr(worker_module, "prepare_file", prepare_file)
    run = predict(plan(file_timeout=1000), [images], tmp_path / "out")
    assert run.counts == {"done": 2, "skipped": 0, "failed": 1}
    (failure,) = run.failures
    assert failure["name"] == stuck.name
    assert "could not be read within 1000 seconds" in failure["error"]
    assert "--file-timeout" in failure["error"]
    monkeypatch.undo()
    again = predict(plan(file_timeout=0), [images], tmp_path / "out")
    assert again.counts == {"done": 1, "skipped": 2, "failed": 0}


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e300])
def test_a_time_that_no_timer_has_is_refused(seconds):
    with pytest.raises(sitta.InvalidSetting, match=r"file_timeout is out of range.*no limit"):
        plan(file_timeout=seconds)


@pytest.mark.parametrize("window", [(0, 64), (-5, 5)])
def test_a_window_without_pixels_is_refused(window):
    with pytest.raises(sitta.InvalidSetting, match=r"window is out of range.*128x128"):
        plan(window=window)


def test_an_error_in_the_model_stops_the_run_at_the_first_file(images, tmp_path, monkeypatch):
    calls = []

    def broken(*_):
        calls.append(1)
        raise RuntimeError("a layer\n  gave up")

    monkeypatch.setattr(worker_module, "predict_prepared", broken)
    with pytest.raises(sitta.SittaError, match=r"on scene-0000.png \(RuntimeError: a layer gave"):
        predict(plan(), [images], tmp_path / "out")
    assert len(calls) == 1


def test_an_error_in_a_model_that_has_worked_is_a_failure_and_not_the_end(
    images, tmp_path, monkeypatch
):
    real, calls = worker_module.predict_prepared, []

    def broken(*given):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("a layer\n  gave up")
        return real(*given)

    monkeypatch.setattr(worker_module, "predict_prepared", broken)
    run = predict(plan(), [images], tmp_path / "out")
    assert run.counts == {"done": 2, "skipped": 0, "failed": 1}
    assert run.failures[0]["error"].endswith("scene-0001.png: RuntimeError: a layer gave up")


def fewer_slices(path, folder, count=5):
    """The first slices of a volume, with the header of all of it."""
    import nibabel as nib

    nib.save(nib.load(path).slicer[:, :, :count], folder / path.name)
    return folder / path.name


@pytest.mark.parametrize("task", ["chest", "retina", "spinal"])
def test_real_images_of_all_tasks_go_through(real_data, tmp_path, task):
    domain = sorted((real_data / task).iterdir())[0]
    chosen = sorted((domain / "images").iterdir())[:2]
    if task == "spinal":
        chosen = [fewer_slices(chosen[0], tmp_path)]
    changes = {**TASKS[task].as_dict(), "channels": 1}
    run = predict(Request("phantom-alder", "intent", preprocess=changes), chosen, tmp_path / "out")
    assert run.counts == {"done": len(chosen), "skipped": 0, "failed": 0}
    loaded = load_model("phantom-alder", changes=changes)
    ready = loaded.preprocess.apply(read(chosen[0]))
    p = sitta.InTEnt(loaded.model)(ready.values)
    rows = table(tmp_path / "out")[: len(p)]
    assert [float(r["agreement"]) for r in rows] == p.agreement.tolist()
    for path in chosen:
        mask = read_mask(tmp_path / "out" / "masks" / path.name, like=read(path))
        assert mask.shape == read(path).geometry.shape
