"""A new method or strategy is declared in one place, and everything else asks there."""

import importlib
import json
import re

import pytest
import torch
from typer.testing import CliRunner

import sitta
from sitta import adaptation, cli
from sitta.adaptation.base import Cost
from sitta.adaptation.shared_pass import run_shared, shares
from sitta.adaptation.sliding_window import windowed
from sitta.bench.plan.cells import requests
from sitta.bench.tables.gradient_gain import _takes_steps
from sitta.bench.variant import Variant
from sitta.core.integration import STRATEGIES
from sitta.data import phantom
from sitta.serve.catalogue import Catalogue
from sitta.serve.quotas import Limits
from tests.adaptation.toy_method import Toy
from tests.adaptation.toy_strategy import SLOW, TOY
from tests.bench.tiny import PLAN, make, reading
from tests.docs import test_pages as pages
from tests.nets import case


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(adaptation.METHODS, "Toy", "tests.adaptation.toy_method")
    yield
    vars(sitta).pop("Toy", None)  # names are kept once they were asked for


@pytest.fixture
def strategies(monkeypatch):
    monkeypatch.setitem(STRATEGIES, "toy", TOY)
    monkeypatch.setitem(STRATEGIES, "slow", SLOW)


def run(*words):
    importlib.import_module(f"sitta.cli.{words[0]}")  # verbs register themselves
    result = CliRunner().invoke(cli.app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_method_in_the_api(toy):
    net, images = case()
    assert list(sitta.methods())[-1] == "toy"
    assert sitta.Toy is sitta.methods()["toy"] is Toy
    still, moved = (sitta.method("toy", net, steps=n)(images) for n in (0, 2))
    assert moved.probability.mean() > still.probability.mean()
    assert "toy" in sitta.inspect(net).applies
    with pytest.raises(sitta.InvalidSetting, match="strength is out of range"):
        sitta.Toy(net, strength=0.0)


def test_a_method_on_the_command_line(toy, tmp_path):
    told = {m["name"]: m for m in json.loads(run("methods", "--json"))}
    assert told["toy"]["title"] == "Toy story"
    assert [s["name"] for s in told["toy"]["settings"]][-1] == "strength"
    phantom.write(tmp_path, "rowan", 1, (32, 32))
    images, out = tmp_path / "phantom" / "rowan" / "images", tmp_path / "out"
    run("predict", "phantom-alder", images, "-o", out, "--method", "toy", "--set", "strength=0.1")
    settings = json.loads((out / "run.json").read_text())
    assert (settings["method"], settings["settings"]) == ("toy", {"strength": 0.1})
    (title,) = re.findall(r"<h1>([^<]*)<", (out / "report.html").read_text("utf-8"))
    assert title.endswith(", Toy")


def test_a_method_in_the_service(toy):
    listing = Catalogue(["phantom-alder"], Limits(), 1).describe()["methods"]
    assert [m["name"] for m in listing][-1] == "toy"


def test_a_method_in_the_benchmark(toy, tmp_path):
    make(tmp_path)
    plan = reading(tmp_path, PLAN.replace('"tent"', '"toy"'))
    assert [str(r) for r in requests(plan)["methods"] if r.method == "toy"]
    assert Variant("toy", 0.5).label == "Toy story, lambda 0.5"
    assert _takes_steps("toy")
    assert not _takes_steps("sita")


def test_a_method_without_a_page_fails_the_check_of_the_documentation(toy):
    with pytest.raises(FileNotFoundError, match=r"toy\.md"):
        pages.test_every_method_has_a_page_that_fits_the_registry("toy")
    with pytest.raises(AssertionError):
        pages.test_no_page_without_a_method()


def test_a_strategy_weighs_in_every_way_to_run_it(strategies, tmp_path):
    net, images = case()
    adapt = sitta.InTEnt(net, strategy="toy")
    p = adapt(images)
    scores = p.members.flatten(2).amax(dim=2)
    torch.testing.assert_close(p.weights, (2 - scores) / (2 - scores).sum(dim=0))
    torch.testing.assert_close(run_shared([adapt], images)[0].weights, p.weights)
    assert windowed(adapt, (16, 16))(images[0]).weights.shape == (6,)
    sitta.export_onnx(net, tmp_path / "toy.onnx", strategy="toy")  # compares with torch itself


def test_a_strategy_on_the_command_line_and_in_plans(strategies, tmp_path):
    (intent,) = json.loads(run("methods", "intent", "--json"))
    ranges = {s["name"]: s["range"] for s in intent["settings"]}
    assert ranges["strategy"].endswith("sharpness, toy, slow")
    make(tmp_path)
    plan = reading(tmp_path, PLAN.replace('["vote", "ent-baln"]', '["vote", "toy"]'))
    assert [
        r.settings["strategy"] for r in requests(plan)["members"] if "strategy" in r.settings
    ] == [
        "vote",
        "toy",
    ]
    with pytest.raises(AssertionError):
        pages.test_notes_and_strategies_are_all_explained()


def test_a_strategy_with_passes_of_its_own_says_so_itself(strategies, tmp_path):
    net, images = case()
    adapt = sitta.InTEnt(net, strategy="slow", rho=0.2)
    torch.testing.assert_close(adapt(images).entropies[:, 0], 0.2 * torch.arange(6.0))
    assert adapt.cost == Cost(forward=18, backward=6)
    assert not shares(adapt)
    with pytest.raises(sitta.InvalidSetting, match="cannot go window by window"):
        windowed(adapt, (16, 16))
    with pytest.raises(sitta.InvalidSetting, match="'slow' needs"):
        sitta.export_onnx(net, tmp_path / "slow.onnx", strategy="slow")
    make(tmp_path)
    with pytest.raises(sitta.SittaError, match="slow"):
        reading(tmp_path, PLAN.replace('["vote", "ent-baln"]', '["slow"]'))
