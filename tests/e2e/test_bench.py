"""The benchmark as a person runs it."""

import json
import subprocess
import sys

import pytest

from tests.benchmark import tiny


def sitta_command(*words, cwd):
    return subprocess.run(
        [sys.executable, "-m", "sitta", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
        timeout=250,
    )


def test_from_plan_to_page(tmp_path):
    tiny.make(tmp_path, tiny.ONCE)
    done = sitta_command("bench", "run", "plan.toml", "--out", "out", "--workers", 2, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "52 of 52 done" in done.stdout
    told = sitta_command("bench", "status", "out", "--json", cwd=tmp_path)
    assert {row["kind"] for row in json.loads(told.stdout)["work"]} >= {"train", "members"}
    shown = sitta_command("bench", "table", "out", "overall", "paired", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "Source (no adaptation)" in shown.stdout
    assert "Oracle lambda" in shown.stdout
    page = sitta_command("bench", "report", "out", "--out", "bench.html", cwd=tmp_path)
    assert page.returncode == 0, page.stderr
    text = (tmp_path / "bench.html").read_text()
    assert "InTEnt" in text
    assert "not a medical device" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bench", "plan", "wrong.toml"), "wrong.toml, line 18: There is no such method."),
        (("bench", "run", "wrong.toml", "--out", "out"), "line 18"),
        (("bench", "status", "nowhere"), "holds no benchmark"),
        (("bench", "table", "nowhere"), "not a table of results"),
        (("bench", "run", "none.toml", "--out", "out"), "No such file"),
    ],
)
def test_mistakes_end_in_one_sentence(words, said, tmp_path):
    tiny.make(tmp_path)
    (tmp_path / "wrong.toml").write_text(tiny.PLAN.replace('"tent"', '"tints"'))
    done = sitta_command(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
