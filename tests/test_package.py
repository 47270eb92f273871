"""The package as a whole: what it exports, imports and drags in, and how fast it answers."""

import re
import resource
import subprocess
import sys
from importlib.metadata import distributions, entry_points
from pathlib import Path

import pytest
import torch

import sitta
from sitta.cli import main

ROOT = Path(__file__).parent.parent
EVERYTHING = "import sitta, sys; [getattr(sitta, n) for n in sitta.__all__]"


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def third_party(setup):
    listing = "print(*{m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names))"
    return {m for m in run(f"{setup}; {listing}") if not m.startswith("_")} - {"sitta"}


def test_import_loads_torch_and_numpy_only():
    alone = third_party("import torch, numpy, sys")
    assert {"torch", "numpy"} <= alone
    assert third_party(EVERYTHING) <= alone


def test_import_alone_loads_nothing_heavy():
    assert "torch" not in third_party("import sitta, sys")


def test_files_runs_and_reports_load_without_torch():
    parts = "data, data.check, data.prepare, data.overview, notes, runs, runs.cluster, report.page"
    names = ", ".join(f"sitta.{part}" for part in [*parts.split(", "), "report.picture", "cli"])
    assert not third_party(f"import {names}, sys") & {"torch", "monai", "onnx", "onnxruntime"}


def test_all_is_exactly_what_is_public():
    assert dir(sitta) == sorted(sitta.__all__)
    for name in sitta.__all__:
        assert getattr(sitta, name) is not None
    expected = {"InTEnt", "Source", "Tent", "SAR", "FSeg", "SITA", "MEMO"}
    expected |= {"Prediction", "export_onnx", "inspect", "load", "method", "methods", "models"}
    expected |= {"SittaError", "UnsupportedModel", "InvalidImage", "InvalidSetting"}
    assert set(sitta.__all__) == expected | {"data", "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'Intent'"):
        _ = sitta.Intent


def test_functions_keep_their_names_after_submodules_are_loaded():
    found = run(
        f"{EVERYTHING}; import sitta.cli; print(callable(sitta.methods), callable(sitta.inspect))"
    )
    assert found == ["True", "True"]


def test_no_forbidden_dependency():
    names = {d.metadata["Name"].lower() for d in distributions()}
    assert not names & {"torchvision", "torchaudio", "timm", "segmentation-models-pytorch"}
    if torch.version.cuda:
        pytest.skip("torch is a CUDA build here, which brings its own packages")
    assert not [n for n in names if re.match(r"nvidia|cuda|triton", n)]


def test_constraints_pin_every_dependency():
    pinned = {
        line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().split()
    }
    project = (ROOT / "pyproject.toml").read_text()
    block = re.search(r"dependencies = \[(.*?)\]\n\n\[project.scripts", project, re.S).group(1)
    wanted = {m.lower() for m in re.findall(r'"([a-zA-Z0-9-]+)[>="]', block)}
    assert wanted
    assert wanted <= {p.replace("_", "-") for p in pinned}


def test_pre_commit_runs_what_make_check_runs():
    hooks = re.findall(r"entry: \.venv/bin/(.+?),", (ROOT / ".pre-commit-config.yaml").read_text())
    recipe = (ROOT / "Makefile").read_text().split("\ncheck:")[1].split("\n\n")[0]
    assert hooks == re.findall(r"\t\$\(BIN\)/(.+)", recipe)


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["demo", "--help"]])
def test_help_answers_without_anything_heavy(words):
    code = f"import sys; sys.argv = ['sitta', *{words}]; from sitta.cli import main; main()"
    heavy = "{'torch', 'numpy', 'monai', 'scipy', 'pandas', 'matplotlib', 'PIL', 'jinja2'}"
    watch = f"import atexit; atexit.register(lambda: print({heavy}.isdisjoint(sys.modules)))"
    assert run(f"import sys; {watch}; {code}")[-1] == "True"


def seconds(*words):
    """Of the processor, which no other process can make more of: the least of three starts."""

    def spent():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def one():
        before = spent()
        subprocess.run([sys.executable, *words], capture_output=True, check=True)
        return spent() - before

    return min(one() for _ in range(3))


def test_help_is_fast():
    """Less than twice what help costs that says nothing, so half a second wherever that is 0.25."""
    empty = "import typer; app = typer.Typer(); app.command()(lambda: None); app(['--help'])"
    assert seconds("-m", "sitta", "--help") < 2 * seconds("-c", empty)


def test_the_command_is_the_function_that_tests_call():
    (command,) = entry_points(group="console_scripts", name="sitta")
    assert command.load() is main


def test_version_is_one_place():
    done = subprocess.run(
        [sys.executable, "-m", "sitta", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"sitta {sitta.__version__}"
    assert (
        f"## [{sitta.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
        or "Unreleased" in (ROOT / "CHANGELOG.md").read_text()
    )


def test_no_path_or_picture_of_private_data_is_tracked():
    listed = subprocess.run(
        ["git", "ls-files"],  # noqa: S607  (whatever git there is)
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in listed.stdout.split():
        assert not re.search(r"(CHNCXR|MCUCXR|JPCLN|\.dcm$|\.nii)", name), name
