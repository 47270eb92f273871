"""Predict files, folders and volumes: masks with trust figures, and a report."""

from sitta.runs.engine import Plan, Run, predict
from sitta.runs.inputs import Item, find_inputs
from sitta.runs.loading import Loaded, load_model

__all__ = ["Item", "Loaded", "Plan", "Run", "find_inputs", "load_model", "predict"]
