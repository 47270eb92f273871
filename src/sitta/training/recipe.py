"""How a source model is trained: the paper's recipe, and a fast one for machines without a GPU."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sitta.errors import InvalidSetting
from sitta.settings import Rule, check, require_known, setting


@dataclass(frozen=True)
class Recipe:
    """Settings of a training run; the defaults are the paper's (section 4.1 and appendix).

    Example:
        >>> Recipe.named("paper").rate, Recipe.named("fast", seed=3).seed
        (0.0001, 3)
    """

    rate: float = setting(1e-4, Rule("learning rate; of one-cycle, its peak", above=0))
    schedule: str = setting(
        "constant", Rule("how the learning rate runs", choices=("constant", "one-cycle"))
    )
    batch: int | None = setting(
        10, Rule("images a step; none: by their size", low=2, whole=True, optional=True)
    )
    epochs: int = setting(200, Rule("most passes over the training images", low=1, whole=True))
    steps: int | None = setting(
        None, Rule("length in steps instead, whole epochs", low=1, whole=True, optional=True)
    )
    patience: int | None = setting(
        20, Rule("epochs without a better validation Dice", low=1, whole=True, optional=True)
    )
    momentum: float = setting(0.1, Rule("BatchNorm's, for its running statistics", above=0, high=1))
    bce: float = setting(1.0, Rule("weight of the cross-entropy", low=0))
    dice: float = setting(1.0, Rule("weight of the Dice loss", low=0))
    validation: float = setting(0.2, Rule("share of images held out", above=0, below=1))
    augment: str = setting(
        "none", Rule("random changes of the images", choices=("none", "light", "strong"))
    )
    seed: int = setting(0, Rule("of the split, the weights and the order", low=0, whole=True))

    def __post_init__(self) -> None:
        check(self)
        if self.bce + self.dice == 0:
            raise InvalidSetting("A loss is needed: bce and dice are both 0.")

    @classmethod
    def named(cls, name: str, **changes: Any) -> Recipe:
        """A recipe by name, with some values changed.

        Args:
            name: ``paper`` or ``fast``.
            **changes: Settings that differ.
        """
        if name not in RECIPES:
            raise InvalidSetting(
                "There is no such recipe.", allowed=", ".join(RECIPES), got=repr(name)
            )
        require_known("Recipe", changes, cls)
        return cls(**{**RECIPES[name], **changes})

    def as_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self)

    def length(self, images: int, pixels: int) -> tuple[int, int]:
        """Epochs at most, and steps of each.

        Args:
            images: Number of training images.
            pixels: Of one image; decides how many make a step, if ``batch`` is None.
        """
        batch = self.batch or min(10, max(4, round(10 * USUAL_PIXELS / pixels)))
        each = -(-images // batch)
        return (self.epochs if self.steps is None else max(1, round(self.steps / each))), each


USUAL_PIXELS = 128 * 128  # ten such images make a step
RECIPES: dict[str, dict[str, Any]] = {
    "paper": {},
    # Chosen by measurement: see docs/training.md.
    "fast": {
        "rate": 1e-3,
        "schedule": "one-cycle",
        "batch": None,
        "steps": 220,
        "patience": None,
    },
}
