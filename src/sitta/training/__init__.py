"""Train a source model: the paper's recipe, or a fast one."""

from sitta.training.callback import Callback
from sitta.training.recipe import RECIPES, Recipe
from sitta.training.run import Job, Result, train

__all__ = ["RECIPES", "Callback", "Job", "Recipe", "Result", "train"]
