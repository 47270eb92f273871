"""What goes on a grid: which variants, on which images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from sitta.benchmark.scores import Variant, complete, per_image, repeats, scores, shared
from sitta.benchmark.tables.hindsight import BEST_FIXED, with_best_fixed
from sitta.benchmark.tables.listing import Listing, is_own, labels


@dataclass(frozen=True, eq=False)
class Sheet:
    """Figures for a grid.

    Attributes:
        values: Of each image (rows) under each variant (columns).
        times: In how many repeats each image is there.
        listed: The variants, in the order of the grid.
        marked: Labels of those that were run on the draw only, while others were on all images.
    """

    values: pd.DataFrame
    times: pd.Series
    listed: Sequence[Variant]
    marked: Sequence[str] = ()

    @property
    def chosen(self) -> list[str]:
        """Labels of those that were chosen knowing the truth."""
        return [v.label for v in self.listed if v.method == "oracle" or v is BEST_FIXED]

    @property
    def contest(self) -> list[int]:
        """Rows that may be the best: chosen without the truth, and on the images of the others."""
        out = (*self.chosen, *self.marked)
        return [row for row, v in enumerate(self.listed) if v.label not in out]


def of_methods(rows: pd.DataFrame) -> Sheet | None:
    """Methods in blocks of equal lambda, then each at its own, then what members come to.

    None without methods that InTEnt is compared with.
    """
    known = Listing.of(rows)
    if not known.rivals:
        return None
    every = [*known.fixed, *known.adaptive]
    blocks = [v for lam in known.lambdas for v in every if v.lam == lam]
    own = [v for v in known.adaptive if v not in blocks and is_own(v)]
    rest = [v for v in known.adaptive if v not in blocks and v not in own]
    plain = [v for v in known.strategies if v.strategy in ("vote", "average")]
    intent = [known.intent] if known.intent else []
    listed = [*blocks, *own, *rest, *plain, *intent, *known.oracle]
    wide = shared(rows, labels(listed))
    return Sheet(per_image(wide), repeats(wide), listed) if len(wide) else None


def of_strategies(rows: pd.DataFrame) -> Sheet | None:
    """Fixed lambdas, strategies, the best fixed lambda and the oracle."""
    known = Listing.of(rows)
    listed = [*known.fixed, *known.strategies, *known.oracle]
    if not listed:
        return None
    wide = scores(rows)[labels(listed)]
    marked = partly(rows, listed)
    wide = complete(wide, [name for name in wide if name not in marked])
    values = with_best_fixed(per_image(wide), [n for n in labels(known.fixed) if n not in marked])
    if BEST_FIXED.label in values:
        listed = [*known.fixed, *known.strategies, BEST_FIXED, *known.oracle]
    return Sheet(values, repeats(wide), listed, marked) if len(wide) else None


def partly(rows: pd.DataFrame, listed: list[Variant]) -> list[str]:
    """Labels of the variants that were run on the draw only, while others were on all images."""
    rest = rows.assign(rest=~rows["drawn"].astype(bool))
    beyond = scores(rest, "rest", scale=1.0).max() > 0
    return [name for name in labels(listed) if beyond[labels(listed)].any() and not beyond[name]]
