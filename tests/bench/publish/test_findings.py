"""The first sentences of the page say what the rows say, whatever rows there are."""

import pytest

from sitta.bench.publish.findings import findings
from sitta.bench.run.results import Results, unfinished
from sitta.bench.tables import TABLES
from tests.bench.synthetic import make


@pytest.fixture(scope="module")
def rows():
    return make(images=6, repeats=1, drawn=3)


def test_every_task_and_the_harm_have_a_sentence(rows):
    said = findings(rows)
    assert [s.split(":")[0] for s in said[:4]] == [
        *("On chest", "On retina", "On spinal"),
        "Mean over tasks",
    ]
    assert "points of Dice [" in said[0]
    assert "of 18 splits" in said[4]
    assert said[5].endswith("points above it.")


def test_what_is_best_in_hindsight_has_its_sentence(rows):
    table = TABLES["paired"](rows)[0].data
    last = table[table["task"] == "mean over tasks"].set_index("against").iloc[-2:]
    for one, (name, row) in zip(findings(rows)[-2:], last.iterrows(), strict=True):
        change = f"InTEnt {row.difference:+.1f} points of Dice [{row.low:+.1f}, {row.high:+.1f}]"
        assert one == f"{change} against the {name}, chosen in hindsight.".replace("up: ", "up, ")
    assert [name.split(" (")[0].split(":")[0] for name in last.index] == [
        "best fixed lambda of each task",
        "runner-up",
    ]
    assert "against the runner-up, " in findings(rows[rows["task"] == "chest"])[-1]


def test_one_image_has_no_interval(rows):
    assert "[" not in findings(rows[rows["image"] == "image-000"])[0]


def test_a_mixture_may_beat_the_oracle(rows):
    poor = rows.assign(dice=rows["dice"].where(rows["method"] != "oracle", 0.1))
    assert "points below it" in findings(poor)[5]


def test_other_numbers_of_members_have_their_sentences(rows):
    some = rows[~rows["members"].isin([2, 3, 5, 13, 50])]
    eleven = some.assign(members=some["members"].replace(6, 11))
    assert len(findings(eleven)) == len(findings(rows))


def test_without_source_or_intent_there_is_nothing_to_say(rows):
    assert findings(rows[rows["method"] != "source"]) == []
    assert findings(rows[rows["source"] == rows["target"]]) == []


def test_what_a_run_has_yet_to_do_is_said(results, tmp_path):
    assert unfinished(results.folder) == ""
    assert unfinished(tmp_path / "rows.csv.gz") == ""
    half = Results(tmp_path)
    (tmp_path / "work.json").write_bytes((results.folder / "work.json").read_bytes())
    cell = "cells/phantom-alder-r0/birch/tent-lam=0.csv"
    (tmp_path / cell).parent.mkdir(parents=True)
    (tmp_path / cell).write_bytes((results.folder / cell).read_bytes())
    said = unfinished(half.folder)
    assert said.startswith("The run is not finished: phantom members 0 of ")
    assert "phantom methods 1 of 9" in said
