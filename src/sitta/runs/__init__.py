"""Predict files, folders and volumes: masks with trust figures, and a report."""

from sitta.runs.answer import Answer
from sitta.runs.engine import Run, predict
from sitta.runs.inputs import Item, find_inputs
from sitta.runs.loading import Loaded, load_model
from sitta.runs.plan import Plan

__all__ = ["Answer", "Item", "Loaded", "Plan", "Run", "find_inputs", "load_model", "predict"]
