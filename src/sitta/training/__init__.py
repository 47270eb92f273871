"""Train a source model: the paper's recipe, or a fast one."""

from sitta.training.recipe import RECIPES, Recipe
from sitta.training.run import Job, Result, train
from sitta.training.watch import Watch

__all__ = ["RECIPES", "Job", "Recipe", "Result", "Watch", "train"]
