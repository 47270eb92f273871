"""The file of decisions: what is written is read back, and no cell of it is a formula."""

import csv
import dataclasses
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitta._util import files
from sitta._util.text import FORMULA, cell, printable, uncell
from sitta.errors import InvalidSetting
from sitta.prediction.decisions import COLUMNS, DECISIONS, Decision, from_csv, read, to_csv, write

HOSTILE = [
    "a;=1+1",
    "a; '-1",
    ";'=1",
    "=1+1",
    "'=1+1",
    "''=x",
    " +1",
    "\u00a0@x",
    "-2",
    'a,b"c',
    "\x1b[31m",
    "\ud800",
    "'tis",
]


@given(st.text(max_size=60), st.text(max_size=60))
def test_what_is_written_is_read_back(name, remark):
    one = Decision(file=name, decision="accept", remark=remark, slice=3, threshold=0.35)
    assert from_csv(to_csv([one])) == [one]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_cell_is_a_formula(text):
    made = to_csv([Decision(file=text, remark=text, reviewer=text)])
    _, row = csv.reader(io.StringIO(made))
    cells = [cell for value in row for cell in value.split(";")]  # as some countries separate them
    assert not any(cell.lstrip().startswith(FORMULA) for cell in cells)
    assert "\x1b" not in made
    assert uncell(cell(text)) == printable(text)


def test_the_columns_that_people_were_promised():
    assert COLUMNS == (
        "file",
        "slice",
        "decision",
        "mask",
        "threshold",
        "remark",
        "reviewer",
        "time",
        "mask_sha256",
    )
    assert list(DECISIONS) == ["accept", "needs-fix", "reject"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("decision", "maybe"),
        ("mask", "best"),
        ("mask", "member@x"),
        ("threshold", 0.0),
        ("threshold", 1.0),
        ("slice", -1),
        ("remark", "x" * 501),
    ],
)
def test_what_is_none_is_refused(field, value):
    with pytest.raises(InvalidSetting, match=field):
        Decision(file="a", **{field: value})


def test_a_file_that_another_program_saved(tmp_path):
    saved = to_csv([Decision(file="a.png", decision="reject")])
    assert from_csv("\ufeff" + saved)[0].decision == "reject"
    with pytest.raises(InvalidSetting, match="no column decision"):
        from_csv(saved.replace("decision", "verdict", 1))
    with pytest.raises(InvalidSetting, match="no number"):
        from_csv(saved.replace("a.png,", "a.png,one"))
    assert read(tmp_path / "none.csv") == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"x" * 200_000, "is damaged"),
        (b"a," + b"9" * 5000, "no number"),
        (b"a,,accept,member@" + b"9" * 5000, "The mask of a decision is none"),
        (b"\xff\xfe", "no text"),
    ],
)
def test_a_hostile_file_is_refused_in_a_short_sentence(tmp_path, content, said):
    path = tmp_path / "decisions.csv"
    path.write_bytes(",".join(COLUMNS).encode() + b"\n" + content)
    with pytest.raises(InvalidSetting, match=said) as caught:
        read(path)
    assert len(str(caught.value)) < 300
    with pytest.raises(InvalidSetting, match="is no file"):
        read(tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path, one = tmp_path / "decisions.csv", Decision(file="a", decision="accept")
    write(path, [one])

    def full_disk(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(files.os, "fsync", full_disk)
    with pytest.raises(OSError, match="Input"):
        write(path, [dataclasses.replace(one, decision="reject")])
    assert read(path) == [one]
    assert [p.name for p in tmp_path.iterdir()] == ["decisions.csv"]
