"""The package as a whole: what it exports, imports and drags in, and how fast it answers."""

import ast
import re
import resource
import subprocess
import sys
import tomllib
from importlib.metadata import distributions, entry_points

import pytest
import torch
from packaging.version import Version

import sitta
from sitta._version import DISTRIBUTION
from sitta.cli import main
from sitta.data import phantom
from tests import ROOT

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
    parts = "data.check data.prepare data.overview prediction.notes inference inference.cluster"
    parts += " report.page report.card_image cli"
    names = ", ".join(f"sitta.{part}" for part in parts.split())
    assert not third_party(f"import {names}, sys") & {"torch", "monai", "onnx", "onnxruntime"}


def test_all_is_exactly_what_is_public():
    assert dir(sitta) == sorted(sitta.__all__)
    for name in sitta.__all__:
        assert getattr(sitta, name) is not None
    expected = {"Adapt", "InTEnt", "Source", "Tent", "SAR", "FSeg", "SITA", "MEMO"}
    expected |= {"Prediction", "export_onnx", "inspect", "load", "method", "methods", "models"}
    expected |= {"calibrate"}
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


def test_the_lock_has_the_tested_versions_with_hashes_and_leaves_torch_to_the_machine():
    pinned = dict(
        line.lower().split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    blocks = re.split(r"(?m)^(?=\S)", (ROOT / "requirements.lock").read_text())
    locked = {}
    for block in filter(None, blocks):
        name, version = re.match(r"([a-z0-9-]+)==([^ ;]+)", block).groups()
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), name
        locked[name] = version
    tested = {name.replace("_", "-"): version for name, version in pinned.items()}
    assert {n: v for n, v in locked.items() if n in tested} == {
        n: tested[n] for n in locked if n in tested
    }
    assert not [name for name in locked if re.match(r"torch|nvidia|cuda|triton", name)]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(d for n in extras if n != "dev" for d in extras[n])]
    assert {re.split("[>=]", d)[0] for d in wanted} - {"torch"} <= set(locked)


def test_pre_commit_runs_what_make_check_runs():
    hooks = re.findall(r"entry: \.venv/bin/(.+?),", (ROOT / ".pre-commit-config.yaml").read_text())
    recipe = (ROOT / "Makefile").read_text().split("\ncheck:")[1].split("\n\n")[0]
    assert hooks == re.findall(r"\$\(BIN\)/(.+)", recipe)


def test_spelling_is_checked_in_tracked_files_alone():
    """What `make demo` leaves behind holds base64, in which codespell finds mistakes."""
    recipe = (ROOT / "Makefile").read_text().split("\ncheck:")[1].split("\n\n")[0]
    assert "git ls-files -z | xargs -0 $(BIN)/codespell" in recipe


def test_ci_runs_the_two_commands_of_the_readme_and_the_fuzzer_in_one_clone():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    commands = [line.split(" #")[0].removeprefix("exec ") for line in lines if "make " in line]
    assert commands == [
        "make demo",
        "make .venv/installed-dev",
        "PYTHONPATH=src make fuzz FUZZ_SECONDS=60 &",
        "make .venv/browser .venv/nnunet",
        "make test",
    ]
    assert "wait $!" in lines  # which ends with the code of the fuzzer


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["demo", "--help"], ["doctor", "--help"]]
)
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
    commands = entry_points(group="console_scripts", name="sitta")
    assert {command.load() for command in commands} == {main}  # an old clone has two of them


def test_version_is_one_place():
    done = subprocess.run(
        [sys.executable, "-m", "sitta", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"sitta {sitta.__version__}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["project"]["name"] == DISTRIBUTION
    home = ROOT / project["tool"]["hatch"]["version"]["path"]
    homes = [path for path in (ROOT / "src").rglob("*.py") if "__version__ =" in path.read_text()]
    assert homes == [home]


def test_changelog_ends_at_this_version():
    """Changes wait under Unreleased; a released heading never runs ahead of the package."""
    first, *others = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    released = others if first == "Unreleased" else [first, *others]
    versions, current = [Version(heading) for heading in released], Version(sitta.__version__)
    assert versions == sorted(set(versions), reverse=True)
    assert all(version <= current for version in versions)
    assert first == "Unreleased" or versions[0] == current


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
    corpus = "tests/data/corpus/"  # made by code, and too small to show anybody
    names = listed.stdout.split()
    assert max((ROOT / name).stat().st_size for name in names if name.startswith(corpus)) < 4096
    for name in (n for n in names if not n.startswith(corpus)):
        assert not re.search(r"(CHNCXR|MCUCXR|JPCLN|\.dcm$|\.nii)", name), name


AS_ON_WINDOWS = """
import importlib, os, pkgutil, signal, sys
import psutil  # has code of its own for each system
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
os.environ["USERNAME"] = "somebody"  # which Windows sets, and torch's imports ask for
import torch
for where, names in ((os, "fork getuid"), (signal, "SIGKILL SIGHUP pthread_sigmask")):
    for name in names.split():
        delattr(where, name)
import sitta
for module in pkgutil.walk_packages(sitta.__path__, "sitta."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if error.name.split(".")[0] in {"fcntl", "resource", "pwd", "grp", "termios"}:
                raise
"""


def test_everything_can_be_imported_and_files_predicted_as_on_windows(tmp_path):
    phantom.write(tmp_path, "rowan", 2, (32, 32))
    images = tmp_path / "phantom" / "rowan" / "images"
    words = ["sitta", "predict", "phantom-alder", str(images), "-o", str(tmp_path)]
    started = f"{AS_ON_WINDOWS}\nsys.argv = {words}\nsitta.cli.main()"
    done = subprocess.run([sys.executable, "-c", started], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "summary.csv").read_text().splitlines()) == 3


def test_no_module_asks_for_a_process_by_a_signal():
    """On Windows, ``os.kill(pid, 0)`` ends the process."""
    for path in (ROOT / "src").rglob("*.py"):
        calls = [n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Call)]
        assert not [c.lineno for c in calls if ast.unparse(c.func) == "os.kill"], path
