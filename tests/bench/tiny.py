"""A benchmark so small that it runs in a test: phantoms of 16x16 pixels, two steps of training."""

from __future__ import annotations

from pathlib import Path

from sitta.bench.plan.load import read_plan
from sitta.bench.plan.schema import Plan
from sitta.data import phantom

PLAN = """\
data = "data"
repeats = 2
images_per_target = 2

[train]
steps = 2
batch = 4

[tasks.phantom]
domains = ["alder", "birch"]
size = [16, 16]

[members]
lambdas = [1.0, 0.5, 0.0]
strategies = ["vote", "ent-baln"]

[[methods]]
name = "tent"
lambdas = [1.0, 0.0]

[[methods]]
name = "sita"
settings = { op = "vote", views = 2 }

[sweep]
members = [2, 3, 6]
strategies = ["ent-baln"]

[[retrained]]
name = "augmented"
task = "phantom"
source = "alder"
train = { augment = "light" }
"""

ONCE = PLAN.replace("repeats = 2", "repeats = 1")


def make(folder: Path, text: str = PLAN, images: int = 5) -> Path:
    """Data and a plan in a folder; gives the plan's file."""
    for site in ("alder", "birch"):
        phantom.write(folder / "data", site, images, (16, 16))
    path = folder / "plan.toml"
    path.write_text(text)
    return path


def reading(folder: Path, text: str) -> Plan:
    """A plan of this text, right or wrong, beside the images of a folder."""
    path = folder / "other.toml"
    path.write_text(text)
    return read_plan(path)
