"""nnU-Net: at lambda 1 its own labels, statistics of the whole case, and the command line."""

import csv
import importlib
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import nibabel
import numpy as np
import pytest
import torch

import sitta
from sitta.adaptation.adapt import GRID
from sitta.errors import InvalidSetting, UnsupportedModel

pytest.importorskip("nnunetv2", reason="nnunetv2 is not installed: docs/how-to/nnunet.md")

from nnunetv2.inference.export_prediction import (
    convert_predicted_logits_to_segmentation_with_correct_shape as to_mask,
)

from sitta.inference import Request
from sitta.inference.outputs import record_path
from sitta.integrations.logits import to_logits
from sitta.integrations.nnunet import SittaPredictor, combined, nnUNetPredictor, quiet
from sitta.integrations.nnunet_run import predict_folder
from sitta.integrations.stand_ins import stand_in
from tests.integrations.nnunets import cases, folder
from tests.shell import sitta_command

pytestmark = pytest.mark.filterwarnings("ignore")  # of nnU-Net and its dependencies
FILE = "checkpoint_final.pth"
KINDS = {
    "3d": {"dims": 3},
    "3d, folds": {"dims": 3, "folds": (0, 1)},
    "3d, no mirroring": {"dims": 3, "mirror": ()},
    "3d, regions": {"dims": 3, "heads": "regions"},
    "3d, two channels": {"dims": 3, "channels": 2, "mirror": ()},
    "3d, instance norm": {"dims": 3, "norm": "instance"},
    "3d, instance norm, regions, folds": {
        "dims": 3,
        "norm": "instance",
        "heads": "regions",
        "folds": (0, 1),
    },
    "2d": {"dims": 2},
    "2d, folds": {"dims": 2, "folds": (0, 1, 2)},
    "2d, regions, folds": {"dims": 2, "heads": "regions", "folds": (0, 1)},
    "2d, instance norm, folds": {"dims": 2, "norm": "instance", "folds": (0, 1)},
}
MIXING = [kind for kind, how in KINDS.items() if how.get("norm") != "instance"]


def predictors(path, folds, **how):
    """nnU-Net's own predictor, and ours."""
    with quiet():
        own = nnUNetPredictor(device=torch.device("cpu"), allow_tqdm=False)
        made = own, SittaPredictor(**how)
        for predictor in made:
            predictor.initialize_from_trained_model_folder(str(path), folds, FILE)
    return made


def preprocessed(predictor, paths):
    p = predictor
    kit = p.configuration_manager.preprocessor_class(verbose=False)
    how = (p.plans_manager, p.configuration_manager, p.dataset_json)
    with quiet():
        data, _, properties = kit.run_case([str(path) for path in paths], None, *how)
    return torch.from_numpy(data), properties


def test_one_method_is_replaced_and_no_other():
    replaced = {name for name in vars(SittaPredictor) if hasattr(nnUNetPredictor, name)}
    of_any_class = set(vars(type("Plain", (), {})))
    made_by_python = {"__annotations__", "__annotate_func__", "__firstlineno__"}
    made_by_python |= {"__static_attributes__", "__init__"}
    only = {"predict_sliding_window_return_logits"}
    assert replaced - of_any_class - made_by_python == only


@pytest.mark.parametrize("kind", KINDS)
def test_the_method_source_is_nnunet_to_the_last_bit(kind, tmp_path):
    how = KINDS[kind]
    path = folder(tmp_path / "model", **how)
    scans = sorted(cases(tmp_path / "in", channels=how.get("channels", 1)).iterdir())
    own, ours = predictors(path, how.get("folds", (0,)), method="source")
    assert own.use_mirroring
    assert bool(own.allowed_mirroring_axes) == (how.get("mirror") != ())
    data, properties = preprocessed(own, scans)
    with quiet():
        logits = [p.predict_logits_from_preprocessed_data(data.clone()) for p in (ours, own)]
    assert torch.equal(*logits)
    kit = (own.plans_manager, own.configuration_manager, own.label_manager, properties)
    masks = [to_mask(each, *kit) for each in logits]
    assert len(np.unique(masks[0])) > 1
    np.testing.assert_array_equal(*masks)
    whole = combined(ours.predictions)
    expected = own.label_manager.apply_inference_nonlin(logits[0].float())
    torch.testing.assert_close(whole.probability[0], expected, rtol=0, atol=2e-3)  # half precision
    assert whole.trained == 0


