"""Predict files, folders and volumes: masks with trust scores, and a report."""

from sitta.inference.loading import Loaded, load_model
from sitta.inference.request import Request
from sitta.inference.run import Run, predict

__all__ = ["Loaded", "Request", "Run", "load_model", "predict"]
