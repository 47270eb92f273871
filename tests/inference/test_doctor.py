"""``sitta doctor``: what is wrong with a machine is found, with what to do."""

import builtins
import json
import re
import subprocess
import sys
import tomllib
from types import SimpleNamespace

import pytest

import sitta
from sitta import errors
from sitta._util import distribution
from sitta.inference import doctor
from tests import ROOT
from tests.shell import sitta_command

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOR_DEVELOPERS = {"dev", "docs"}


def problems(found):
    return [finding for finding in found.findings if finding.severity == doctor.PROBLEM]


@pytest.fixture
def as_package(monkeypatch, tmp_path):
    """As it is where there is no clone."""
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "site-packages" / "sitta" / "errors.py"))


def test_a_machine_on_which_all_works():
    done = sitta_command("doctor", "--json")
    assert done.returncode == 0, done.stdout
    told = json.loads(done.stdout)
    assert told["healthy"]
    assert told["versions"]["sitta"] == sitta.__version__
    needed = {re.split("[>=]", text)[0] for text in PROJECT["dependencies"]}
    assert needed == set(told["versions"]) - {"sitta", "python", "system"}
    assert all(told["versions"].values())
    assert "cpu" in told["devices"]
    assert told["threads"]["torch"] >= 1
    assert all(folder["writable"] and folder["free"] > 0 for folder in told["folders"])
    assert "chest-mcu" in [model["name"] for model in told["zoo"]]
    for extra in told["extras"]:
        assert extra["for"]
        assert extra["install"] == f"pip install -e '.[{extra['name']}]'"


def test_what_is_shown_has_every_section_and_whole_pip_lines(monkeypatch, as_package):
    monkeypatch.setattr(distribution, "_installed", lambda name: None)
    monkeypatch.setattr(distribution.metadata, "requires", lambda name: ["a; extra == 'dicom-seg'"])
    monkeypatch.setattr(doctor, "_devices", lambda torch, findings: ["cpu"])
    monkeypatch.setattr(doctor, "_threads", lambda torch, findings: {"cores": 2})
    shown = sitta_command("doctor", COLUMNS="60").stdout
    for word in ("versions", "devices", "threads", "memory", "folders", "zoo", "extras"):
        assert re.search(rf"^{word}$", shown, re.MULTILINE), word
    assert "masks as DICOM SEG       pip install 'sitta-seg[dicom-seg]'\n" in shown
    assert re.search(r"^  serve +web page, REST service +installed$", shown, re.MULTILINE)
    assert shown.endswith("\nAll is well.\n")


def test_every_extra_of_users_says_what_it_is_for():
    assert set(doctor.EXTRAS) == set(PROJECT["optional-dependencies"]) - FOR_DEVELOPERS


def test_without_torch_it_works_and_says_what_to_do():
    code = "import sys; sys.modules['torch'] = None; sys.argv = ['sitta', 'doctor', '--json']"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; from sitta.cli import main; main()"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    (problem,) = [found for found in told["findings"] if found["severity"] == "problem"]
    assert problem["what"].startswith("torch is missing.")
    assert problem["fix"].startswith("pip install -e .; ")
    assert "CPU" in problem["fix"]
    assert told["devices"] == []
    assert not any(model["problem"] for model in told["zoo"])


