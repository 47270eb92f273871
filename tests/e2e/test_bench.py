"""The benchmark as a person runs it."""

import json
import os
import signal
import time

import pytest

from sitta.bench.plan.cells import expand
from sitta.bench.run import scheduler
from sitta.bench.run.results import Results
from sitta.bench.stats import rows
from sitta.bench.tables import build
from tests.bench import synthetic, tiny
from tests.shell import FORKED, _run, sitta_command


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bench", "plan", "wrong.toml"), "wrong.toml, methods[0].name: There is no such method."),
        (("bench", "run", "wrong.toml", "--out", "out"), "methods[0].name"),
        (("bench", "run", "plan.toml", "--out", "out", "--repeat", "2"), "Allowed: 0 to 1"),
        (("bench", "plan", "plan.toml", "--task", "chest"), "Allowed: phantom"),
        (("bench", "status", "nowhere"), "holds no benchmark"),
        (("bench", "table", "nowhere"), "There is no file or folder 'nowhere'"),
        (("bench", "table", "nowhere", "--json", "--out", "out"), "--json writes no files"),
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


@pytest.fixture
def glances(monkeypatch):
    """A run that does nothing, but is looked at a few times."""

    def run(plan, out, *, watch, **rest):
        results = Results(out)
        results.open(plan, expand(plan))
        for done in (0, 0, 7, 7, 7, 9):
            watch(done, 54)
        return results

    monkeypatch.setattr(scheduler, "run", run)


def test_a_run_without_a_terminal_tells_how_far_it_is(tmp_path, glances):
    tiny.make(tmp_path)
    words = ("bench", "run", "plan.toml", "--out", "out")
    done = sitta_command(*words, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [f"{n} of 54 done" for n in (0, 7, 9)]
    assert "9 of 54 done" not in done.stdout
    silent = sitta_command(*words, "--json", cwd=tmp_path)
    assert silent.stderr == ""
    assert json.loads(silent.stdout)["failures"] == {}


def apart(words, folder, err):
    """A command in a group of processes of its own, as a shell starts it, with Ctrl-C allowed."""
    os.setpgid(0, 0)
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _run(words, err, None)


def test_a_person_who_stops_a_run_sees_no_code_and_can_go_on(tmp_path):
    tiny.make(tmp_path, tiny.ONCE.partition("[[methods]]")[0], images=2)
    words, err = ["bench", "run", "plan.toml", "--out", "out"], tmp_path / "err.txt"
    process = FORKED.Process(target=apart, args=([*words, "--workers", "2"], tmp_path, str(err)))
    process.start()
    while not any((tmp_path / "out").glob("locks/*")):
        assert process.is_alive(), err.read_text()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 130  # as shells say it
    assert "Traceback" not in err.read_text()
    again = sitta_command(*words, "--workers", "1", "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert all(row["done"] == row["of"] for row in json.loads(again.stdout)["work"])


def test_tables_are_those_of_the_rows_that_are_published(tmp_path):
    made = synthetic.make(images=5, repeats=2, drawn=3)
    kept = made[(made["task"] == "chest") & made["method"].isin(["source", "intent", "tent"])]
    rows.write(kept, tmp_path / "run" / "cells" / "a.csv")
    done = sitta_command("bench", "collect", "run", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for form in ("csv", "markdown", "latex"):
        words = ("bench", "table", "out", "--format", form, "--out", "again")
        assert sitta_command(*words, cwd=tmp_path).returncode == 0
    published, again = (
        {path.name: path.read_bytes() for path in (tmp_path / place).iterdir()}
        for place in ("out/tables", "again")
    )
    assert len(published) > 20
    assert again == published


def test_a_table_has_a_name_of_its_own(tmp_path):
    made = synthetic.make(images=3, repeats=1, drawn=3)
    rows.write(made[made["task"] == "chest"], tmp_path / "rows.csv.gz")

    def table(*names):
        return sitta_command("bench", "table", "rows.csv.gz", *names, "--json", cwd=tmp_path)

    whole = json.loads(table("trust").stdout)
    assert list(whole) == ["trust-correlation", "trust-finding", "trust-notes"]
    done = table("trust-finding", "splits-chest-methods")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert list(found) == ["trust-finding", "splits-chest-methods"]
    assert found["trust-finding"] == whole["trust-finding"]
    for name in ("trust-find", "trust-", "thrust-finding", "splits-retina-methods"):
        wrong = table(name)
        assert wrong.returncode == 2
        assert "There is no such table. Allowed: overall, members" in wrong.stderr
        assert repr(name) in wrong.stderr
    assert "trust-correlation, trust-finding" in table("trust-find").stderr


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
