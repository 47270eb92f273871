"""How a source model is trained: the paper's recipe, and a fast one for machines without a GPU."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sitta._util.names import unknown_name
from sitta._util.settings import SEED, check, option, require_known
from sitta.errors import InvalidSetting

MANY = 1_000_000  # epochs, steps and images a step that no training reaches


@dataclass(frozen=True)
class Recipe:
    """Settings of a training run; the defaults are the paper's (section 4.1 and appendix)."""

    rate: float = option(1e-4, "learning rate; of one-cycle, its peak", above=0, high=1000)
    schedule: str = option(
        "constant", "how the learning rate runs", choices=("constant", "one-cycle")
    )
    batch: int | None = option(
        10, "images a step; none: by their size", low=2, high=MANY, whole=True, optional=True
    )
    epochs: int = option(200, "most passes over the training images", low=1, high=MANY, whole=True)
    steps: int | None = option(
        None, "length in steps instead, whole epochs", low=1, high=MANY, whole=True, optional=True
    )
    patience: int | None = option(
        20, "epochs without a better validation Dice", low=1, high=MANY, whole=True, optional=True
    )
    momentum: float = option(0.1, "BatchNorm's, for its running statistics", above=0, high=1)
    bce: float = option(1.0, "weight of the cross-entropy", low=0, high=1000)
    dice: float = option(1.0, "weight of the Dice loss", low=0, high=1000)
    validation: float = option(0.2, "share of images held out", above=0, below=1)
    augment: str = option(
        "none", "random changes of the images", choices=("none", "light", "strong")
    )
    seed: int = option(0, SEED, help="of the split, the weights and the order")

    def __post_init__(self) -> None:
        check(self)
        if self.bce + self.dice == 0:
            raise InvalidSetting("A loss is needed: bce and dice are both 0.")

    @classmethod
    def named(cls, name: str, **changes: Any) -> Recipe:
        """A recipe by name (``paper`` or ``fast``), with changed settings."""
        if name not in RECIPES:
            raise unknown_name("recipe", name, RECIPES)
        require_known("Recipe", changes, cls)
        return cls(**{**RECIPES[name], **changes})

    def as_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self)

    def length(self, images: int, pixels: int) -> tuple[int, int]:
        """Epochs at most, and steps of each; the pixels of an image set a batch that is None."""
        batch = self.batch or min(10, max(4, round(10 * USUAL_PIXELS / pixels)))
        each = -(-images // batch)
        return (self.epochs if self.steps is None else max(1, round(self.steps / each))), each


USUAL_PIXELS = 128 * 128  # ten such images make a step
RECIPES: dict[str, dict[str, Any]] = {
    "paper": {},
    # Chosen by measurement: see docs/training.md.
    "fast": {"rate": 1e-3, "schedule": "one-cycle", "batch": None, "steps": 220, "patience": None},
}