@pytest.mark.parametrize("kind", MIXING)
def test_the_member_at_the_anchor_is_nnunet(kind, tmp_path, monkeypatch):
    how = KINDS[kind]
    path = folder(tmp_path / "model", **how)
    scans = sorted(cases(tmp_path / "in", channels=how.get("channels", 1)).iterdir())
    alone = {"method": "intent", "settings": {"lambdas": (1.0,)}}
    own, ours = predictors(path, how.get("folds", (0,)), **alone)
    data, properties = preprocessed(own, scans)
    with quiet(), monkeypatch.context() as patch:
        # nnU-Net adds up in half precision, in which logits become whole numbers in the corners
        # of a window; here in single precision, with the same weights.
        patch.setattr(torch, "half", torch.float32)
        expected = own.predict_logits_from_preprocessed_data(data)
    with quiet():
        seen = ours.predict_logits_from_preprocessed_data(data.clone())
    nonlinear = own.label_manager.apply_inference_nonlin
    torch.testing.assert_close(nonlinear(seen), nonlinear(expected), rtol=0, atol=1e-5)
    kit = (own.plans_manager, own.configuration_manager, own.label_manager, properties)
    masks = [to_mask(logits, *kit) for logits in (seen, expected)]
    assert len(np.unique(masks[0])) > 1
    np.testing.assert_array_equal(*masks)


def test_files_are_those_that_nnunet_writes(tmp_path):
    path = folder(tmp_path / "model", folds=(0, 1), mirror=())
    source = cases(tmp_path / "in")
    (scan,) = source.iterdir()
    own, _ = predictors(path, (0, 1))
    (tmp_path / "theirs").mkdir()
    with quiet():
        own.predict_from_files_sequential([[str(scan)]], [str(tmp_path / "theirs" / "scan0")])
    request = Request(f"nnunet:{path}", "source")
    done = predict_folder(request, [source], tmp_path / "out", trust_checkpoint=True)
    assert done.counts == {"done": 1, "skipped": 0, "failed": 0}, done.failures
    ours, theirs = (nibabel.load(tmp_path / f / "scan0.nii.gz") for f in ("out/masks", "theirs"))
    np.testing.assert_array_equal(ours.affine, theirs.affine)
    assert ours.get_data_dtype() == theirs.get_data_dtype()
    np.testing.assert_array_equal(np.asarray(ours.dataobj), np.asarray(theirs.dataobj))


