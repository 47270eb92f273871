"""The benchmark as a person runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

from sitta.cli import main
from tests.benchmark import tiny

SMOKE = Path(__file__).parents[2] / "benchmarks" / "smoke.sh"


def test_a_whole_benchmark_on_this_machine_and_on_ray():
    """What ``make bench-smoke`` runs: plan, run, status, tables, figures and the page."""
    pytest.importorskip("ray")
    done = subprocess.run([SMOKE], capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("74 of 74 done") == 3
    assert "the tables of both runs are equal" in done.stdout
    for name in ("overall", "lambda-phantom", "change-phantom", "trust-phantom", "sweep"):
        assert f"figures/{name}.svg" in done.stdout
    assert "report.html" in done.stdout


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
def test_mistakes_end_in_one_sentence(words, said, tmp_path, monkeypatch, capsys):
    tiny.make(tmp_path)
    (tmp_path / "wrong.toml").write_text(tiny.PLAN.replace('"tent"', '"tints"'))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["sitta", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
