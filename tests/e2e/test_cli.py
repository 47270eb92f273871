"""The command line as a person runs it."""

import json
import subprocess
import sys

import pytest


def sitta_command(*words, cwd):
    command = [sys.executable, "-m", "sitta", *words]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=200
    )


def test_demo_prints_a_table_and_names_its_picture(tmp_path):
    done = sitta_command("demo", "--images", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    for word in ("cedar", "fir", "rowan", "InTEnt", "oracle", "worse", "lambda"):
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
    mean = {k: sum(r[k] for r in found["rows"]) / 3 for k in ("intent", "oracle")}
    source = sum(r["fixed"]["1.0"] for r in found["rows"]) / 3
    assert source + 0.03 < mean["intent"] < mean["oracle"]
    assert (tmp_path / "here" / "demo.png").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["demo", "--images", "0"], 2, "greater than or equal to 1"),
        (["nonsense"], 2, "No such command"),
        (["demo", "--images", "1", "--out", "file"], 2, "file"),
    ],
)
def test_wrong_use_ends_in_one_sentence(words, code, message, tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = sitta_command(*words, cwd=tmp_path)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_methods_lists_the_registry(tmp_path):
    done = sitta_command("methods", cwd=tmp_path)
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    found = json.loads(sitta_command("methods", "--json", cwd=tmp_path).stdout)
    assert [m["name"] for m in found] == ["source", "intent", "tent", "sar", "fseg", "sita", "memo"]
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
