"""What one pass over the members serves, on all images: fixed lambdas, strategies, the oracle."""

from __future__ import annotations

import pandas as pd

from sitta.benchmark.scores import OVER_TASKS, extent, per_image, repeats, shared, shifted
from sitta.benchmark.tables.listing import Listing, labels
from sitta.benchmark.tables.overall import by_task
from sitta.benchmark.tables.sheets import partly
from sitta.benchmark.tables.table import Table, tabulate
from sitta.benchmark.tables.theirs import about_paper

CAPTION = (
    "Dice x100 with its 95 % interval from resampled images: mean over the repeats of an image, the"
    " images of a split and the splits (source to another domain) of a task{last}. All rows are on"
    " all images, drawn or not ({extent}). Bold is the best but for the oracle, which needs the"
    " truth."
)
LAST = ", then the mean over tasks"


def members(rows: pd.DataFrame) -> list[Table]:
    """Fixed lambdas, strategies and the oracle by task, with intervals, on all images."""
    shown = shifted(rows)
    known = Listing.of(shown)
    served = [*known.fixed, *known.of_members, *known.oracle]
    if not served:
        return []
    drawn = partly(shown, served)  # a fixed lambda that was asked for beside the members
    listed = [v for v in served if v.label not in drawn]
    wide = shared(shown, labels(listed))
    if wide.empty:
        return []
    values = per_image(wide)
    data, columns = by_task(listed, values)
    last = LAST if OVER_TASKS in data else ""
    caption = CAPTION.format(extent=extent(repeats(wide)), last=last)
    caption += about_paper(listed, values, data)
    fair = [i for i, v in enumerate(listed) if v.method != "oracle"]
    title = "Fixed lambdas and strategies, all images"
    return [tabulate("members", title, caption, data, columns, contest=[fair])]
