"""The benchmark as a person runs it."""

import pytest

from tests.benchmark import tiny
from tests.shell import sitta_command


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
    assert not (tmp_path / "out").exists()
