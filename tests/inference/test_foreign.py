"""Four shapes of foreign model, each from one profile through every command, to the same masks."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image as Pillow
from safetensors.torch import save_file
from scipy import ndimage

import sitta
from sitta.adaptation.sliding_window import windowed
from sitta.bench.plan.load import read_plan
from sitta.bench.run.scheduler import run as run_bench
from sitta.calibration import calibrate
from sitta.data import phantom
from sitta.inference import Request, load_model, predict
from sitta.inference.checkup import check
from sitta.models.profile import Profile
from sitta.serve.catalogue import Catalogue
from sitta.serve.predict_job import work
from sitta.serve.quotas import Limits
from tests import foreign
from tests.shell import sitta_command

SIZE = (32, 32)  # of the files too: masks of the file are those of the network
PROFILES = {
    "wnet": """
profile = 1
[model]
factory = "nets.py:wnet"
arguments = { width = 4 }
weights = "wnet.safetensors"
output = 1
[[classes]]
name = "vessel"
threshold = 0.4
[preprocess]
size = [32, 32]
scale = "min-max"
""",
    "four": """
profile = 1
[model]
factory = "nets.py:four"
[[classes]]
name = "disc"
[[classes]]
name = "cup"
threshold = 0.3
[[classes]]
name = "rim"
[preprocess]
size = [32, 32]
scale = "z-score"
""",
    "inside": """
profile = 1
[model]
factory = "nets.py:inside"
output = "main"
activation = "probabilities"
[[classes]]
name = "disc"
[[classes]]
name = "cup"
[preprocess]
size = [32, 32]
scale = "min-max"
[postprocess]
largest_component = ["cup"]
fill_holes = true
""",
    "colours": """
profile = 1
[model]
factory = "nets.py:colours"
[[classes]]
name = "cell"
[preprocess]
size = [32, 32]
channels = 3
scale = "standardise"
divisor = 65535
mean = [0.485, 0.456, 0.406]
std = [0.229, 0.224, 0.225]
""",
    "windows": """
