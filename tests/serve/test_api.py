"""Each route does what the OpenAPI document and the page expect of it."""

import io
import json

import jsonschema
import nibabel
import numpy as np
import pytest
from PIL import Image as Pillow

from sitta.data import phantom
from sitta.prediction.notes import NOTES, flagged
from sitta.prediction.scores import shown
from sitta.serve.samples import SAMPLES
from tests.data.files import VALUES, WHOLE, dataset, save, stack
from tests.onnx_stub import LAMBDAS

NETWORK = 32


@pytest.fixture(scope="module")
def volume(small, tmp_path_factory):
    """A volume of nine slices, lying down, and the answer to it."""
    root = tmp_path_factory.mktemp("volume")
    phantom.write(root, "birch", 1, (9, 24, 20))
    path = next((root / "phantom" / "birch" / "images").iterdir())
    return nibabel.load(path), small.send(path.read_bytes(), "scan.nii.gz").json()


def raw(small, answer, kind, slice=0):
    got = small.get(f"/api/results/{answer['id']}/{kind}.raw", params={"slice": slice})
    assert got.status_code == 200, got.text
    assert got.headers["content-type"] == "application/octet-stream"
    sides = [int(got.headers[f"x-{name}"]) for name in ("depth", "height", "width")]
    kind = np.dtype(got.headers["x-values"]).newbyteorder("<")  # an image comes as its file has it
    return np.frombuffer(got.content, kind), sides


def document(small):
    return small.get("/openapi.json").json()


def conforms(small, answer, name):
    whole = document(small)
    schema = {**whole["components"]["schemas"][name], "components": whole["components"]}
    jsonschema.validate(answer, schema)


def test_what_it_is(small):
    about = small.get("/api").json()
    assert about["use"] == "For research. Not a medical device."
    assert "research" in document(small)["info"]["description"]


def test_models(small):
    (model,) = small.get("/api/models").json()["models"]
    assert model["name"] == "net.onnx"
    assert (model["graph"], model["default"], model["dims"], model["channels"]) == (
        True,
        True,
        2,
        1,
    )
    assert (model["classes"], model["source"]) == (["organ"], "phantom/alder")
    assert (model["method"], model["methods"]) == ("intent", ["intent"])
    assert model["settings"]["strategy"] == "ent-baln"
    assert model["note"] == "for tests"


def test_methods_of_graphs_have_no_settings(small):
    (method,) = small.get("/api/methods").json()["methods"]
    assert (method["name"], method["default"], method["settings"]) == ("intent", True, [])


def test_notes_and_limits(small):
    notes = small.get("/api/notes").json()
    assert notes["notes"] == {code: note.sentence for code, note in NOTES.items()}
    assert notes["advice"] == {code: note.advice for code, note in NOTES.items()}
    assert notes["severity"] == {code: note.severity for code, note in NOTES.items()}
    information = {code for code, note in NOTES.items() if note.severity == "information"}
    assert notes["serious"] == sorted(set(NOTES) - information)
    scores = small.get("/api/scores").json()["scores"]
    assert scores == [score.describe() for score in shown()]
    told = small.get("/api/limits").json()
    assert (told["upload_bytes"], told["slices"], told["files"]) == (2**21, 64, 5)


def test_samples_can_be_had_and_predicted(small):
    told = small.get("/api/samples").json()["samples"]
    assert [s["name"] for s in told] == list(SAMPLES)
    assert {s["model"] for s in told} == {"net.onnx"}  # phantom-alder is not served here
    for sample in told:
        got = small.get(f"/api/samples/{sample['name']}")
        assert got.status_code == 200
        assert small.send(got.content, sample["name"]).status_code == 200
    assert small.get("/api/samples/nothing.png").status_code == 404


def test_the_answer_to_a_picture(small):
    answer = small.send(WHOLE["a.png"], "a.png").json()
    conforms(small, answer, "PredictionAnswer")
    assert (answer["kind"], answer["shape"], answer["slices"]) == ("png", [16, 20], 1)
    assert answer["spacing"] is None
    assert answer["lambdas"] == list(LAMBDAS)
    (row,) = answer["rows"]
    assert row["slice"] is None
    assert sum(row["weights"]) == pytest.approx(1)
    assert row["look"] == flagged(row["notes"]) == answer["look"]
    image, sides = raw(small, answer, "image")
    assert (image.reshape(16, 20) == VALUES).all()
    assert sides == [1, 16, 20]
    assert (answer["intensity"]["low"], answer["intensity"]["high"]) == (VALUES.min(), VALUES.max())
    members, sides = raw(small, answer, "members")
    assert sides == [len(LAMBDAS), 16, 20]
    source, _ = raw(small, answer, "source")
    assert (source == members.reshape(6, -1)[answer["source_member"]]).all()


def test_colours_are_interleaved(small):
    colours = np.random.default_rng(0).integers(0, 255, (9, 7, 3), dtype=np.uint8)
    content = io.BytesIO()
    Pillow.fromarray(colours).save(content, "PNG")
    answer = small.send(content.getvalue()).json()
    image, sides = raw(small, answer, "image")
    assert (answer["channels"], sides) == (3, [3, 9, 7])
    assert (image.reshape(9, 7, 3) == colours).all()


