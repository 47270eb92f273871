"""Model cards of the zoo: what a model is, what it was trained on, and where it fails.

The text is in ``model_card.md.j2``, the data sets are in ``datasets.toml``.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from torch import nn

from sitta.bench.stats.bootstrap import MARGIN
from sitta.bench.stats.rows import PLAIN
from sitta.bench.stats.scores import scores
from sitta.bench.tables.table_data import TableData, labels

HERE = Path(__file__).parent
UNKNOWN = {"citation": "unknown.", "terms": "see the owners' terms.", "copy": "unknown."}


@functools.cache
def datasets() -> dict[str, Any]:
    """Contents of ``datasets.toml``: data sets by task and domain, and ``objects``."""
    return tomllib.loads((HERE / "datasets.toml").read_text(encoding="utf-8"))


def page(name: str, model: nn.Module, rows: pd.DataFrame | None = None) -> str:
    """The card of a model of the zoo, in Markdown; rows of a benchmark give its scores."""
    card: dict[str, Any] = model.card  # type: ignore[assignment]  # a plain attribute
    task, _, domain = str(card.get("source", "")).partition("/")
    preprocess = card.get("preprocess", {})
    size = _sides(preprocess.get("size"))
    dice = card.get("training", {}).get("validation_dice")
    by_image = pd.DataFrame() if rows is None else _scores(name, task, domain, rows)
    objects = datasets()["objects"].get(task, {})
    return _template().render(
        name=name,
        card=card,
        data=dataset(task, domain),
        finds=objects.get(card.get("masks"), "what its masks show"),
        parameters=sum(p.numel() for p in model.parameters()),
        images={"train": "unknown", "validation": "unknown", **card.get("images", {})},
        input=_input(preprocess),
        recipe=_recipe(card),
        dice="unknown" if dice is None else f"{dice:.4f}",
        targets=_targets(by_image, domain),
        unit="slices" if len(by_image) and by_image.index.unique("slice").size > 1 else "images",
        shape=f"{preprocess.get('channels', 1)}, {size.replace(' x ', ', ') or 'H, W'}",
        size=size,
        suffix=".nii.gz" if card.get("task") == "spinal" else ".png",
    )


def dataset(task: str, domain: str) -> dict[str, str]:
    """Title, citation, terms and copy of a data set."""
    domains = datasets().get(task, {})
    entry = domains.get(domain) or domains.get("*")
    if entry is None:
        return {"title": "/".join(filter(None, (task, domain))) or "unknown", **UNKNOWN}
    return {**entry, "title": entry["title"].format(site=domain)}


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(  # noqa: S701  (Markdown, not HTML)
        loader=jinja2.FileSystemLoader(HERE),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["flat"] = lambda text: " ".join(str(text).split()).removesuffix(".")
    environment.filters["cell"] = lambda text: " ".join(str(text).split()).replace("|", "\\|")
    return environment.get_template("model_card.md.j2")


def _input(preprocess: Mapping[str, Any]) -> str:
    """What a model takes, in words."""
    channels = preprocess.get("channels", 1)
    spacing = _sides(preprocess.get("spacing"))
    fit = {"resize": "resized", "crop": "the middle cut out or padded", "none": "not fitted"}
    parts = [
        {1: "1 channel (grey)", 3: "3 channels (colours)"}.get(channels, f"{channels} channels"),
        _sides(preprocess.get("size")) or "any size",
        f"resampled to {spacing} mm a pixel" if spacing else "",
        fit.get(preprocess.get("fit", ""), ""),
        f"intensities of each input: {preprocess['scale']}" if preprocess.get("scale") else "",
    ]
    return ", ".join(filter(None, parts))


def _sides(values: Iterable[float] | None) -> str:
    return " x ".join(f"{v:g}" for v in values or ())


def _recipe(card: Mapping[str, Any]) -> dict[str, object]:
    settings = {f"`{k}`": "none" if v is None else v for k, v in card.get("recipe", {}).items()}
    if training := card.get("training", {}):
        run, best = (training.get(key, "unknown") for key in ("epochs", "epoch"))
        settings["epochs run"] = f"{run}, the best one {best}"
        settings["minutes"] = training.get("minutes", "unknown")
    settings |= {f"version of {k}": v for k, v in card.get("versions", {}).items()}
    return settings | ({"fingerprint of the data": f"`{card['data']}`"} if "data" in card else {})


def _scores(name: str, folder: str, domain: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Dice by target, image and slice: a column each for source, intent and oracle.

    The name says which task: the folder of the card may serve several tasks of a plan.
    """
    task = name.removesuffix(f"-{domain}") if name.endswith(f"-{domain}") else folder
    own = rows[(rows["task"] == task) & (rows["source"] == domain) & (rows["repeat"] == 0)]
    own = own[own["training"] == PLAIN]
    variants = TableData(own)
    if variants.source is None or variants.intent is None:
        return pd.DataFrame()
    listed = [variants.source, variants.intent, *variants.oracle[:1]]
    wide = scores(own, scale=1.0)[labels(listed)]
    columns = ["source", "intent", "oracle"]
    wide = wide.set_axis(columns[: len(listed)], axis=1).reindex(columns=columns)
    return wide.dropna(subset=["source", "intent"])


def _targets(by_image: pd.DataFrame, home: str) -> list[tuple[str, ...]]:
    """One row per target, the model's own domain first."""
    groups = by_image.groupby("target", observed=True) if len(by_image) else ()
    targets = []
    for target, part in sorted(groups, key=lambda each: (each[0] != home, each[0])):
        harmed = (part["intent"] < part["source"] - MARGIN / 100).mean()
        title = f"{target} (held out)" if target == home else str(target)
        means = ["" if math.isnan(mean) else f"{mean:.3f}" for mean in part.mean()]
        targets.append((title, str(len(part)), *means, f"{harmed:.0%}"))
    return targets