def slow_members(own, net, data, lambdas):
    """By hand: windows at lambda 0, statistics pooled for each view, then all at each lambda."""
    layers = [m for m in net.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    source = [(m.running_mean.clone(), m.running_var.clone()) for m in layers]
    slices = own._internal_get_sliding_window_slicers(data.shape[1:])
    axes = [(), (2,), (4,), (2, 4)]
    from nnunetv2.inference.sliding_window_prediction import compute_gaussian

    how = {"sigma_scale": 1 / 8, "value_scaling_factor": 10, "device": torch.device("cpu")}
    weight = compute_gaussian(tuple(own.configuration_manager.patch_size), **how)
    total = torch.zeros(len(lambdas), 3, *data.shape[1:], dtype=torch.float64)
    count = torch.zeros(data.shape[1:])
    for view in axes:
        windows = [data[cut][None].flip(view) if view else data[cut][None] for cut in slices]
        seen = [[] for _ in layers]
        hooks = [
            layer.register_forward_pre_hook(lambda m, args, kept=seen[at]: kept.append(args[0]))
            for at, layer in enumerate(layers)
        ]
        for layer in layers:
            layer.track_running_stats, keep = False, (layer.running_mean, layer.running_var)
            layer.running_mean = layer.running_var = None
            layer._kept = keep
        for window in windows:
            net(window)
        for hook in hooks:
            hook.remove()
        pooled = [torch.cat(per).double().transpose(0, 1).flatten(1) for per in seen]
        for layer in layers:
            layer.track_running_stats = True
            layer.running_mean, layer.running_var = layer._kept
            del layer._kept
        for k, lam in enumerate(lambdas):
            for layer, (mean, var), values in zip(layers, source, pooled, strict=True):
                layer.running_mean.copy_(lam * mean + (1 - lam) * values.mean(1))
                layer.running_var.copy_(lam * var + (1 - lam) * values.var(1, correction=0))
            for cut, window in zip(slices, windows, strict=True):
                logits = net(window)[0]
                logits = logits.flip([a - 1 for a in view]) if view else logits
                total[k][(slice(None), *cut[1:])] += logits * weight
        for cut in slices:
            count[cut[1:]] += weight
        for layer, (mean, var) in zip(layers, source, strict=True):
            layer.running_mean.copy_(mean)
            layer.running_var.copy_(var)
    return total / count


@torch.no_grad()
def test_members_are_those_mixed_by_hand(tmp_path):
    path = folder(tmp_path / "model", mirror=(0, 2))
    (scan,) = cases(tmp_path / "in", shape=(18, 20, 12)).iterdir()  # nothing is padded
    lambdas = (1.0, 0.4, 0.0)
    own, ours = predictors(path, (0,), settings={"lambdas": lambdas})
    data, _ = preprocessed(own, [scan])
    with quiet():
        seen = ours.predict_logits_from_preprocessed_data(data)
    raw = ours.predictions[0]
    expected = slow_members(own, own.network.eval(), data, lambdas).softmax(dim=1).float()
    torch.testing.assert_close(raw.members[:, 0], expected, rtol=0, atol=2e-4)
    # nnU-Net's softmax of what comes back is the integrated map.
    torch.testing.assert_close(seen.softmax(dim=0), raw.probability[0])
    assert float(raw.distance[0]) > 0


@pytest.mark.parametrize("statistics", ["volume", "window"])
@torch.no_grad()
def test_adapt_goes_over_a_case_as_it_does_elsewhere(statistics, tmp_path):
    path = folder(tmp_path / "model", mirror=())
    (scan,) = cases(tmp_path / "in", shape=(18, 20, 12)).iterdir()  # nothing is padded
    _, ours = predictors(path, (0,), method="adapt", statistics=statistics)
    data, _ = preprocessed(ours, [scan])
    with quiet():
        seen = ours.predict_logits_from_preprocessed_data(data)
    raw = ours.predictions[0]
    assert (len(raw.lambdas), raw.names[-1], raw.trained) == (7, "split", 0)
    torch.testing.assert_close(seen.softmax(dim=0), raw.probability[0])
    mixed = "captured" if statistics == "volume" else "in-layer"
    settings = {"lambdas": GRID[:6], "statistics": mixed}
    _, intent = predictors(path, (0,), settings=settings, statistics=statistics)
    with quiet():
        intent.predict_logits_from_preprocessed_data(data)
    torch.testing.assert_close(raw.members[:6], intent.predictions[0].members)
    window = data[:, :12, :16, :16].contiguous()  # a case of one window: all as without nnU-Net
    with quiet():
        ours.predict_logits_from_preprocessed_data(window)
    alone = sitta.Adapt(ours.network, budget="full")(window)
    if statistics == "window":
        torch.testing.assert_close(ours.predictions[0].members[:, 0], alone.members)
    else:
        assert not torch.allclose(raw.members[6], raw.members[5], atol=1e-3)


def test_the_model_of_each_fold_is_the_one_that_is_adapted(tmp_path):
    path = folder(tmp_path / "model", folds=(0, 1), mirror=())
    (scan,) = cases(tmp_path / "in").iterdir()
    _, both = predictors(path, (0, 1))
    data, _ = preprocessed(both, [scan])
    alone = []
    for fold in (0, 1):
        _, one = predictors(path, (fold,))
        one.predict_logits_from_preprocessed_data(data)
        alone.append(one.predictions[0])
    logits = both.predict_logits_from_preprocessed_data(data)
    for fold in (0, 1):
        torch.testing.assert_close(both.predictions[fold].members, alone[fold].members)
    whole = combined(both.predictions)
    torch.testing.assert_close(whole.probability[0], logits.softmax(dim=0))
    expected = torch.stack([to_logits(raw.probability, "softmax") for raw in alone]).mean(0)
    torch.testing.assert_close(whole.probability, expected.softmax(dim=1))
    both.predict_logits_from_preprocessed_data(data)
    assert len(both.predictions) == 2  # of the last case alone


def test_statistics_of_each_window_differ_from_those_of_the_case(tmp_path):
    path = folder(tmp_path / "model", mirror=())
    (scan,) = cases(tmp_path / "in").iterdir()
    maps = []
    for statistics in ("volume", "window"):
        _, ours = predictors(path, (0,), statistics=statistics)
        data, _ = preprocessed(ours, [scan])
        maps.append(ours.predict_logits_from_preprocessed_data(data))
    assert not torch.allclose(*maps, atol=1e-3)


def test_a_run_has_scores_a_report_and_goes_on_where_it_was(tmp_path):
    path = folder(tmp_path / "model", mirror=())
    source = cases(tmp_path / "in", count=2)
    request, out = Request(f"nnunet:{path}"), tmp_path / "out"

    def stop(done, total):
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predict_folder(request, [source], out, trust_checkpoint=True, watch=stop)
    assert not (out / "summary.csv").exists()
    done = predict_folder(request, [source], out, trust_checkpoint=True)
    assert done.counts == {"done": 1, "skipped": 1, "failed": 0}, done.failures
    rows = list(csv.DictReader((out / "summary.csv").read_text().splitlines()))
    assert [row["file"] for row in rows] == ["scan0.nii.gz", "scan1.nii.gz"]
    assert all(0 <= float(row["agreement"]) <= 1 and row["change"] for row in rows)
    assert (out / "report.html").stat().st_size > 10_000
    about = json.loads((out / "run.json").read_text())
    assert about["settings"]["folds"] == ["0"]
    assert "nnunetv2" in about["versions"]
    (out / "masks" / "scan1.nii.gz").unlink()
    again = predict_folder(request, [source], out, trust_checkpoint=True)
    assert again.counts == {"done": 1, "skipped": 1, "failed": 0}


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    path = folder(tmp_path / "model", mirror=())
    source, out = cases(tmp_path / "in", count=8), tmp_path / "out"
    line = ["predict", f"nnunet:{path}", str(source), "-o", str(out), "--trust-checkpoint"]
    process = subprocess.Popen([sys.executable, "-m", "sitta", *line], stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None and not record_path(out, "scan0.nii.gz").exists():
            time.sleep(0.02)
    finally:
        process.kill()
        ended = process.wait()
    assert ended == -signal.SIGKILL
    assert not (out / "summary.csv").exists()
    done = predict_folder(Request(f"nnunet:{path}"), [source], out, trust_checkpoint=True)
    assert done.counts["failed"] == 0
    assert 1 <= done.counts["skipped"] < 8 == done.counts["done"] + done.counts["skipped"]
    assert len(list((out / "masks").iterdir())) == 8


def test_instance_norm_runs_from_the_command_line_as_nnunet(tmp_path):
    path = folder(tmp_path / "model", norm="instance", mirror=())
    source = cases(tmp_path / "in")
    request = Request(f"nnunet:{path}", "source")
    done = predict_folder(request, [source], tmp_path / "out", trust_checkpoint=True)
    assert done.counts == {"done": 1, "skipped": 0, "failed": 0}, done.failures


def test_what_cannot_be_is_said_before_anything_is_predicted(tmp_path):
    path = folder(tmp_path / "model", mirror=())
    source = cases(tmp_path / "in")
    request, out = Request(f"nnunet:{path}"), tmp_path / "out"
    with pytest.raises(UnsupportedModel, match="--trust-checkpoint"):
        predict_folder(request, [source], out)
    trust = {"trust_checkpoint": True}
    with pytest.raises(InvalidSetting, match="no fold 3"):
        predict_folder(request, [source], out, folds=("3",), **trust)
    with pytest.raises(UnsupportedModel, match="no dataset"):
        predict_folder(Request(f"nnunet:{tmp_path}"), [source], out, **trust)
    with pytest.raises(InvalidSetting, match="--save"):
        predict_folder(Request(f"nnunet:{path}", save=("members",)), [source], out, **trust)
    with pytest.raises(InvalidSetting, match="window by window"):
        predict_folder(Request(f"nnunet:{path}", "tent"), [source], out, **trust)
    two = folder(tmp_path / "two", channels=2)
    with pytest.raises(InvalidSetting, match="scan0_0001"):
        predict_folder(Request(f"nnunet:{two}"), [source], out, **trust)
    none = folder(tmp_path / "instance", norm="instance")
    with pytest.raises(UnsupportedModel, match=r"InstanceNorm[\s\S]*--method source"):
        predict_folder(Request(f"nnunet:{none}"), [source], out, **trust)
    assert not (out / "masks").exists()


def test_a_trainer_that_is_not_the_usual_one_is_found_without_its_neighbours_packages(tmp_path):
    path = folder(tmp_path / "model", dims=2, mirror=())
    source = cases(tmp_path / "in", shape=(14, 15, 1))
    checkpoint = path / "fold_0" / FILE
    kept = torch.load(checkpoint, weights_only=False)
    request, trust = Request(f"nnunet:{path}", "source"), {"trust_checkpoint": True}
    torch.save({**kept, "trainer_name": "nnUNetTrainerNoMirroring"}, checkpoint)
    done = predict_folder(request, [source], tmp_path / "out", **trust)
    assert done.counts["done"] == 1
    torch.save({**kept, "trainer_name": "nnUNetTrainerOfMine"}, checkpoint)
    with pytest.raises(UnsupportedModel, match=r"cannot load[\s\S]*nnUNetTrainerOfMine"):
        predict_folder(request, [source], tmp_path / "other", **trust)


def test_a_stand_in_is_there_for_imports_alone():
    with stand_in("no_such_package"):
        from no_such_package.layers import Layer
    assert "no_such_package" not in sys.modules
    with pytest.raises(UnsupportedModel, match="pip install no_such_package"):
        Layer(3)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_package.layers")


def test_the_command_line(tmp_path):
    path = folder(tmp_path / "model", mirror=())
    source = cases(tmp_path / "in")
    line = ["predict", f"nnunet:{path}", str(source), "-o", str(tmp_path / "out")]
    refused = sitta_command(*line)
    assert refused.returncode == 2
    assert "--trust-checkpoint" in refused.stderr
    done = sitta_command(*line, "--folds", "0", "--trust-checkpoint", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"]["done"] == 1


@torch.no_grad()
def test_a_network_with_instance_norm_mixes_measured_statistics_window_by_window(
    tmp_path, monkeypatch
):
    path = folder(tmp_path / "model", norm="instance", mirror=())
    (scan,) = cases(tmp_path / "in").iterdir()
    own, plain = predictors(path, (0,), method="source")
    data, _ = preprocessed(own, [scan])
    statistics = plain.measure([data + 0.5 * torch.randn_like(data)])
    _, ours = predictors(path, (0,), settings={"source_statistics": statistics})
    ours.predict_logits_from_preprocessed_data(data)
    raw = ours.predictions[0]
    assert raw.lambdas.tolist() == [0.0, 0.2, 0.4]
    assert raw.trained == 0
    monkeypatch.setattr(torch, "half", torch.float32)
    expected = own.predict_logits_from_preprocessed_data(data).softmax(dim=0)
    torch.testing.assert_close(raw.members[0, 0], expected, rtol=0, atol=1e-5)
    assert not torch.allclose(raw.members[2, 0], expected, atol=1e-3)
    two = folder(tmp_path / "two", norm="instance", folds=(0, 1))
    _, folds = predictors(two, (0, 1), settings={"source_statistics": statistics})
    with pytest.raises(InvalidSetting, match="one fold"):
        folds.predict_logits_from_preprocessed_data(data)


@torch.no_grad()
def test_a_calibration_makes_adapt_of_a_network_with_instance_norm(tmp_path):
    path = folder(tmp_path / "model", dims=2, norm="instance", mirror=())
    scans = cases(tmp_path / "in", count=2, shape=(14, 15, 2))
    _, plain = predictors(path, (0,), method="source")
    each = [preprocessed(plain, [scan])[0] for scan in sorted(scans.iterdir())]
    made = plain.calibrate(each)
    measured = plain.measure(each)
    assert made.images == 4
    assert made.members
    assert made.statistics.keys() == measured.keys()
    assert all(c.prior is c.dice is None for c in made.classes)
    assert made.inputs is None
    for adapts in (True, False):
        classes = tuple(replace(c, adapts=adapts) for c in made.classes)
        held = {"calibration": replace(made, classes=classes)}
        _, ours = predictors(path, (0,), method="adapt", settings=held)
        with quiet():
            seen = ours.predict_logits_from_preprocessed_data(each[0])
            expected = plain.predict_logits_from_preprocessed_data(each[0])
        assert ours.predictions[0].lambdas.tolist() == [0.0, 0.2, 0.4]
        same = torch.equal(seen.argmax(dim=0), expected.argmax(dim=0))
        assert same or adapts
        assert ("left-as-trained" in ours.predictions[0].codes[0]) == (not adapts)
    two = folder(tmp_path / "two", dims=2, norm="instance", folds=(0, 1))
    _, folds = predictors(two, (0, 1), method="adapt", settings=held)
    with pytest.raises(InvalidSetting, match="calibration belongs to the weights of one fold"):
        folds.predict_logits_from_preprocessed_data(each[0])


def test_a_calibrated_network_with_instance_norm_adapts_from_the_command_line(tmp_path):
    path = folder(tmp_path / "model", dims=2, norm="instance", mirror=(), folds=(0, 1))
    home, held = cases(tmp_path / "home", shape=(14, 15, 4)), tmp_path / "fold.json"
    model, trust = f"nnunet:{path}", ("--trust-checkpoint", "--folds", "0")
    line = ["calibrate", model, "--images", str(home), "-o", str(held)]
    for wrong, words in [
        (line, "--trust-checkpoint"),
        ([*line, "--trust-checkpoint"], "--folds 0"),
        ([*line[:-1], str(tmp_path / "fold.toml"), *trust], ".json"),
        ([*line, *trust, "--masks", str(home)], "--masks"),
    ]:
        refused = sitta_command(*wrong)
        assert refused.returncode == 2, wrong
        assert words in refused.stderr
    made = sitta_command(*line, *trust)
    assert made.returncode == 0, made.stderr
    assert "organ: " in made.stdout
    out = tmp_path / "out"
    line = ["predict", model, str(home), "-o", str(out), "--calibration", str(held)]
    done = sitta_command(*line, *trust, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"] == {"done": 1, "skipped": 0, "failed": 0}
    about = json.loads((out / "run.json").read_text())
    assert (about["method"], about["settings"]) == (
        "adapt",
        {"folds": ["0"], "calibration": "fold.json"},
    )
    again = sitta_command(*line, *trust, "--json")
    assert json.loads(again.stdout)["counts"]["skipped"] == 1
    held.write_text(held.read_text().replace('"images": 4', '"images": 5'))
    again = sitta_command(*line, *trust, "--json")  # another calibration, other masks
    assert json.loads(again.stdout)["counts"]["done"] == 1
    for wrong, words in [
        ([*line, "--trust-checkpoint"], "belongs to one fold"),
        ([*line, "--trust-checkpoint", "--folds", "1"], "other weights"),
        (["predict", "phantom-alder", *line[2:]], "nnunet:FOLDER"),
    ]:
        refused = sitta_command(*wrong)
        assert refused.returncode == 2, wrong
        assert words in refused.stderr