def test_files_to_keep_and_pictures_to_draw_are_the_same(small, volume):
    file, answer = volume
    conforms(small, answer, "PredictionAnswer")
    assert (answer["shape"], answer["slices"], len(answer["rows"])) == ([9, 24, 20], 9, 9)
    assert not [kind for kind in answer["links"] if kind.endswith(".png")]
    shown = {
        k: np.stack([raw(small, answer, k, n)[0] for n in range(9)])
        for k in ("mask", "uncertainty", "disagreement")
    }
    for kind, values in shown.items():
        link = answer["links"][f"{kind}.nii.gz"]
        kept = nibabel.Nifti1Image.from_bytes(_unzipped(small.get(link).content))
        assert (kept.affine == file.affine).all()
        lying = np.asarray(kept.dataobj).T  # the phantom's slices, rows and columns
        scale = 1 if kind == "mask" else 255
        assert np.abs(lying.reshape(9, -1) * scale - values).max() <= 0.5
    picture = small.get(f"/api/results/{answer['id']}/mask.png?slice=3").content
    drawn = np.asarray(Pillow.open(io.BytesIO(picture)))
    assert (drawn.ravel() == shown["mask"][3] * 255).all()
    assert drawn.any()
    image, _ = raw(small, answer, "image", 2)
    assert np.allclose(image.reshape(24, 20), np.asarray(file.dataobj).T[2])
    assert np.asarray(raw(small, answer, "members", 1)[0]).size == 6 * 24 * 20


def _unzipped(content):
    import gzip

    return gzip.decompress(content)


def test_the_mask_itself(small, volume):
    def sent(accept, content=WHOLE["a.png"], name="a.png"):
        files = {"file": (name, content)}
        return small.ask("POST", "/api/predict", files=files, headers={"accept": accept})

    picture = sent("image/png")
    assert picture.headers["content-type"] == "image/png"
    assert Pillow.open(io.BytesIO(picture.content)).size == (20, 16)
    whole = sent("application/x-nifti")
    assert nibabel.Nifti1Image.from_bytes(_unzipped(whole.content)).shape == (20, 16)
    assert sent("*/*").json()["kind"] == "png"
    assert sent("text/html").status_code == 406
    scan = volume[0].to_bytes()
    assert sent("image/png", scan, "a.nii").status_code == 406
    assert sent("application/gzip", scan, "a.nii").status_code == 200


def test_a_series_of_dicom_files(small, tmp_path):
    planes = (np.random.default_rng(0).random((4, 12, 10)) * 900).astype(np.int16)
    slices = stack(planes)
    files = []
    for number in (2, 0, 3, 1):  # in any order
        path = save(tmp_path / f"{number}.dcm", slices[number])
        files.append(("file", (f"x/{number}.dcm", path.read_bytes())))
    answer = small.ask("POST", "/api/predict", files=files).json()
    conforms(small, answer, "PredictionAnswer")
    assert (answer["kind"], answer["name"], answer["shape"]) == ("dicom", "series", [4, 12, 10])
    assert answer["spacing"] == [2.5, 0.5, 0.75]
    image, _ = raw(small, answer, "image", 1)
    assert (image.reshape(12, 10) == planes[1]).all()


def test_values_are_those_of_the_scanner(small, tmp_path):
    made = dataset(np.full((6, 6), 24, np.int16), RescaleSlope=2, RescaleIntercept=-1024)
    made.PixelData = np.arange(36, dtype=np.int16).tobytes()
    answer = small.send(save(tmp_path / "a.dcm", made).read_bytes(), "a.dcm").json()
    image, _ = raw(small, answer, "image")
    assert image.tolist() == [2 * n - 1024 for n in range(36)]


def test_figures_and_forgetting(small):
    answer = small.send(WHOLE["a.jpg"], "a.jpg").json()
    assert small.get(answer["links"]["figures.json"]).json() == answer
    for kind, link in answer["links"].items():
        got = small.get(link)
        assert got.status_code == 200
        assert kind in got.headers["content-disposition"]
    gone = f"/api/results/{answer['id']}"
    assert small.ask("DELETE", gone).status_code == 204
    assert small.ask("DELETE", gone).status_code == 404
    assert not (small.service.store.root / f"result-{answer['id']}").exists()
    for link in answer["links"].values():
        got = small.get(link)
        assert (got.status_code, got.json()["error"]["code"]) == (404, "no-result")
    assert small.get(f"/api/results/{answer['id']}/nothing").status_code == 404


def test_metrics(small):
    small.get("/api/models")
    text = small.get("/metrics").text
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    assert float(lines['sitta_requests_total{method="GET",route="/api/models",status="200"}']) >= 1
    assert float(lines["sitta_workers"]) == 1
    assert float(lines["sitta_results"]) == len(small.service.store)
    assert lines['sitta_job_seconds_bucket{le="+Inf"}'] == lines["sitta_job_seconds_count"]
    assert "result-" not in text
    types = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
    counters = ["sitta_jobs_total", "sitta_requests_total", "sitta_worker_restarts_total"]
    gauges = ["jobs_running", "queue_length", "results", "results_bytes", "workers"]
    assert types == {
        **dict.fromkeys(counters, "counter"),
        **dict.fromkeys([f"sitta_{name}" for name in gauges], "gauge"),
        "sitta_job_seconds": "histogram",
    }


def test_every_error_is_documented(small):
    for path, verbs in document(small)["paths"].items():
        for verb, about in verbs.items():
            answers = about["responses"]
            assert {"401", "403", "500"} <= set(answers), (path, verb)
            for status, told in answers.items():
                if status >= "400":
                    schema = json.dumps(told["content"]["application/json"])
                    assert "/Error" in schema, (path, verb, status)
    predict = document(small)["paths"]["/api/predict"]["post"]
    assert {"413", "415", "422", "429", "503", "504"} <= set(predict["responses"])
    example = predict["responses"]["200"]["content"]["application/json"]["example"]
    conforms(small, example, "PredictionAnswer")
