"""How well the expected Dice tells the true Dice: ranks, intervals and flags."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sitta.bench.stats.rows import PLAIN
from sitta.bench.stats.scores import OVER_TASKS, of_variant
from sitta.bench.tables.captions import caption
from sitta.bench.tables.table import PRECISE, SHARE, Column, Row, Table, table, tabulate
from sitta.bench.tables.table_data import TableData
from sitta.bench.tables.trust import FEWEST, auc, spearman
from sitta.prediction.notes import DICE

Array = NDArray[np.float64]
HARM = 0.01  # of Dice below the unadapted network
FLAG = "low-expected-dice"
IMAGE = ["task", "source", "target", "repeat", "image", "slice"]
COLUMNS = (
    Column("Masks", ",.0f"),
    Column("Spearman", PRECISE),
    Column("Within", PRECISE),
    Column("AUROC", PRECISE),
    Column("AURC", PRECISE),
    Column("Covered", SHARE),
    Column("Width", PRECISE),
    Column("Below", SHARE),
    Column("Flagged", SHARE),
    Column("Precision", SHARE),
    Column("Recall", SHARE),
    Column("Harm found", SHARE, ("harm_found",)),
)


@table("expected", "Expected Dice", 12, lambda rows: rows[rows["training"] == PLAIN])
def expected(selection: TableData) -> Iterator[Table]:
    """A row for each method with an expected Dice and each task, across domains and in-domain."""
    rows = selection.rows
    if "expected_dice" not in rows or rows["expected_dice"].notna().sum() == 0:
        return
    trained = None if selection.source is None else of_variant(rows, selection.source)
    data: list[Row] = []
    for variant in selection.every:
        own = of_variant(rows, variant)
        own = own[own["expected_dice"].notna() & own["dice"].notna()]
        for kind, inside in (("cross-domain", False), ("in-domain", True)):
            part = own[(own["source"] == own["target"]) == inside]
            made = [_row(task, group, trained) for task, group in part.groupby("task", sort=False)]
            data += [{"method": variant.label, "domain": kind, **row} for row in made]
            if len(made) > 1:
                means = pd.DataFrame(made).drop(columns=["task", "masks"]).mean().to_dict()
                lead = {"method": variant.label, "domain": kind, "task": OVER_TASKS}
                data.append({**lead, "masks": len(part), **means})
    if data:
        text = caption("expected-dice", limit=f"{DICE:g}")
        yield tabulate(text, data, ["method", "domain", "task"], COLUMNS)


def _row(task: object, masks: pd.DataFrame, trained: pd.DataFrame | None) -> Row:
    dice, told = (masks[name].to_numpy(float) for name in ("dice", "expected_dice"))
    low, high = (masks[f"expected_dice_{end}"].to_numpy(float) for end in ("low", "high"))
    flagged = masks["notes"].fillna("").str.contains(FLAG, regex=False).to_numpy()
    below = dice < _limits(masks)
    return {
        "task": str(task),
        "masks": len(masks),
        "spearman": spearman(told, dice),
        "within": _within(masks),
        "auroc": auc(-told, dice < DICE),
        "aurc": excess_aurc(told, dice),
        "covered": float(((dice >= low) & (dice <= high)).mean()),
        "width": float((high - low).mean()),
        "below": float(below.mean()),
        "flagged": float(flagged.mean()),
        "precision": float(below[flagged].mean()) if flagged.any() else math.nan,
        "recall": float(flagged[below].mean()) if below.any() else math.nan,
        "harm_found": _harm_found(masks, flagged, trained),
    }


def _limits(masks: pd.DataFrame) -> Array:
    """The limit of each mask: of its model, as far as flags show it, or the usual one."""
    flagged = masks["notes"].fillna("").str.contains(FLAG, regex=False)
    told = masks["expected_dice"]
    highest = told[flagged].groupby(masks["source"]).max()  # at most the limit of the model
    lowest = told[~flagged].groupby(masks["source"]).min()  # at least
    limits = pd.DataFrame({"above": highest, "below": lowest}).fillna(DICE)
    limit = limits.max(axis=1).where(limits["above"] < DICE, DICE).clip(upper=DICE)
    each: Array = masks["source"].map(limit).fillna(DICE).to_numpy(float)
    return each


def _within(masks: pd.DataFrame) -> float:
    """Mean rank correlation within splits that are large enough."""
    groups = [g for _, g in masks.groupby(["source", "target"], sort=False) if len(g) >= FEWEST]
    each = [spearman(g["expected_dice"].to_numpy(float), g["dice"].to_numpy(float)) for g in groups]
    defined = [rho for rho in each if not math.isnan(rho)]
    return float(np.mean(defined)) if defined else math.nan


def excess_aurc(score: Array, dice: Array) -> float:
    """The area under the risk-coverage curve: 0 for the best order there is, 1 for a random one.

    Risk is 1 - Dice, mean over the masks that are kept, those of the highest scores first.

    Example:
        >>> import numpy as np
        >>> excess_aurc(np.array([3.0, 2.0, 1.0]), np.array([0.9, 0.8, 0.1]))
        0.0
    """
    risk = 1 - dice
    best, chance = _aurc(dice, risk), float(risk.mean())
    if chance - best < 1e-12:
        return math.nan
    return round((_aurc(score, risk) - best) / (chance - best), 12)


def _aurc(score: Array, risk: Array) -> float:
    kept = risk[np.argsort(-score, kind="stable")]
    return float((kept.cumsum() / np.arange(1, len(kept) + 1)).mean())


def _harm_found(masks: pd.DataFrame, flagged: Array, trained: pd.DataFrame | None) -> float:
    """Share of harmed masks that are flagged; NaN if none is harmed."""
    if trained is None:
        return math.nan
    before = trained.set_index(IMAGE)["dice"]
    before = before[~before.index.duplicated()]
    places = pd.MultiIndex.from_frame(masks[IMAGE])
    harmed = masks["dice"].to_numpy(float) < before.reindex(places).to_numpy(float) - HARM
    return float(flagged[harmed].mean()) if harmed.any() else math.nan
