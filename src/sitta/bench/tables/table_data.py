"""The rows that a table or a figure is made of: their variants, and scores by variant."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

import pandas as pd

from sitta.bench.papers.intent2024.paper import NEAR, OWN
from sitta.bench.stats.scores import complete, scores, usual_members, variants
from sitta.bench.tables.grid_data import GridData
from sitta.bench.variant import Variant
from sitta.core.integration import STRATEGIES

DEFAULT_STRATEGY = "ent-baln"
PLAIN_STRATEGIES = ("vote", "average")  # all members count alike
COMMON = (1.0, 0.5, 0.0)  # lambdas that the paper tries every method at


class TableData:
    """Rows with their variants, but those ``without``, sorted into groups that tables list."""

    def __init__(self, rows: pd.DataFrame, without: Iterable[str] = ()) -> None:
        self.rows = rows
        self.tasks = [str(task) for task in rows["task"].unique()]
        self.every = [v for v in variants(rows) if v.label not in {*without}]
        self.source = next((v for v in self.every if v.unadapted), None)
        # One lambda for all images, from source to image statistics; and the best of each image.
        self.fixed = sorted(v for v in self.every if v.method == "source" and not v.settings)
        self.oracle = [v for v in self.every if v.method == "oracle"]
        of_intent = [v for v in self.every if v.method == "intent" and not v.settings]
        names = [v.strategy for v in of_intent]
        self.several = [v for v in of_intent if names.count(v.strategy) > 1]  # numbers of members
        usual = usual_members(rows)
        self.strategies = sorted(v for v in of_intent if v.members == usual)
        self.plain = [v for v in self.strategies if v.strategy in PLAIN_STRATEGIES]
        # Those that need only the members' predictions: not sharpness.
        slow = [name for name, strategy in STRATEGIES.items() if strategy.needs_own_passes]
        self.of_members = [v for v in self.strategies if v.strategy not in slow]
        # InTEnt as published; it and the oracle end a table of methods.
        self.intent = next((v for v in self.strategies if v.strategy == DEFAULT_STRATEGY), None)
        self.last = [*([self.intent] if self.intent else []), *self.oracle]
        # What InTEnt is compared with, at every lambda, also with settings such as in-layer.
        out = {*self.fixed, *self.oracle, *of_intent}
        self.adaptive = sorted(v for v in self.every if v not in out)
        self.rivals = [v for v in self.adaptive if v.method not in ("source", "intent")]

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Dice x100: a line per image and repeat, a column per label."""
        return scores(self.rows)

    @property
    def fixed_beside(self) -> list[Variant]:
        """Fixed lambdas to list beside methods: the paper's, or all if only the source is."""
        common = [v for v in self.fixed if v.lam in COMMON]
        return common if any(not v.unadapted for v in common) else self.fixed

    @property
    def lambdas(self) -> list[float]:
        """Lambdas to compare methods at, from 1 to 0, without those of one method as SITA's 0.8."""
        beside = [*self.fixed_beside, *(v for v in self.rivals if not _as_published(v))]
        return sorted({*COMMON, *(v.lam for v in beside if v.lam is not None)}, reverse=True)

    @property
    def main(self) -> list[Variant]:
        """What the overall table lists: every method at its own lambda, and plain strategies."""
        own = [v for v in self.adaptive if is_own(v)]
        return [*self.fixed_beside, *self.plain, *own, *self.last]

    def only_drawn(self, listed: Iterable[Variant]) -> list[str]:
        """Labels of variants that were run on the draw only, while others were on all images."""
        names = labels(listed)
        rest = self.rows.assign(rest=~self.rows["drawn"].astype(bool))
        beyond = scores(rest, "rest", scale=1.0).max() > 0
        return [name for name in names if beyond[names].any() and not beyond[name]]

    def common(self, listed: list[Variant]) -> GridData | None:
        """Scores of the images that all listed variants were run on; None without any."""
        if not listed:
            return None
        wide = complete(self.scores[labels(listed)])
        return GridData(wide, listed) if len(wide) else None

    def source_and_intent(self) -> pd.DataFrame | None:
        """Scores of the source network and InTEnt, where both were run; None without any."""
        if self.source is None or self.intent is None:
            return None
        wide = self.scores[[self.source.label, self.intent.label]].dropna()
        return wide.set_axis(["source", "intent"], axis=1) if len(wide) else None


def is_own(variant: Variant) -> bool:
    """Whether a method is at its own lambda, or searches for one."""
    return variant.method not in OWN or variant.lam is None or _as_published(variant)


def _as_published(variant: Variant) -> bool:
    """Whether a method is at the lambda that it has in the paper's Table 1."""
    return variant.lam is not None and abs(variant.lam - OWN.get(variant.method, math.nan)) < NEAR


def labels(listed: Iterable[Variant]) -> list[str]:
    """Labels of variants."""
    return [v.label for v in listed]
