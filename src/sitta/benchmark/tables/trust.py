"""Whether the figures that come with a prediction tell good masks from bad ones."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from sitta.benchmark.scores import of_variant, shifted
from sitta.benchmark.tables.listing import Listing
from sitta.benchmark.tables.table import Column, Table, number, precise, share, tabulate, text

# Each signal, and whether a high value speaks for a bad mask.
SIGNALS = {
    "agreement": False,
    "uncertainty": True,
    "disagreement": True,
    "distance": True,
    "change": True,
}
CODES = ("members-disagree", "far-from-source")
EITHER = "either"
BAD = {"chest": 0.8}  # a lung mask below this is of no use; elsewhere the lowest tenth is bad
TENTH, MOST = 0.1, 0.2  # with ties the lowest tenth is more; above this, it is no tenth
FEWEST = 5  # images of a split of which a correlation says something
ALL_SPLITS = "mean over splits"
OVER_TASKS = "mean over tasks"
POOLED = " Masks are those of {intent}; all images and repeats of a split are pooled."
MEANS = " Means over splits leave out those without a figure."
LAST = " The last row is the mean over tasks."
CORRELATION = "Spearman's correlation of each figure with the Dice of the mask." + POOLED + MEANS
WHICH = (
    " Bad is a Dice below {limit:g} in {tasks}, and elsewhere the lowest tenth of the split; splits"
    " in which more than a fifth of the masks are equally bad have no lowest tenth."
)
FINDING = (
    "Area under the ROC curve for finding bad masks: how often a bad mask looks worse by the figure"
    " than a good one of the same split (0.5 is chance)." + WHICH + POOLED + MEANS
)
NOTED = (
    "How well notes single out bad masks. For each note, in per cent: the share of masks that it"
    " flags / precision, the share of flagged masks that are bad / recall, the share of bad masks"
    " that are flagged." + WHICH + POOLED + MEANS
)
FORMS: dict[str, Callable[[float], str]] = {"dice": number, "bad": share}
Array = NDArray[np.float64]
Row = dict[str, object]


def trust(rows: pd.DataFrame) -> list[Table]:
    """Correlation with Dice, finding of bad masks by figures, and by notes."""
    shown = shifted(rows)
    intent = Listing.of(shown).intent
    if intent is None:
        return []
    shown = of_variant(shown, intent)
    shown = shown[shown["dice"].notna()]
    if shown.empty:
        return []
    words = {"intent": intent.label, "limit": BAD["chest"], "tasks": ", ".join(BAD)}
    return [
        _table(
            "trust-correlation", "Trust figures and Dice", CORRELATION, shown, _correlate, words
        ),
        _table("trust-finding", "Finding bad masks by figures", FINDING, shown, _find, words),
        _table("trust-notes", "Finding bad masks by notes", NOTED, shown, _note, words),
    ]


def _table(
    name: str,
    title: str,
    caption: str,
    rows: pd.DataFrame,
    measure: Callable[[pd.DataFrame], dict[str, float]],
    words: dict[str, object],
) -> Table:
    found: list[Row] = []
    means: list[Row] = []
    for task, block in rows.groupby("task", sort=False):
        groups = block.groupby(["source", "target"], sort=False)
        splits = [{"split": f"{a} -> {b}", **measure(part)} for (a, b), part in groups]
        mean = pd.DataFrame(splits).drop(columns="split").mean().to_dict()
        found += [{"task": task, **row} for row in [*splits, {"split": ALL_SPLITS, **mean}]]
        means.append(mean)
    if len(means) > 1:
        every = pd.DataFrame(means).mean(skipna=False).to_dict()
        found.append({"task": "all", "split": OVER_TASKS, **every})
    data = pd.DataFrame(found)
    columns = [Column("Task", ("task",), text), Column("Split", ("split",), text)]
    plain = [key for key in data.columns[2:] if ", " not in key]
    columns += [Column(key, (key,), FORMS.get(key, precise)) for key in plain]
    if measure is _note:
        columns += [Column(code, _keys(code), _three) for code in (*CODES, EITHER)]
    said = caption.format(**words) + (LAST if len(means) > 1 else "")
    return tabulate(name, title, said, data, columns, lead=2)


def _keys(code: str) -> tuple[str, ...]:
    return tuple(f"{figure}, {code}" for figure in ("flagged", "precision", "recall"))


def _three(*shares: float) -> str:
    return " / ".join(number(100 * one) for one in shares)


def _correlate(split: pd.DataFrame) -> dict[str, float]:
    dice = split["dice"].to_numpy(float)
    enough = _slices(split) >= FEWEST
    found = {"dice": 100 * float(dice.mean())}
    for name in SIGNALS:
        found[name] = spearman(split[name].to_numpy(float), dice) if enough else math.nan
    return found


def _find(split: pd.DataFrame) -> dict[str, float]:
    bad = is_bad(split)
    enough = _slices(split) >= FEWEST
    found = {"bad": math.nan if bad is None else float(bad.mean())}
    for name, high_is_bad in SIGNALS.items():
        signal = split[name].to_numpy(float) * (1 if high_is_bad else -1)
        found[name] = auc(signal, bad) if enough and bad is not None else math.nan
    return found


def _note(split: pd.DataFrame) -> dict[str, float]:
    bad = is_bad(split)
    notes = split["notes"].fillna("")
    flags = {code: notes.str.contains(code, regex=False).to_numpy(bool) for code in CODES}
    flags[EITHER] = np.logical_or.reduce(list(flags.values()))
    found = {"bad": math.nan if bad is None else float(bad.mean())}
    for code, flagged in flags.items():
        precision = recall = math.nan
        if bad is not None:
            right = float((flagged & bad).sum())
            precision = right / flagged.sum() if flagged.any() else math.nan
            recall = right / bad.sum() if bad.any() else math.nan
        shares = (float(flagged.mean()), precision, recall)
        found |= dict(zip(_keys(code), shares, strict=True))
    return found


def is_bad(split: pd.DataFrame) -> NDArray[np.bool_] | None:
    """Which masks of a split are bad: by a limit for its task, or else the lowest tenth.

    None if there is no lowest tenth, because too many masks are equally bad.
    """
    dice = split["dice"].to_numpy(float)
    limit = BAD.get(str(split["task"].iloc[0]))
    if limit is not None:
        below: NDArray[np.bool_] = dice < limit
        return below
    lowest: NDArray[np.bool_] = dice <= np.quantile(dice, TENTH, method="lower")
    return lowest if lowest.mean() <= max(MOST, 1 / len(dice)) else None


def _slices(split: pd.DataFrame) -> int:
    """How many images, each slice of a volume being one."""
    return len(split[["image", "slice"]].drop_duplicates())


def auc(score: Array, positive: NDArray[np.bool_]) -> float:
    """How often a positive scores higher than a negative, ties counting half (Mann-Whitney).

    Not a number without positives or without negatives. Scores that are not a number do not count.

    Example:
        >>> auc(np.array([3.0, 1.0, 2.0]), np.array([True, False, True]))
        1.0
    """
    known = ~np.isnan(score)
    score, positive = score[known], positive[known]
    some, rest = int(positive.sum()), int((~positive).sum())
    if not some or not rest:
        return math.nan
    ranks = rankdata(score)
    return float((ranks[positive].sum() - some * (some + 1) / 2) / (some * rest))


def spearman(one: Array, other: Array) -> float:
    """Spearman's rank correlation; not a number if either is constant.

    Example:
        >>> spearman(np.array([1.0, 2.0, 4.0]), np.array([3.0, 2.0, 1.0]))
        -1.0
    """
    known = ~(np.isnan(one) | np.isnan(other))
    one, other = rankdata(one[known]), rankdata(other[known])
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return math.nan
    return float(np.corrcoef(one, other)[0, 1])
