"""Captions of tables. The texts are in ``captions.toml``."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

MEANS = "mean over the repeats of an image, the images of a split and the splits of a task"


@functools.cache
def _texts() -> dict[str, str]:
    file = Path(__file__).with_name("captions.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def caption(name: str, **values: object) -> str:
    """A text of ``captions.toml`` on one line, with its values filled in."""
    text = " ".join(_texts()[name].split())
    return text.format(means=MEANS, Means=MEANS.capitalize(), **values)
