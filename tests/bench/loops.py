"""Averages of the benchmark in plain loops, for its tables to be held against."""

from statistics import fmean

from sitta.bench.variant import Variant
from tests.bench.synthetic import make

SOURCE, INTENT, ORACLE = "Source (no adaptation)", "InTEnt", "Oracle lambda"
ALL_SPLITS = "mean over splits"


def named():
    """Made-up rows with the label of their variant in a column of its own."""
    found = make(images=7, drawn=4)
    return found.assign(name=[Variant.of_row(row).label for row in found.to_dict("records")])


def images(rows, name, value="dice", drawn=False, training="plain", home=False):
    """Figures of a variant by task, source, target and image: a list over repeats."""
    kept = (rows["name"] == name) & (rows["training"] == training)
    kept &= (rows["source"] == rows["target"]) == home
    found = {}
    for row in rows[kept & (rows["drawn"] | (not drawn))].to_dict("records"):
        key = (row["task"], row["source"], row["target"], row["image"])
        found.setdefault(key, []).append(row[value])
    return found


def splits(rows, name, **options):
    """Mean over images of the mean over repeats, by task, source and target."""
    found = {}
    for key, values in images(rows, name, **options).items():
        found.setdefault(key[:3], []).append(fmean(values))
    return {key: fmean(values) for key, values in found.items()}


def mean_by(means, keys):
    """Mean of split means by the first so many keys."""
    found = {}
    for key, value in means.items():
        found.setdefault(key[:keys], []).append(value)
    return {key: fmean(values) for key, values in found.items()}


def by_method(table, column):
    return dict(zip(table.data["method"], table.data[column], strict=True))
