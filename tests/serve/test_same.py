"""What the service answers is what the Python API answers."""

import gzip
import json

import nibabel
import numpy as np
import pytest
import torch
from PIL import Image as Pillow

import sitta
from sitta.data import Preprocess, phantom
from sitta.data.images import read
from sitta.data.preprocess import TASKS
from sitta.inference import Request, predict
from sitta.serve.guard import Guard
from sitta.serve.quotas import Limits
from sitta.serve.service import Service
from sitta.serve.worker import WorkerConfig
from tests.data.files import dataset, save
from tests.serve.conftest import Asked

MODEL = "phantom-alder"


@pytest.fixture(scope="module")
def torch_service():
    with Asked(Service(WorkerConfig([MODEL], Limits(passes=40)), 1, print), Guard(), []) as asked:
        yield asked


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("files")
    phantom.write(root, "rowan", 1, (100, 90))
    phantom.write(root, "birch", 1, (8, 40, 44))
    whole = nibabel.load(next(root.glob("phantom/birch/images/*")))
    nibabel.save(whole.slicer[:, :, 3:6], root / "scan.nii.gz")
    image, _ = phantom.draw("cedar", size=(60, 70))
    film = save(root / "film.dcm", dataset((image[0].numpy() * 4000).astype(np.int16)))
    picture = next(root.glob("phantom/rowan/images/*"))
    return {"picture": picture, "volume": root / "scan.nii.gz", "film": film}


def masks(asked, answer):
    got = [
        asked.get(f"/api/results/{answer['id']}/mask.raw?slice={n}").content
        for n in range(answer["slices"])
    ]
    return np.stack([np.frombuffer(one, np.uint8) for one in got])


@pytest.mark.parametrize("kind", ["picture", "volume", "film"])
def test_as_from_the_command_line_and_from_python(torch_service, files, kind, tmp_path):
    path = files[kind]
    answer = torch_service.send(path.read_bytes(), path.name).json()
    run = predict(Request(MODEL), [path], tmp_path)
    for row, expected in zip(answer["rows"], run.records[0]["rows"], strict=True):
        assert row["notes"] == expected["notes"]
        for name in (
            "agreement",
            "uncertainty",
            "disagreement",
            "change",
            "distance",
            "area",
            "area_source",
            "doubt",
            "weights",
            "entropies",
            "areas",
        ):
            assert row[name] == pytest.approx(expected[name], abs=1e-6), name
    link = answer["links"]["mask.nii.gz"]
    kept = np.asarray(
        nibabel.Nifti1Image.from_bytes(gzip.decompress(torch_service.get(link).content)).dataobj
    )
    written = tmp_path / run.records[0]["output"]
    if kind == "picture":
        assert ((np.asarray(Pillow.open(written)).T > 0) == kept).all()
    else:
        assert (np.asarray(nibabel.load(written).dataobj) == kept).all()
    assert kept.any()
    ready = TASKS["phantom"].apply(read(path))
    p = sitta.Adapt(sitta.load(MODEL))(torch.from_numpy(ready.values))
    ran = p.record.ran.any(axis=1)
    assert answer["member_names"] == [p.record.names[k] for k in np.flatnonzero(ran)]
    assert np.allclose([r["weights"] for r in answer["rows"]], p.weights.T[:, ran], atol=1e-6)
    assert np.allclose([r["agreement"] for r in answer["rows"]], p.agreement, atol=1e-6)
    restored = ready.inverse.slices(ready.inverse.restore(p.probability.numpy()))[0] > 0.5
    assert (masks(torch_service, answer) == restored.reshape(answer["slices"], -1)).all()


def test_the_split_member_is_a_mask_to_choose(torch_service, files):
    answer = torch_service.send(files["picture"].read_bytes(), files["picture"].name).json()
    assert answer["member_names"][-1] == "split"
    assert answer["masks"][-1] == "member@split"
    path = f"/api/results/{answer['id']}"
    drawn = torch_service.get(f"{path}/mask.raw?mask=member@split").content
    ready = TASKS["phantom"].apply(read(files["picture"]))
    p = sitta.Adapt(sitta.load(MODEL))(torch.from_numpy(ready.values))
    alone = ready.inverse.restore(p.members[-1].numpy())[0] > 0.5
    assert (np.frombuffer(drawn, np.uint8) == alone.reshape(-1)).all()
    assert alone.any()
    said = {"decision": "accept", "mask": "member@split"}
    kept = torch_service.ask("PUT", f"{path}/review", json=said).json()["decisions"]
    assert [one["mask"] for one in kept] == ["member@split"]


def test_another_method_and_settings(torch_service, files):
    content = files["picture"].read_bytes()

    def sent(method, **settings):
        return torch_service.send(content, method=method, settings=json.dumps(settings))

    ready = Preprocess(size=(128, 128)).apply(read(files["picture"]))
    image, model = torch.from_numpy(ready.values), sitta.load(MODEL)
    for settings in (
        {"strategy": "vote", "step": 0.5},
        {"lambdas": [1, 0.3]},
        {"lambdas": "1, 0.3"},
    ):
        answer = sent("intent", **settings).json()
        typed = {**settings, "lambdas": [1, 0.3]} if "lambdas" in settings else settings
        p = sitta.InTEnt(model, **typed)(image)
        assert answer["lambdas"] == pytest.approx(p.lambdas.tolist())
        assert answer["rows"][0]["weights"] == pytest.approx(p.weights[:, 0].tolist(), abs=1e-6)
    source = sent("source").json()
    assert (source["lambdas"], source["source_member"]) == ([1.0], 0)
    for method, settings, words in (
        ("intent", {"step": 1e-9}, "out of range"),
        ("intent", {"step": 0.001}, "more passes"),
        ("memo", {"views": 1000}, "more passes"),
        ("tent", {"steps": 500}, "more passes"),
        ("intent", {"step": 2}, "out of range"),
        ("intent", {"strategy": {"a": []}}, "out of range"),
        ("intent", {"lambdas": []}, "holds no value"),
        ("intent", {"output": "x"}, "no setting"),
    ):
        refused = sent(method, **settings)
        assert refused.status_code == 422
        assert words in refused.json()["error"]["message"]


def test_the_registry_feeds_the_methods(torch_service):
    told = {m["name"]: m for m in torch_service.get("/api/methods").json()["methods"]}
    assert list(told) == list(sitta.methods())
    assert [n for n, m in told.items() if m["default"]] == ["adapt"]
    for name, kind in sitta.methods().items():
        expected = kind.describe()
        assert told[name]["summary"] == expected["description"]
        assert [s["name"] for s in told[name]["settings"]] == [
            s["name"] for s in expected["settings"]
        ]
    strategy = next(s for s in told["intent"]["settings"] if s["name"] == "strategy")
    assert (strategy["kind"], strategy["default"]) == ("choice", "ent-baln")
    step = next(s for s in told["intent"]["settings"] if s["name"] == "step")
    assert (step["kind"], step["minimum"], step["maximum"]) == ("number", 0.001, 1)
    (model,) = torch_service.get("/api/models").json()["models"]
    assert (model["graph"], model["methods"]) == (False, list(sitta.methods()))
