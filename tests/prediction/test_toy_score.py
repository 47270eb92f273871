"""A trust score that is declared in one place is in everything that lists scores."""

import csv
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import sitta
from sitta.data import phantom
from tests import ROOT
from tests.export.test_export import small

# Python runs a module of this name in every process that it starts, workers of a service too.
NAME = "sitecustomize.py"
DECLARED = """
from sitta.prediction.scores import SCORES, Score

SCORES["peak"] = Score(
    "peak",
    "Toy peak",
    "of all pixels",
    "The highest probability of the image.",
    "higher",
    lambda record: record.computed["peak"],
    tensor=lambda whole, members, usable, activation: whole.flatten(1).amax(dim=1),
)
"""
SEEN = """
import json, sys
from pathlib import Path

import sitta
from sitta.bench.publish.collect import MEANS
from sitta.bench.run.evaluate import trust
from sitta.bench.stats.rows import COLUMNS
from sitta.bench.tables.trust import SIGNALS
from sitta.data import phantom
from sitta.inference.backends.onnx import Graph
from sitta.serve.guard import Guard
from sitta.serve.service import Service
from sitta.serve.worker import WorkerConfig
from tests.docs.test_pages import score_table
from tests.export.test_export import small
from tests.serve.conftest import TIGHT, Asked

if __name__ == "__main__":
    image, old, new = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    model = sitta.load("phantom-alder")
    images = phantom.draw("cedar", index=3)[0][None]
    prediction = sitta.InTEnt(model)(images)
    net = small()
    seen = sitta.InTEnt(net, output="logits", lambdas=(1.0, 0.0))(images).record.scores["peak"]
    sitta.export_onnx(net, new, output="logits", lambdas=(1.0, 0.0))
    with Asked(Service(WorkerConfig(["phantom-alder"], TIGHT), 1, print), Guard(), []) as asked:
        files = {"file": (image.name, image.read_bytes())}
        answer = asked.ask("POST", "/api/predict", files=files).json()
        openapi = asked.ask("GET", "/openapi.json").json()
        declared = asked.ask("GET", "/api/scores").json()["scores"]
    told = {
        "arrays": prediction.arrays()["peak"].tolist(),
        "record": prediction.record.scores["peak"].tolist(),
        "summary": prediction.summary(),
        "small": float(seen[0]),
        "graph": Graph(new)(images.numpy()).rows()[0]["peak"],
        "old graph": Graph(old)(images.numpy()).rows()[0]["peak"],
        "answer": answer["rows"][0]["peak"],
        "schema": openapi["components"]["schemas"]["Row"]["properties"]["peak"],
        "declared": [score["title"] for score in declared],
        "benchmark": trust(prediction)[0]["peak"],
        "columns": ["peak" in columns for columns in (COLUMNS, MEANS)],
        "signals": SIGNALS["peak"],
        "docs": [line for line in score_table() if "peak" in line],
    }
    Path(sys.argv[4]).write_text(json.dumps(told))
"""


def run(folder, *words):
    """Python with the toy score declared."""
    path = [str(folder), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("toy")
    (home / NAME).write_text(DECLARED)
    (home / "seen.py").write_text(SEEN)
    phantom.write(home, "cedar", 1)
    return home


@pytest.fixture(scope="module")
def image(folder):
    return next((folder / "phantom" / "cedar" / "images").iterdir())


def test_on_the_command_line_and_in_the_report(folder, image):
    run(folder, "-m", "sitta", "predict", "phantom-alder", image, "-o", folder / "out")
    with open(folder / "out" / "summary.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    assert 0.9 < float(row["peak"]) <= 1
    names = list(row)
    assert names.index("area") < names.index("peak") < names.index("notes")
    report = (folder / "out" / "report.html").read_text(encoding="utf-8")
    assert "<dt>Toy peak</dt><dd>The highest probability of the image." in report
    assert "toy peak, lowest first</option>" in report
    (told,) = re.findall(r'"row":{[^}]*"peak":([\d.]+)', report)
    assert float(told) == pytest.approx(float(row["peak"]), abs=1e-3)


def test_in_python_graphs_service_and_benchmark(folder, image):
    model = sitta.load("phantom-alder")
    old, seen = folder / "old.onnx", folder / "seen.json"
    about = {"output": "logits", "lambdas": (1.0, 0.0)}
    sitta.export_onnx(small(), old, **about)  # by a version that does not know the score
    run(folder, folder / "seen.py", image, old, folder / "new.onnx", seen)
    told = json.loads(seen.read_text())
    expected = float(sitta.InTEnt(model)(phantom.draw("cedar", index=3)[0]).probability.max())
    values = [*told["arrays"], *told["record"], told["benchmark"]]
    np.testing.assert_allclose(values, expected, atol=1e-4)
    assert told["graph"] == pytest.approx(told["small"], abs=1e-4)
    assert told["old graph"] is None
    assert 0.9 < told["answer"] <= 1
    assert told["schema"]["description"] == "The highest probability of the image."
    assert "Toy peak" in told["declared"]
    assert f"toy peak      {expected:.3f}" in told["summary"]
    assert told["columns"] == [True, True]
    assert told["signals"] is False  # a high value speaks for a good mask
    (line,) = told["docs"]
    assert line == "| `peak` |  | higher | The highest probability of the image. |"
