"""One key for each variant: equal after a round trip through rows, and in the order of tables."""

import math
import pickle

import pandas as pd
import pytest

from sitta.bench.variant import COLUMNS, Variant
from tests import ROOT

PUBLISHED = pd.read_csv(
    ROOT / "docs/results/rows.csv.gz", usecols=list(COLUMNS), keep_default_na=False
).drop_duplicates()


def test_every_published_variant_comes_back_from_its_columns():
    rows = PUBLISHED.assign(lam=pd.to_numeric(PUBLISHED["lam"])).to_dict("records")
    variants = [Variant.of_row(row) for row in rows]
    assert len(set(variants)) == len(rows) > 40
    for variant, row in zip(variants, rows, strict=True):
        columns = variant.columns
        assert tuple(columns) == COLUMNS
        assert all(columns[k] == row[k] or columns[k] != columns[k] for k in COLUMNS)
        assert math.isnan(columns["lam"]) == math.isnan(row["lam"])
        assert Variant.of_row(columns) == variant
        assert pickle.loads(pickle.dumps(variant)) == variant  # noqa: S301  (our own)


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", ()),
        ("op=vote views=8", (("op", "vote"), ("views", "8"))),
        ("lambdas=1+0.3+0 output=my out", (("lambdas", "1+0.3+0"), ("output", "my out"))),
    ],
)
def test_settings_are_pairs_and_not_text(text, pairs):
    row = {**Variant("intent", None, "vote", 6).columns, "settings": text}
    assert Variant.of_row(row).settings == pairs
    assert Variant.of_row(row).columns["settings"] == text


def test_variants_sort_as_tables_list_them():
    ordered = [
        Variant("source", 1.0),
        Variant("source", 0.5),
        Variant("source", 0.5, settings=(("statistics", "in-layer"),)),
        Variant("tent", 1.0),
        Variant("tent", 0.0),
        Variant("memo", 0.0),
        Variant("memo"),
        Variant("of-tomorrow", 0.5),
        Variant("intent", None, "average", 6),
        Variant("intent", None, "ent-baln", 6),
        Variant("intent", None, "ent-baln", 11),
        Variant("oracle", None, "", 6),
    ]
    assert sorted([*ordered[1:], ordered[0]]) == ordered


def test_a_label_that_is_spelled_out_is_of_the_same_key():
    oracle, other = Variant("oracle", members=11), Variant("oracle", members=11, spelled_out=True)
    assert oracle == other
    assert hash(oracle) == hash(other)
    assert other.label == "Oracle lambda [11 members]"


@pytest.mark.parametrize(
    ("variant", "label"),
    [
        (Variant("source", 1.0), "Source (no adaptation)"),
        (Variant("source", 0.5), "Fixed lambda 0.5"),
        (Variant("tent", 0.5), "Tent, lambda 0.5"),
        (Variant("memo", settings=(("views", "8"),)), "MEMO (views=8)"),
        (Variant("intent", None, "ent-baln", 6), "InTEnt"),
        (Variant("intent", None, "vote", 6), "InTEnt vote"),
        (Variant("intent", None, "ent-baln", 11), "InTEnt ent-baln, 11 members"),
        (Variant("of-tomorrow", 0.5), "of-tomorrow, lambda 0.5"),
    ],
)
def test_labels_are_what_people_call_variants(variant, label):
    assert variant.label == label
