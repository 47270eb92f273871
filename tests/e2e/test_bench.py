"""The benchmark as a person runs it."""

import json

import pytest

from sitta.benchmark import rows
from sitta.benchmark.tables import build
from tests.benchmark import synthetic, tiny
from tests.shell import sitta_command


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bench", "plan", "wrong.toml"), "wrong.toml, line 18: There is no such method."),
        (("bench", "run", "wrong.toml", "--out", "out"), "line 18"),
        (("bench", "run", "plan.toml", "--out", "out", "--repeat", "2"), "Allowed: 0 to 1"),
        (("bench", "plan", "plan.toml", "--task", "chest"), "Allowed: phantom"),
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


def test_a_plan_shows_what_one_repeat_comes_to(tmp_path):
    tiny.make(tmp_path)
    words = ("bench", "plan", "plan.toml", "--repeat", "1", "--task", "phantom", "--json")
    done = sitta_command(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = {row["kind"]: row["work"] for row in json.loads(done.stdout)}
    assert found == {"train": 2, "members": 4, "methods": 2}  # no sweep, none trained otherwise


def test_collect_says_when_images_were_compared_by_number_alone(tmp_path):
    made = synthetic.make(images=2, repeats=1, drawn=2)
    kept = made[(made["task"] == "chest") & made["method"].isin(["source", "intent"])]
    rows.write(kept, tmp_path / "run" / "cells" / "a.csv")
    done = sitta_command("bench", "collect", "run", "--out", "old", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (tmp_path / "old" / "images.csv").unlink()
    rows.write(kept.assign(repeat=1), tmp_path / "more" / "cells" / "a.csv")
    done = sitta_command("bench", "collect", "old", "more", "--out", "new", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("old: images were compared by their number alone")
    assert "more:" not in done.stderr
    assert (tmp_path / "new" / "images.csv").is_file()
    assert (tmp_path / "new" / "tables" / "members.tex").is_file()


def test_a_table_in_a_file_is_as_wide_as_it_is(tmp_path):
    made = synthetic.make(images=3, repeats=1, drawn=3)
    rows.write(made, tmp_path / "rows.csv.gz")
    done = sitta_command("bench", "table", "rows.csv.gz", "members", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    cells = build(made, ["members"])[0].cells.iloc[0]
    row = next(line for line in done.stdout.splitlines() if cells["Method"] in line)
    assert row.split() == " ".join(cells).split()


def test_a_table_or_figure_without_rows_says_so(tmp_path):
    rows.write(synthetic.make(images=2, repeats=1, drawn=1), tmp_path / "rows.csv.gz")
    for kind, missing in (("table", "seeds"), ("figure", "sweep")):
        found = tmp_path / f"{kind}.csv"
        table = rows.read(tmp_path / "rows.csv.gz")
        rows.write(table[table["members"].isin([1, 6])], found)
        done = sitta_command("bench", kind, found.name, missing, cwd=tmp_path)
        assert done.returncode == 0
        assert f"{missing}: the results have no rows for it." in done.stderr