profile = 1
[model]
factory = "nets.py:wnet"
arguments = { width = 4 }
output = 0
[[classes]]
name = "vessel"
colour = "#d55e00"
[preprocess]
size = [32, 32]
scale = "min-max"
[inference]
window = [24, 16]
overlap = 0.5
""",
}
WHOLE = [name for name in PROFILES if name != "windows"]  # a graph has no windows


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    place = tmp_path_factory.mktemp("foreign")
    shutil.copy(foreign.__file__, place / "nets.py")
    save_file(foreign.wnet(4).state_dict(), place / "wnet.safetensors")
    for name, text in PROFILES.items():
        (place / f"{name}.toml").write_text(text)
    phantom.write(place / "data", "birch", 3, SIZE)
    for path in (place / "data" / "phantom" / "birch" / "masks").iterdir():  # numbers of classes
        numbers = (np.asarray(Pillow.open(path)) > 0).astype(np.uint8)
        Pillow.fromarray(numbers).save(path)
    return place


@pytest.fixture(scope="module")
def images(home):
    return home / "data" / "phantom" / "birch" / "images"


@pytest.fixture(scope="module")
def masks(home, images):
    """The masks that predict writes, for every profile."""
    found = {}
    for name in PROFILES:
        done = predict(Request(str(home / f"{name}.toml"), "intent"), [images], home / "out" / name)
        assert done.counts == {"done": 3, "skipped": 0, "failed": 0}
        assert done.warnings == []
        found[name] = read_masks(home / "out" / name)
    return found


def read_masks(out):
    """Class numbers; with one class, PNG files hold 0 and 255."""
    files = sorted((out / "masks").iterdir())
    each = np.stack([np.asarray(Pillow.open(path)) for path in files]).astype(int)
    return np.minimum(each, 1) if each.max() == 255 else each


def expected(name, picture):
    """The mask by plain torch and NumPy: the method on what the network gives, by hand."""
    grey = picture.astype(np.float64)
    if name == "colours":
        mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
        values = (grey[None] / 65535 - mean[:, None, None]) / std[:, None, None]
    elif name == "four":
        values = ((grey - grey.mean()) / grey.std())[None]
    else:
        values = ((grey - grey.min()) / np.ptp(grey))[None]
    if name == "windows":
        method = sitta.InTEnt(foreign.wnet(4), output=0)
        p = windowed(method, (24, 16), overlap=0.5)(torch.from_numpy(values).float())
        return (p.probability.numpy()[0] > 0.5).astype(int)
    net = getattr(foreign, name)(*([4] if name == "wnet" else []))
    choose = {"wnet": lambda raw: raw[1], "inside": lambda raw: raw["main"].clamp(1e-12).log()}
    p = sitta.InTEnt(net, output=choose.get(name))(torch.from_numpy(values).float())
    maps = p.probability.numpy()
    if name == "wnet":
        return (maps[0] > 0.4).astype(int)
    if name == "colours":
        return (maps[0] > 0.5).astype(int)
    if name == "four":
        return by_hand(maps)
    mask = maps.argmax(0)
    parts, count = ndimage.label(mask == 2, np.ones((3, 3)))
    if count > 1:
        largest = 1 + np.argmax(np.bincount(parts.ravel())[1:])
        mask[(mask == 2) & (parts != largest)] = 0
    for number in (1, 2):
        filled = ndimage.binary_fill_holes(mask == number)
        mask[filled & (mask == 0)] = number
    return mask


def by_hand(maps):
    """The second class from 0.3, the others where they are the most probable of all."""
    mask = np.zeros(maps.shape[1:], dtype=int)
    for at in np.ndindex(*mask.shape):
        p = maps[(slice(None), *at)]
        runs = [c for c in (1, 2, 3) if (p[c] > 0.3 if c == 2 else p.argmax() == c)]
        mask[at] = max(runs, key=lambda c: p[c]) if runs else 0
    return mask


@pytest.mark.parametrize("name", PROFILES)
def test_predict_gives_the_masks_that_follow_by_hand(name, masks, images):
    pictures = [np.asarray(Pillow.open(path)) for path in sorted(images.iterdir())]
    wanted = np.stack([expected(name, picture) for picture in pictures])
    assert 0.02 < (wanted > 0).mean() < 0.98
    assert (masks[name] != wanted).mean() < 1e-3  # scaling in other precisions


@pytest.mark.parametrize("name", PROFILES)
def test_the_run_says_how_it_read_the_model(name, masks, home):
    about = json.loads((home / "out" / name / "run.json").read_text())
    profile = Profile.read(home / f"{name}.toml")
    assert about["profile"] == profile.reading
    assert ("largest_component" in about["profile"]) == (name == "inside")


@pytest.mark.parametrize("name", PROFILES)
def test_serve_gives_the_same_masks(name, masks, home, images, tmp_path):
    catalogue = Catalogue([str(home / f"{name}.toml")], Limits(), 1)
    assert list(catalogue.loaded) == [name]
    for number, path in enumerate(sorted(images.iterdir())):
        out = tmp_path / str(number)
        out.mkdir()
        asked = {"model": name, "method": "intent", "settings": {}}
        answer, _ = work({**asked, "files": [str(path)], "out": str(out)}, catalogue)
        assert np.array_equal(np.load(out / "mask.npy").squeeze(), masks[name][number])
    assert answer["classes"] == list(Profile.read(home / f"{name}.toml").names)
    assert answer["colours"] == (
        ["#d55e00"] if name == "windows" else [None] * len(answer["classes"])
    )


@pytest.mark.parametrize("name", WHOLE)
def test_a_graph_gives_the_same_masks(name, masks, home, images, tmp_path):
    graph = tmp_path / f"{name}.onnx"
    profile = home / f"{name}.toml"
    loaded = load_model(str(profile))
    sitta.export_onnx(loaded.model, graph)
    predict(Request(str(graph)), [images], tmp_path / "out")
    assert (read_masks(tmp_path / "out") != masks[name]).mean() <= 1e-4
    kept, own = load_model(str(graph)).profile, loaded.profile
    assert (kept.classes, kept.preprocess) == (own.classes, own.preprocess)
    assert (kept.largest_component, kept.fill_holes) == (own.largest_component, own.fill_holes)


def test_bench_measures_the_same_masks_without_training(masks, home, images, tmp_path):
    tables = "".join(
        f'[[models]]\nprofile = "{home}/{name}.toml"\ntask = "phantom"\nname = "{name}"\n'
        for name in PROFILES
    )
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'data = "{home}/data"\n[tasks.phantom]\ndomains = ["birch"]\nsources = []\n'
        '[members]\nlambdas = [1.0]\nstrategies = ["ent-baln"]\n' + tables
    )
    results = run_bench(read_plan(plan), tmp_path / "results")
    assert results.failures() == {}
    assert not list((tmp_path / "results").glob("models/*"))
    truths = [
        np.asarray(Pillow.open(path)) > 0 for path in sorted((images.parent / "masks").iterdir())
    ]
    for name, found in masks.items():
        file = next((tmp_path / "results" / "cells").glob(f"phantom-{name}-r0/birch/intent*"))
        rows = pd.read_csv(file).sort_values("image")
        classes = len(Profile.read(home / f"{name}.toml").classes)
        pairs = zip(found, truths, strict=True)
        wanted = [dice(mask, truth, classes) for mask, truth in pairs]
        assert rows["dice"].tolist() == pytest.approx(wanted, abs=1e-6), name


def test_bench_tells_doubts_about_a_model(home, tmp_path, capfd):
    (home / "less.toml").write_text(PROFILES["four"].replace('scale = "z-score"', ""))
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'data = "{home}/data"\n[tasks.phantom]\ndomains = ["birch"]\nsources = []\n'
        "[members]\nlambdas = [1.0]\nstrategies = []\n"
        f'[[models]]\nprofile = "{home}/less.toml"\ntask = "phantom"\nname = "four"\n'
    )
    run_bench(read_plan(plan), tmp_path / "results", workers=1)
    assert "warning: four: Nothing says how images were scaled" in capfd.readouterr().err


def dice(mask, truth, classes):
    """Mean over classes, of which the truth has the first; 1 where both are empty."""
    each = []
    for number in range(1, classes + 1):
        one, other = mask == number, truth if number == 1 else np.zeros_like(truth)
        total = one.sum() + other.sum()
        each.append(2 * (one & other).sum() / total if total else 1.0)
    return np.mean(each)


@pytest.mark.parametrize("name", PROFILES)
def test_check_finds_nothing_wrong(name, home, images):
    found = check(str(home / f"{name}.toml"), sorted(images.iterdir())[0])
    assert not [w for w in found.warnings if "scale" not in w]
    assert found.facts["classes"] == ", ".join(Profile.read(home / f"{name}.toml").names)


@pytest.mark.parametrize("name", PROFILES)
def test_calibrating_keeps_the_masks(name, masks, home, images, monkeypatch):
    monkeypatch.setattr(calibrate, "PER_IMAGE", (2, 2))
    out = f"{name}-calibrated.toml"
    done = sitta_command("calibrate", f"{name}.toml", "--images", images, "-o", out, cwd=home)
    assert done.returncode == 0, done.stderr
    assert "a mean of fewer than 10" in done.stdout
    assert not list(home.glob("*.partial"))
    before, after = Profile.read(home / f"{name}.toml"), Profile.read(home / out)
    assert after.calibration["images"] == 3
    assert (after.classes, after.reading) == (before.classes, before.reading)
    assert (after.window, after.arguments) == (before.window, before.arguments)
    predict(Request(str(home / out), "intent"), [images], home / "out" / out)
    assert np.array_equal(read_masks(home / "out" / out), masks[name])


def test_a_calibration_of_other_weights_is_refused(home, images, monkeypatch, tmp_path):
    monkeypatch.setattr(calibrate, "PER_IMAGE", (2, 2))
    shutil.copytree(home, tmp_path / "other", ignore=shutil.ignore_patterns("out"))
    words = ("calibrate", "wnet.toml", "--images", images, "-o", "known.toml")
    assert sitta_command(*words, cwd=tmp_path / "other").returncode == 0
    changed = {k: v + 0.5 for k, v in foreign.wnet(4).state_dict().items()}
    save_file(changed, tmp_path / "other" / "wnet.safetensors")
    with pytest.raises(sitta.UnsupportedModel, match=r"made with other weights.*sitta calibrate"):
        sitta.load(tmp_path / "other" / "known.toml")
    again = sitta_command(
        *words[:1], "known.toml", *words[2:], "--overwrite", cwd=tmp_path / "other"
    )
    assert again.returncode == 0, again.stderr
    sitta.load(tmp_path / "other" / "known.toml")


def test_adapt_takes_the_path_of_a_calibrated_profile(home, images, monkeypatch):
    monkeypatch.setattr(calibrate, "PER_IMAGE", (2, 2))
    words = ("calibrate", "four.toml", "--images", images, "-o", "path.toml")
    assert sitta_command(*words, cwd=home).returncode == 0
    adapt = sitta.Adapt(foreign.four(), profile=home / "path.toml")
    assert adapt.known.images == 3
    with pytest.raises(sitta.InvalidSetting, match=r"four\.toml is not calibrated"):
        _ = sitta.Adapt(foreign.four(), profile=home / "four.toml").known


def test_calibrate_meets_the_model_first(home, images, tmp_path):
    words = ("calibrate", "nets.py:inside", "--images", images, "-o", tmp_path / "no.toml")
    done = sitta_command(*words, "--output", "main", "--size", "32x32", cwd=home)
    assert done.returncode == 2
    assert "returns probabilities, not logits" in done.stderr
    assert not list(tmp_path.iterdir())


def test_options_go_before_the_profile_in_export_and_service(home, images, masks, tmp_path):
    how = ("--output", "0", "--activation", "logits", "--threshold", "0.6")
    done = sitta_command("export", home / "wnet.toml", tmp_path / "net.onnx", *how)
    assert done.returncode == 0, done.stderr
    assert load_model(str(tmp_path / "net.onnx")).profile.thresholds == (0.6,)
    predict(Request(str(tmp_path / "net.onnx")), [images], tmp_path / "graph")
    words = ("predict", tmp_path / "net.onnx", images, "-o", tmp_path / "no", "--channels", "3")
    done = sitta_command(*words)
    assert done.returncode == 2
    assert (done.stdout + done.stderr).count("does not take inputs of this shape") == 1
    given = {"reading": {"output": 0, "thresholds": (0.6,)}}
    catalogue = Catalogue([str(home / "wnet.toml")], Limits(), 1, given)
    path = sorted(images.iterdir())[0]
    asked = {"model": "wnet", "method": "intent", "settings": {}, "files": [str(path)]}
    work({**asked, "out": str(tmp_path)}, catalogue)
    served = np.load(tmp_path / "mask.npy").squeeze()
    assert (served != read_masks(tmp_path / "graph")[0]).mean() <= 1e-4
    assert (served != masks["wnet"][0]).any()


def test_a_profile_with_windows_offers_methods_that_have_them(home):
    (model,) = Catalogue([str(home / "windows.toml")], Limits(), 1).describe()["models"]
    assert model["methods"] == ["source", "adapt", "intent"]


def test_an_export_says_that_windows_are_not_in_it(home, tmp_path):
    done = sitta_command("export", home / "windows.toml", tmp_path / "net.onnx")
    assert done.returncode == 0
    assert "sliding window of the profile is not in it" in done.stderr


@pytest.mark.parametrize(
    ("name", "line", "code", "said"),
    [
        ("inside", 'activation = "probabilities"', 2, "returns probabilities, not logits"),
        ("four", 'scale = "z-score"', 0, "Nothing says how images were scaled"),
    ],
)
def test_an_export_meets_the_model_first(name, line, code, said, home, tmp_path):
    assert line in PROFILES[name]
    (home / "less.toml").write_text(PROFILES[name].replace(line, ""))
    done = sitta_command("export", home / "less.toml", tmp_path / "net.onnx")
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert (tmp_path / "net.onnx").exists() == (code == 0)


def test_inspect_shows_a_profile(home):
    done = sitta_command("inspect", "four.toml", "--json", cwd=home)
    about = json.loads(done.stdout)
    assert about["classes"] == ["disc", "cup", "rim"]
    assert about["profile"]["classes"][1] == {"name": "cup", "threshold": 0.3}


def test_options_go_before_the_profile(home, images, tmp_path):
    request = Request(str(home / "wnet.toml"), "intent", output=0, thresholds=(0.6,))
    predict(request, [images], tmp_path / "out")
    first = Path(home / "first.toml")
    first.write_text(PROFILES["wnet"].replace("output = 1", "output = 0").replace("0.4", "0.6"))
    predict(Request(str(first)), [images], tmp_path / "own")
    assert np.array_equal(read_masks(tmp_path / "out"), read_masks(tmp_path / "own"))


def test_load_gives_a_network_that_every_method_reads_alike(home):
    model = sitta.load(home / "inside.toml")
    assert model.profile.activation == "probabilities"
    image = torch.rand(1, 32, 32)
    with torch.no_grad():
        plain = model(image[None])["main"][0]
    for source in (
        sitta.Source(model),
        sitta.Source(foreign.inside(), output="main", activation="probabilities"),
    ):
        torch.testing.assert_close(source(image).probability, plain, atol=2e-6, rtol=0)