def test_a_torch_that_cannot_be_loaded(monkeypatch):
    usual = builtins.__import__

    def broken(name, *args, **more):
        if name == "torch":
            raise OSError("libgomp.so.1: cannot open shared object file")
        return usual(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", broken)
    found = []
    assert doctor._torch(found) is None
    assert "cannot be loaded: libgomp.so.1" in found[0].what


def test_packages_that_are_old_or_missing(monkeypatch):
    usual = distribution._installed
    changed = {"pydicom": "2.4.4", "nibabel": None, "uvicorn": None}
    monkeypatch.setattr(
        distribution, "_installed", lambda name: changed[name] if name in changed else usual(name)
    )
    found = doctor.diagnose()
    said = {problem.what: problem.fix for problem in problems(found)}
    assert set(said) == {"pydicom 2.4.4 is older than 3.0.", "nibabel is not installed."}
    assert set(said.values()) == {"pip install -e ."}
    (serve,) = [extra for extra in found.extras if extra["name"] == "serve"]
    assert not serve["installed"]
    assert "uvicorn is not installed" in serve["missing"]


def test_as_a_package_it_reads_what_the_package_declares(monkeypatch, as_package):
    declared = [
        "torch>=2.8",
        "nibabel>=99.1",
        "onnx>=1.17; extra == 'onnx'",
        'ray>=999; extra == "ray"',
    ]
    monkeypatch.setattr(distribution.metadata, "requires", lambda name: declared)
    found = doctor.diagnose()
    assert list(found.versions)[3:] == ["torch", "nibabel"]
    (problem,) = problems(found)
    assert re.fullmatch(r"nibabel \S+ is older than 99.1\.", problem.what)
    assert problem.fix == "pip install sitta-seg"
    extras = {extra["name"]: extra for extra in found.extras}
    assert extras["onnx"]["installed"]
    assert not extras["ray"]["installed"]
    assert extras["ray"]["install"] == "pip install 'sitta-seg[ray]'"


def test_a_copy_that_was_never_installed(monkeypatch, as_package):
    def unknown(name):
        raise distribution.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(distribution.metadata, "requires", unknown)
    assert distribution.requirements() == []


def test_a_namesake_beside_it(monkeypatch):
    monkeypatch.setattr(doctor, "is_installed", lambda name: name == "sitta")
    found = doctor.diagnose()
    assert found.healthy
    assert "pip uninstall sitta, then pip install -e ." in [f.fix for f in found.findings]


@pytest.mark.parametrize("name", ["2.13.0+cpu", "2.13.0", "2.13.0rc1", "2.13"])
def test_versions_are_compared_as_numbers(name):
    assert not distribution.Requirement("torch", "2.8", name).problem
    assert distribution.Requirement("torch", "2.14", name).problem


def test_a_damaged_model(monkeypatch, tmp_path):
    (tmp_path / "lungs.safetensors").write_bytes(b"\0" * 8)
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  lungs.safetensors\n")
    monkeypatch.setenv("SITTA_ZOO", str(tmp_path))
    done = sitta_command("doctor")
    assert done.returncode == 1
    assert "1 damaged: lungs" in done.stdout
    assert re.search(r"problem: .*lungs\.safetensors .*\n  what to do: \S", done.stdout)


def test_a_zoo_that_names_no_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("SITTA_ZOO", str(tmp_path / "gone"))
    (problem,) = problems(doctor.diagnose())
    assert (problem.what, problem.fix) == ("SITTA_ZOO names no folder.", "correct it, or unset it")


def test_a_temporary_folder_that_cannot_be_written(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor.tempfile, "gettempdir", lambda: str(tmp_path / "gone"))
    found = doctor.diagnose()
    (problem,) = problems(found)
    assert "temporary files cannot be written" in problem.what
    assert "TMPDIR" in problem.fix
    assert not found.folders[0]["writable"]
    assert "cannot be written" in sitta_command("doctor").stdout


def test_a_disk_that_is_almost_full(monkeypatch):
    usage = SimpleNamespace(free=3 * 10**6)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage)
    found = doctor.diagnose()
    assert found.healthy
    assert "The disk for temporary files has 3 MB left." in [f.what for f in found.findings]


def test_a_cuda_build_without_a_gpu(monkeypatch):
    monkeypatch.setattr("sitta._util.devices.usable_devices", lambda: ["auto", "cpu"])
    monkeypatch.setattr(doctor.sys, "platform", "linux")
    found = []
    assert doctor._devices(SimpleNamespace(version=SimpleNamespace(cuda="13.0")), found) == ["cpu"]
    assert "no GPU that it can use" in found[0].what
    assert "CPU" in found[0].fix


def test_more_threads_than_cores():
    found = []
    doctor._threads(SimpleNamespace(get_num_threads=lambda: 4096), found)
    assert found[0].what.startswith("torch would compute with 4096 threads on ")
    assert found[0].fix.startswith("set OMP_NUM_THREADS=")
