"""The finding of the paper, in small: lambda moves the Dice by much, a method by little."""

import sys

import pytest

from tests import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

LABELS = ("Source", "Tent", "SAR", "FSeg", "SITA", "MEMO")


@pytest.fixture(scope="module")
def table():
    from methods import ORACLE, scores

    return scores(1, ("cedar", "rowan"), (*LABELS, ORACLE))


def test_lambda_moves_more_than_methods(table):
    table = {k: {c: float(v.mean()) for c, v in row.items()} for k, row in table.items()}
    source = table["Source"]
    spread = max(source[c] for c in ("1", "0.5", "0")) - min(source[c] for c in ("1", "0.5", "0"))
    moves = [
        abs(table[label][c] - source[c])
        for label in LABELS[1:]
        for c in ("1", "0.5", "0")
        if c in table[label]
    ]
    assert spread > 0.1
    assert sum(moves) / len(moves) < spread / 5
    assert max(moves) < spread


def test_the_table_can_be_printed(table):
    from methods import markdown

    text = markdown(table, 1, ("cedar",))
    assert "| SITA |  | " in text  # lambda 1 does not apply
    assert all(f"| {label} |" in text for label in LABELS)
