"""The key of a benchmark result: one method with its lambda, strategy, members and settings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any

from sitta.adaptation import methods
from sitta.core.integration import STRATEGIES

COLUMNS = ("method", "lam", "strategy", "members", "settings")  # in rows, on disk
MEMBERS = 6  # of InTEnt at its default step
IN_LAYER = (("statistics", "in-layer"),)  # settings of what mixes in each layer
ORACLE = "oracle"  # the best lambda of each image, chosen by the ground truth
SETTING = re.compile(r"(\w+)=(.*?)(?= \w+=|$)")
HINDSIGHT = {ORACLE: "Oracle lambda", "fixed": "Best fixed lambda (hindsight)"}


@total_ordering
@dataclass(frozen=True)
class Variant:
    """A method as it was run. Two results with equal variants are of the same computation.

    Variants sort as tables list them: by method with InTEnt and the oracle last, by settings, by
    lambda from 1 to 0, by strategy, by number of members.
    """

    method: str  # its name in the registry, oracle, or fixed for the best fixed lambda
    lam: float | None = None  # None if the method has none, or searches it
    strategy: str = ""  # of InTEnt
    members: int = 1
    # What else is not the method's default, by name. Values are text, as in the rows: a float that
    # was written and read would not be the same key.
    settings: tuple[tuple[str, str], ...] = ()
    # Whether the label also says members and settings, as another variant has the same label.
    spelled_out: bool = field(default=False, compare=False)

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Variant:
        """The variant that a row of results belongs to."""
        method, lam, strategy, members, settings = (row[name] for name in COLUMNS)
        pairs = tuple(SETTING.findall(settings))
        return cls(method, None if math.isnan(lam) else float(lam), strategy, int(members), pairs)

    @property
    def columns(self) -> dict[str, Any]:
        """Its columns of a row; a lambda that is None is not a number there."""
        lam = math.nan if self.lam is None else self.lam
        values = (self.method, lam, self.strategy, self.members, self.settings_text)
        return dict(zip(COLUMNS, values, strict=True))

    @property
    def settings_text(self) -> str:
        """Its settings as rows and labels have them."""
        return " ".join(f"{name}={value}" for name, value in self.settings)

    @property
    def unadapted(self) -> bool:
        """Whether this is the network as it was trained."""
        return self.method == "source" and self.lam == 1

    @property
    def label(self) -> str:
        """What people call it, such as ``InTEnt vote``."""
        label = self._name
        if self.settings:
            label += f" ({self.settings_text})"
        if self.spelled_out:
            told = filter(None, [f"{self.members} members", self.settings_text])
            label += f" [{', '.join(told)}]"
        return label

    @property
    def _name(self) -> str:
        kind = methods().get(self.method)  # rows may be older than the registry
        title = kind.title if kind else HINDSIGHT.get(self.method, self.method)
        if self.method == "source" and self.lam is not None:
            return f"{title} (no adaptation)" if self.unadapted else f"Fixed lambda {self.lam:g}"
        if self.method == "intent":
            usual = self.strategy == "ent-baln" and self.members == MEMBERS and not self.settings
            name = title if usual else f"{title} {self.strategy}"
            return name if self.members == MEMBERS else f"{name}, {self.members} members"
        return title if self.lam is None else f"{title}, lambda {self.lam:g}"

    def __lt__(self, other: Variant) -> bool:
        return self._rank < other._rank

    @property
    def _rank(self) -> tuple[Any, ...]:
        last = {"intent": 1, ORACLE: 2}.get(self.method, 0)
        return (
            last,
            _place(self.method, tuple(methods())),
            self.method,
            self.settings,
            math.inf if self.lam is None else -self.lam,
            _place(self.strategy, tuple(STRATEGIES)),
            self.members,
        )


def _place(name: str, names: tuple[str, ...]) -> int:
    return names.index(name) if name in names else len(names)
