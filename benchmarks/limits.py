"""How many images of their own source would the limits of trust flag, at which factor?

    python benchmarks/limits.py [docs/results/rows.csv.gz]

For every model, limits come from one half of its held-out source images and are tried on the other
half, 200 times; no image of another domain plays a part. With the models of the first repeat, the
factor in use is the smallest multiple of a half with which neither limit flags more than one image
in a hundred, in any task; docs/training.md says how it does with those of all repeats.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

from sitta.bench.stats import rows
from sitta.bench.variant import MEMBERS
from sitta.calibration.limits import SLACK

FACTORS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
HALVES = 200
FEWEST = 6  # held-out images of a model


def flagged(values: np.ndarray, kind: str, factor: float, chance: np.random.Generator) -> float:
    """Mean share of one half that the limit from the other half flags."""
    shares = []
    for _ in range(HALVES):
        known, new = np.array_split(chance.permutation(values), 2)
        if kind == "agreement":
            limit = np.clip(1 - factor * (1 - np.quantile(known, 0.05)), 0.5, 0.99)
            shares.append(np.mean(new < limit))
        else:
            shares.append(np.mean(new > factor * np.quantile(known, 0.95)))
    return float(np.mean(shares))


def main() -> None:
    """Print the shares in per cent, by figure, factor and task."""
    default = Path(__file__).parent.parent / "docs" / "results" / "rows.csv.gz"
    found = rows.load(sys.argv[1] if len(sys.argv) > 1 else default)
    own = (found["source"] == found["target"]) & (found["method"] == "intent")
    found = found[own & (found["strategy"] == "ent-baln") & (found["members"] == MEMBERS)]
    chance, lines, models = np.random.default_rng(0), [], Counter()
    for (task, *_), part in found.groupby(["task", "training", "source", "repeat"]):
        if len(part) < FEWEST:
            continue
        models[task] += 1
        for kind in ("agreement", "distance"):
            values = part[kind].to_numpy(float)
            lines += [(kind, f, task, flagged(values, kind, f, chance)) for f in FACTORS]
    table = pd.DataFrame(lines, columns=["figure", "factor", "task", "flagged, %"])
    means = 100 * table.groupby(["figure", "factor", "task"])["flagged, %"].mean()
    print(means.unstack("task").round(2).to_string())
    print(f"in use: {SLACK:g}; models: {', '.join(f'{t} {n}' for t, n in models.items())}")


if __name__ == "__main__":
    main()
