"""What pages show for other programs, such as plans, container files and units, fits the code."""

import re
import shlex
import tomllib

import numpy as np
import onnxruntime
import pytest
import typer
from packaging.requirements import Requirement

from sitta import cli
from sitta.data import phantom
from tests import ROOT
from tests.docs.blocks import PAGES, blocks
from tests.onnx_stub import LAMBDAS, export

HOW = ROOT / "docs" / "how-to"
TORCH = {"torch", "monai", "safetensors", "scipy"}  # what the path without torch does without
GRAPH = {"onnxruntime"}


def block(page, language):
    (found,) = [b.text for b in blocks(HOW / page) if b.language == language]
    return found


def names(command):
    """Packages that a pip command installs by name."""
    joined = command.replace("\\\n", " ")
    return {
        frozenset(word for word in shlex.split(line)[2:] if re.fullmatch(r"[a-z][\w-]*", word))
        for line in re.findall(r"pip install -c [^&\n]+", joined)
    }


def needed(*extras):
    """Packages without torch, from what the project declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *(project["optional-dependencies"][e] for e in extras)]
    return {Requirement(line).name for listed in lists for line in listed} - TORCH


@pytest.mark.parametrize(
    ("page", "extras"), [("predict.md", ()), ("deploy.md", ()), ("serve.md", ("serve",))]
)
def test_an_installation_without_torch_lists_all_that_it_needs(page, extras):
    text = "\n".join(b.text for b in blocks(HOW / page) if "onnxruntime" in b.text)
    (listed,) = names(text)
    assert listed == needed(*extras) | GRAPH


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """Images of the three domains that the plans of the guide name."""
    root = tmp_path_factory.mktemp("sites")
    (root / "data" / "chest").mkdir(parents=True)
    for name, site in zip(("mcu", "chn", "jsrt"), phantom.SITES, strict=False):
        phantom.write(root / "data", site, 1, (16, 16))
        (root / "data" / "phantom" / site).rename(root / "data" / "chest" / name)
    (root / "model.toml").write_text('profile = 1\n[model]\ncheckpoint = "phantom-alder"\n')
    return root


@pytest.mark.parametrize("number", [0, 1])
def test_the_plans_of_the_guide_are_plans(number, sites):
    from sitta.bench.plan.load import read_plan

    shown = [b.text for b in blocks(HOW / "benchmark.md") if b.language == "toml"]
    assert len(shown) == 2
    (sites / "plan.toml").write_text(shown[number])
    plan = read_plan(sites / "plan.toml", sites / "data")
    assert [task.name for task in plan.tasks] == ["chest"]
    assert [model.name for model in plan.given] == ["mine"] * number


def test_the_settings_for_triton_have_the_axes_of_the_graph(tmp_path):
    session = onnxruntime.InferenceSession(export(tmp_path / "net.onnx"))
    kinds = {
        "tensor(float)": "TYPE_FP32",
        "tensor(int64)": "TYPE_INT64",
        "tensor(bool)": "TYPE_BOOL",
    }
    given = {part.name: part for part in [*session.get_inputs(), *session.get_outputs()]}
    text = block("deploy.md", "protobuf")
    shown = re.findall(r'name: "(\w+)" data_type: (\w+) dims: \[ (.+?) \]', text)
    assert {"image", "probability", "mask"} <= {name for name, _, _ in shown}
    results = dict(
        zip(
            [part.name for part in session.get_outputs()],
            session.run(None, {"image": np.zeros((2, 1, 16, 16), np.float32)}),
            strict=True,
        )
    )
    for name, kind, axes in shown:
        assert kinds[given[name].type] == kind, name
        sides = [int(side) for side in axes.split(",")]
        assert len(sides) == len(given[name].shape), name
        if name in results:
            fixed = [(a, b) for a, b in zip(sides, results[name].shape, strict=True) if a > 0]
            assert all(a == b for a, b in fixed), name
    assert ("usable", "TYPE_BOOL", f"{len(LAMBDAS)}, -1") in shown
    assert "max_batch_size: 0" in text


def test_the_unit_starts_a_service_with_options_that_exist():
    (line,) = re.findall(r"^ExecStart=(.+)$", block("serve.md", "ini"), re.MULTILINE)
    program, verb, model, *options = line.split()
    assert program.endswith("/bin/sitta")
    assert verb == "serve"
    __import__("sitta.cli.serve")
    command = typer.main.get_command(cli.app).commands["serve"]
    known = {option for p in command.params for option in p.opts}
    assert {word for word in options if word.startswith("-")} <= known
    assert (ROOT / "src" / "sitta" / "models" / "weights" / f"{model}.safetensors").is_file()


def test_no_block_is_of_a_language_that_nothing_checks():
    checked = {"sh", "console", "python", "pycon", "toml", "dockerfile", "protobuf", "nginx", "ini"}
    assert {b.language for page in PAGES for b in blocks(page)} <= checked
