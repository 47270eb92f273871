"""The command line as a person runs it."""

import json
import re
import subprocess
import sys

import pytest

from sitta.models import UNet, save
from sitta.models.zoo import digest
from tests.shell import sitta_command, sitta_process


def test_demo_prints_a_table_and_names_its_picture(tmp_path):
    done = sitta_process("demo", "--images", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    for word in ("cedar", "fir", "rowan", "InTEnt", "Adapt", "oracle", "worse", "lambda"):
        assert word in done.stdout
    assert "Picture: sitta-demo/demo.png" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert (tmp_path / "sitta-demo" / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_demo_json_holds_computed_figures(tmp_path):
    done = sitta_command("demo", "--images", "2", "--json", "--out", "here", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert [r["site"] for r in found["rows"]] == ["cedar", "fir", "rowan"]
    for row in found["rows"]:
        fixed = list(row["fixed"].values())
        assert len(fixed) == 6
        assert row["oracle"] >= max(fixed) - 1e-6
        assert 0 <= row["worse"] <= row["images"] == 2
    mean = {k: sum(r[k] for r in found["rows"]) / 3 for k in ("intent", "adapt", "oracle")}
    source = sum(r["fixed"]["1.0"] for r in found["rows"]) / 3
    assert source + 0.03 < mean["intent"] < mean["oracle"]
    assert source + 0.03 < mean["adapt"]
    assert (tmp_path / "here" / "demo.png").exists()


@pytest.mark.parametrize(
    ("start", "words", "code", "message"),
    [
        (sitta_process, ["demo", "--images", "0"], 2, "greater than or equal to 1"),
        (sitta_process, ["nonsense"], 2, "No such command"),
        (sitta_command, ["demo", "--images", "1", "--out", "file"], 2, "file"),
    ],
)
def test_wrong_use_ends_in_one_sentence(start, words, code, message, tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = start(*words, cwd=tmp_path)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_methods_lists_the_registry(tmp_path):
    done = sitta_command("methods", cwd=tmp_path)
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    found = json.loads(sitta_command("methods", "--json", cwd=tmp_path).stdout)
    assert [m["name"] for m in found] == [
        "source",
        "adapt",
        "intent",
        "tent",
        "sar",
        "fseg",
        "sita",
        "memo",
    ]
    for m in found:
        assert m["name"] in done.stdout
        assert m["settings"]
        assert m["cost"]["forward"] >= 1
        for s in m["settings"]:
            assert set(s) == {"name", "type", "default", "range", "help"}
    one = sitta_command("methods", "memo", cwd=tmp_path).stdout
    assert "intent-paper" in one
    wrong = sitta_command("methods", "tempt", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "no such method" in wrong.stderr


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    folder = tmp_path / "models"
    net = UNet(1, 1, channels=4, multipliers=(1, 2))
    about = {"source": "chest/mcu", "images": {"train": 11}, "preprocess": {"size": [32, 32]}}
    save(net, folder / "chest-mcu.safetensors", about, half=True)
    (folder / "SHA256SUMS").write_text(
        f"{digest(folder / 'chest-mcu.safetensors')}  chest-mcu.safetensors\n"
    )
    monkeypatch.setenv("SITTA_ZOO", str(folder))
    return folder


def test_zoo_lists_models(zoo, tmp_path):
    done = sitta_command("zoo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    for word in ("phantom-alder", "chest-mcu", "chest/mcu", "validation Dice", "MB"):
        assert word in done.stdout
    wrong = sitta_command("zoo", "chest-moon", cwd=tmp_path)
    assert wrong.returncode == 2
    assert re.search("no such model.*chest-mcu", wrong.stderr)


def test_zoo_refuses_a_file_that_was_changed(zoo, tmp_path):
    path = zoo / "chest-mcu.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    done = sitta_command("zoo", "--verify", cwd=tmp_path)
    assert done.returncode == 1
    assert "damaged or was changed" in done.stdout
    done = sitta_command("inspect", "chest-mcu", cwd=tmp_path)
    assert done.returncode == 2
    assert "damaged or was changed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("words", "seen"), [("'--help'", "--verify"), ("'--json'", "phantom")])
def test_zoo_answers_without_torch(words, seen):
    code = "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules));"
    code += f"sys.argv = ['sitta', 'zoo', {words}]; from sitta.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen in done.stdout
    assert done.stdout.split()[-1] == "False"
