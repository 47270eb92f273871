"""Rows of a made-up benchmark, for tables and figures: the numbers are drawn, not measured."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from sitta.bench.stats.rows import COLUMNS
from sitta.core.integration import STRATEGIES

TASKS = {
    "chest": ("mcu", "chn", "jsrt"),
    "retina": ("chase", "hrf", "rite"),
    "spinal": ("ucl", "nwu", "philips"),
}
LAMBDAS = (1.0, 0.8, 0.6, 0.5, 0.4, 0.2, 0.0)
GRADIENT = [("tent", lam) for lam in (1.0, 0.5, 0.0)] + [("sar", 0.0), ("fseg", 0.0)]
GRADIENT += [("memo", 0.5), ("memo", math.nan), ("sita", 0.8)]
GAIN = {"intent": 0.03, "oracle": 0.05, "tent": 0.005, "sar": 0.0, "fseg": -0.01, "memo": 0.01}


def variants(sweep: bool = False) -> list[dict]:
    """All variants, with the images they run on."""
    found = [
        {"method": "source", "lam": lam, "strategy": "", "members": 1, "settings": ""}
        for lam in LAMBDAS
    ]
    found += [
        {"method": "intent", "lam": math.nan, "strategy": name, "members": 6, "settings": ""}
        for name in STRATEGIES
    ]
    found.append(
        {"method": "oracle", "lam": math.nan, "strategy": "", "members": 6, "settings": ""}
    )
    found += [
        {"method": name, "lam": lam, "strategy": "", "members": 1, "settings": ""}
        for name, lam in GRADIENT
    ]
    if sweep:
        found += [
            {"method": "intent", "lam": math.nan, "strategy": s, "members": k, "settings": ""}
            for k in (2, 3, 5, 13, 50)
            for s in ("average", "ent-baln")
        ]
    return found


def make(images: int = 12, repeats: int = 2, drawn: int = 5, seed: int = 0) -> pd.DataFrame:
    """Rows of all splits of three tasks, and of one source that was trained again."""
    chance = np.random.default_rng(seed)
    rows: list[dict] = []
    splits = [(task, "plain", a, b) for task, sites in TASKS.items() for a in sites for b in sites]
    splits += [("chest", "augmented", "mcu", b) for b in ("mcu", "chn", "jsrt")]
    for task, training, source, target in splits:
        level = 0.95 if source == target else chance.uniform(0.6, 0.9)
        for repeat in range(1 if training == "augmented" else repeats):
            hard = chance.normal(0, 0.08, images)
            for variant in variants(sweep=task == "chest" and training == "plain"):
                shared = variant["method"] in ("source", "intent", "oracle")
                sharp = variant["strategy"] == "sharpness" or variant["members"] not in (1, 6)
                for i in range(images if shared and not sharp else drawn):
                    gain = GAIN.get(variant["method"], 0) if source != target else -0.002
                    if variant["method"] == "source":
                        gain = 0.02 - 0.02 * abs(variant["lam"] - 0.6) / 0.4
                    dice = float(np.clip(level + hard[i] + gain + chance.normal(0, 0.01), 0, 1))
                    rows.append(
                        {
                            "task": task,
                            "training": training,
                            "source": source,
                            "target": target,
                            "repeat": repeat,
                            **variant,
                            "image": f"image-{i:03d}",
                            "slice": 0,
                            "drawn": i < drawn,
                            "dice": dice,
                            "iou": dice / (2 - dice),
                            "hd95": 40 * (1 - dice),
                            "surface_dice": dice**2,
                            "ece": 0.3 * (1 - dice),
                            "agreement": float(np.clip(dice + chance.normal(0, 0.05), 0, 1))
                            if variant["members"] > 1
                            else 1.0,
                            "uncertainty": 1 - dice,
                            "disagreement": 0.2 * (1 - dice),
                            "distance": math.nan if variant["lam"] == 1 else 0.05 * (1.1 - dice),
                            "area": 0.3,
                            "change": 0.05,
                            "notes": "members-disagree" * (dice < 0.6),
                            "seconds": 0.1,
                        }
                    )
    return pd.DataFrame(rows, columns=list(COLUMNS))
