"""Whether the trust scores of a prediction tell good masks from bad ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu, spearmanr

from sitta.bench.stats.rows import TRUST
from sitta.bench.stats.scores import OVER_SPLITS, OVER_TASKS, of_variant
from sitta.bench.tables.captions import caption
from sitta.bench.tables.table import NUMBER, PRECISE, SHARE, Column, Table, cell, table, tabulate
from sitta.bench.tables.table_data import TableData
from sitta.prediction.scores import SCORES

OWN_TABLE = ("expected_dice", *SCORES["expected_dice"].ends)  # see ``expected_dice``
# Each trust score that tells good from bad, and whether a high value speaks for a bad mask.
SIGNALS = {
    name: SCORES[name].better == "lower"
    for name in TRUST
    if name in SCORES and SCORES[name].better != "neither" and name not in OWN_TABLE
}
CODES = ("members-disagree", "far-from-source")
EITHER = "either"
BAD = {"chest": 0.8}  # a lung mask below this is of no use; elsewhere the lowest tenth is bad
TENTH = 0.1
LARGEST_TENTH = 0.2  # with ties the lowest tenth is a larger share; above this, there is none
FEWEST = 5  # images of a split of which a correlation says something
Array = NDArray[np.float64]
Measure = Callable[[pd.DataFrame], dict[str, float]]


@table("trust", "Trust scores", order=10)
def trust(selection: TableData) -> Iterator[Table]:
    """Correlation with Dice, finding of bad masks by trust scores, and by notes."""
    if selection.intent is None:
        return
    rows = of_variant(selection.rows, selection.intent)
    rows = rows[rows["dice"].notna()]
    if len(rows):
        pooled = caption("trust-pooled", intent=selection.intent.label)
        after = f"{caption('trust-bad', limit=BAD['chest'], tasks=', '.join(BAD))} {pooled}"
        kinds: tuple[tuple[str, str, str, Measure], ...] = (
            ("trust-correlation", "Trust scores and Dice", pooled, _correlate),
            ("trust-finding", "Finding bad masks by trust scores", after, _find),
            ("trust-notes", "Finding bad masks by notes", after, _note),
        )
        for kind, title, rest, measure in kinds:
            made = _table(f"{caption(kind)} {rest}", rows, measure)
            yield replace(made, name=kind, title=title)


def _table(text: str, rows: pd.DataFrame, measure: Measure) -> Table:
    data: list[dict[str, object]] = []
    means = []
    for task, block in rows.groupby("task", sort=False):
        groups = block.groupby(["source", "target"], sort=False)
        splits = [{"split": f"{a} -> {b}", **measure(part)} for (a, b), part in groups]
        mean = pd.DataFrame(splits).drop(columns="split").mean().to_dict()
        splits.append({"split": OVER_SPLITS, **mean})
        data.extend({"task": task, **row} for row in splits)
        means.append(mean)
    if len(means) > 1:
        every = pd.DataFrame(means).mean(skipna=False).to_dict()
        data.append({"task": "all", "split": OVER_TASKS, **every})
        text += " The last row is the mean over tasks."
    single = [key for key in means[0] if ", " not in key]
    columns = [Column(key, {"dice": NUMBER, "bad": SHARE}.get(key, PRECISE)) for key in single]
    if measure is _note:
        columns += [Column(code, _three, _keys(code)) for code in (*CODES, EITHER)]
    return tabulate(text, data, ["task", "split"], columns)


def _keys(code: str) -> tuple[str, ...]:
    return tuple(f"{share}, {code}" for share in ("flagged", "precision", "recall"))


def _three(*shares: float) -> str:
    return " / ".join(cell(NUMBER, 100 * share) for share in shares)


def _correlate(split: pd.DataFrame) -> dict[str, float]:
    dice = split["dice"].to_numpy(float)
    enough = slices(split) >= FEWEST
    rho = {n: spearman(split[n].to_numpy(float), dice) if enough else math.nan for n in SIGNALS}
    return {"dice": 100 * float(dice.mean()), **rho}


def _find(split: pd.DataFrame) -> dict[str, float]:
    bad = is_bad(split)
    areas = dict.fromkeys(("bad", *SIGNALS), math.nan)
    if bad is not None:
        areas["bad"] = float(bad.mean())
    if bad is not None and slices(split) >= FEWEST:
        for name, high_is_bad in SIGNALS.items():
            areas[name] = auc(split[name].to_numpy(float) * (1 if high_is_bad else -1), bad)
    return areas


def _note(split: pd.DataFrame) -> dict[str, float]:
    bad = is_bad(split)
    flags = {code: split["notes"].fillna("").str.contains(code, regex=False) for code in CODES}
    flags[EITHER] = pd.DataFrame(flags).any(axis=1)
    every = {"bad": math.nan if bad is None else float(bad.mean())}
    for code, flagged in flags.items():
        shares = [float(flagged.mean()), math.nan, math.nan]
        if bad is not None:  # of none, the mean is NaN
            shares[1:] = float(pd.Series(bad[flagged]).mean()), float(flagged[bad].mean())
        every |= dict(zip(_keys(code), shares, strict=True))
    return every


def is_bad(split: pd.DataFrame) -> NDArray[np.bool_] | None:
    """Masks below the limit of the task, or else the lowest tenth; None if too many are equal."""
    dice = split["dice"].to_numpy(float)
    limit = BAD.get(str(split["task"].iloc[0]))
    if limit is not None:
        return np.asarray(dice < limit)
    lowest = np.asarray(dice <= np.quantile(dice, TENTH, method="lower"))
    return lowest if lowest.mean() <= max(LARGEST_TENTH, 1 / len(dice)) else None


def slices(split: pd.DataFrame) -> int:
    """How many images, each slice of a volume being one."""
    return len(split[["image", "slice"]].drop_duplicates())


def auc(score: Array, positive: NDArray[np.bool_]) -> float:
    """How often a positive scores higher than a negative, ties counting half; NaN without both."""
    there = ~np.isnan(score)
    high, low = score[there & positive], score[there & ~positive]
    if not len(high) or not len(low):
        return math.nan
    pairs_won = mannwhitneyu(high, low, method="asymptotic").statistic
    return float(pairs_won / (len(high) * len(low)))


def spearman(one: Array, other: Array) -> float:
    """Spearman's rank correlation; NaN if either is constant."""
    there = ~(np.isnan(one) | np.isnan(other))
    one, other = one[there], other[there]
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return math.nan
    return float(spearmanr(one, other).statistic)
