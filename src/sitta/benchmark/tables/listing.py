"""Which variants of the results a table lists, in which order."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from sitta.benchmark.paper import NEAR, OWN
from sitta.benchmark.scores import Variant, usual_members, variants
from sitta.integration import STRATEGIES

ADAPTIVE = ("source", "tent", "sar", "fseg", "sita", "memo")
OWN_STRATEGY = "ent-baln"
COMMON = (1.0, 0.5, 0.0)  # lambdas that the paper tries every method at


@dataclass(frozen=True)
class Listing:
    """The variants of some rows.

    Attributes:
        every: All of them, in order of appearance.
        members: How many InTEnt has where nothing else is said.
    """

    every: tuple[Variant, ...]
    members: int

    @classmethod
    def of(cls, rows: pd.DataFrame) -> Listing:
        """Those that the rows have."""
        return cls(tuple(variants(rows)), usual_members(rows))

    @property
    def source(self) -> Variant | None:
        """The network as it was trained."""
        return next((v for v in self.every if v.unadapted), None)

    @property
    def intent(self) -> Variant | None:
        """InTEnt as published: balanced entropy, the usual number of members."""
        return next((v for v in self.strategies if v.strategy == OWN_STRATEGY), None)

    @property
    def oracle(self) -> list[Variant]:
        """The best lambda of each image, which only the truth can tell."""
        return [v for v in self.every if v.method == "oracle"]

    @property
    def fixed(self) -> list[Variant]:
        """One lambda for all images, from source to image statistics."""
        found = [v for v in self.every if v.method == "source" and not v.settings]
        return sorted(found, key=lambda v: -v.lam)

    @property
    def fixed_beside(self) -> list[Variant]:
        """Those that stand beside methods: the paper's, or all if it has none but the source."""
        found = [v for v in self.fixed if v.lam in COMMON]
        return found if any(not v.unadapted for v in found) else self.fixed

    @property
    def lambdas(self) -> list[float]:
        """Lambdas that methods are held against each other at, from source to image statistics.

        The lambda that a method alone has in the paper, such as 0.8 of SITA, is not among them.
        """
        asked = {v.lam for v in self.rivals if not math.isnan(v.lam) and not _as_published(v)}
        return sorted({*COMMON, *(v.lam for v in self.fixed_beside), *asked}, reverse=True)

    @cached_property
    def strategies(self) -> list[Variant]:
        """InTEnt under each strategy, at the usual number of members."""
        found = [v for v in self.every if v.method == "intent" and not v.settings]
        order = list(STRATEGIES)
        return sorted(
            (v for v in found if v.members == self.members),
            key=lambda v: order.index(v.strategy) if v.strategy in order else len(order),
        )

    @property
    def of_members(self) -> list[Variant]:
        """Those of them that one pass over the members serves: no sharpness, which takes more."""
        slow = {name for name, strategy in STRATEGIES.items() if strategy.figure == "sharpness"}
        return [v for v in self.strategies if v.strategy not in slow]

    @property
    def adaptive(self) -> list[Variant]:
        """The methods that InTEnt is compared with, at every lambda.

        Fixed lambdas and InTEnt with settings of their own are among them, such as in-layer
        statistics; InTEnt with another number of members is not.
        """
        swept = (v for v in self.every if v.method == "intent" and not v.settings)
        out = {*self.fixed, *self.oracle, *swept}
        return sorted((v for v in self.every if v not in out), key=_rank)

    @property
    def rivals(self) -> list[Variant]:
        """Those of them that are methods of others."""
        return [v for v in self.adaptive if v.method not in ("source", "intent")]

    @property
    def main(self) -> list[Variant]:
        """What the overall table lists: every method at its own lambda, and plain rivals."""
        plain = [v for v in self.strategies if v.strategy in ("vote", "average")]
        own = [v for v in self.adaptive if is_own(v)]
        intent = [self.intent] if self.intent else []
        return [*self.fixed_beside, *plain, *own, *intent, *self.oracle]


def is_own(variant: Variant) -> bool:
    """Whether a method is at the lambda that is its own, or searches for one."""
    unknown = math.isnan(variant.lam) or variant.method not in OWN
    return unknown or _as_published(variant)


def _as_published(variant: Variant) -> bool:
    """Whether a method is at the lambda that it has in the paper's Table 1."""
    return abs(variant.lam - OWN.get(variant.method, math.nan)) < NEAR


def labels(found: Iterable[Variant]) -> list[str]:
    """Their labels."""
    return [v.label for v in found]


def _rank(v: Variant) -> tuple[int, str, str, float]:
    known = ADAPTIVE.index(v.method) if v.method in ADAPTIVE else len(ADAPTIVE)
    return known, v.method, v.settings, math.inf if math.isnan(v.lam) else -v.lam
